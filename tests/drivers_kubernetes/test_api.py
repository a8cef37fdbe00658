"""What the client makes of the server's answers: whole listings, outages, refusals."""

import pytest

from codehub.drivers.kubernetes.api import ApiError
from codehub.errors import Unreachable
from tests.drivers_kubernetes.scripted import Answer, Asked, failed, listed, server

TWO = ({"n": 1}, {"n": 2})


async def test_a_listing_goes_on_from_page_to_page() -> None:
    def answer(asked: Asked) -> Answer:
        return listed({"n": 3}, version="9") if asked.query.get("continue") == "t" else listed(*TWO, following="t")

    async with server(answer) as (cluster, asked):
        assert await cluster.listing("pods", "x=y") == ([*TWO, {"n": 3}], "9")
        assert [one.query["limit"] for one in asked] == ["2", "2"]
        assert all(one.query["labelSelector"] == "x=y" for one in asked)


async def test_a_listing_whose_place_was_forgotten_begins_again() -> None:
    lost = 0

    def answer(asked: Asked) -> Answer:
        nonlocal lost
        if "continue" not in asked.query:
            return listed({"n": lost}, following="t")
        lost += 1
        return failed(410, "Expired") if lost == 1 else listed({"n": 9})

    async with server(answer) as (cluster, _):
        assert await cluster.all("pods", "x=y") == [{"n": 1}, {"n": 9}]


async def test_a_listing_that_never_comes_to_an_end_is_no_empty_one() -> None:
    def answer(asked: Asked) -> Answer:
        return failed(410, "Expired") if "continue" in asked.query else listed(*TWO, following="t")

    async with server(answer) as (cluster, _):
        with pytest.raises(Unreachable):
            await cluster.all("pods", "x=y")


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503, 504])
async def test_who_cannot_look_has_not_seen_that_nothing_is_there(status: int) -> None:
    async with server(lambda _: failed(status)) as (cluster, _):
        with pytest.raises(Unreachable):
            await cluster.get("pods", "a")
        with pytest.raises(Unreachable):
            await cluster.all("pods", "x=y")


async def test_not_there_is_said_by_404_alone() -> None:
    async with server(lambda _: failed(404, "NotFound")) as (cluster, _):
        assert await cluster.get("pods", "a") is None


@pytest.mark.parametrize("status", [403, 409, 422])
async def test_a_refusal_keeps_its_reason(status: int) -> None:
    async with server(lambda _: failed(status, "Because", "of this")) as (cluster, _):
        with pytest.raises(ApiError) as caught:
            await cluster.create("pods", {})
    assert (caught.value.status, caught.value.reason, caught.value.message) == (status, "Because", "of this")


async def test_a_deletion_names_what_it_means() -> None:
    async with server(lambda _: Answer({})) as (cluster, asked):
        await cluster.delete("pods", "a", uid="u", version="7", grace=1)
    assert asked[0].body["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert asked[0].body["gracePeriodSeconds"] == 1


@pytest.mark.parametrize("answer", [Answer(cut=True), Answer(hang=True), Answer("text")])
async def test_half_an_answer_is_an_outage(answer: Answer) -> None:
    async with server(lambda _: answer) as (cluster, _):
        with pytest.raises(Unreachable):
            (await cluster.get("pods", "a") or {})["metadata"]
