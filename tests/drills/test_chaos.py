"""The chaos drill tells what was noticed, also when the installation does not come back."""

import asyncio
import json

import httpx
import pytest

from codehub.drills.chaos import drill
from codehub.drills.parts import Part
from codehub.errors import StartError

OURS = "11111111-1111-1111-1111-111111111111"


class Api:
    """Answers as far as the drill asks; nothing once it is dead."""

    def __init__(self) -> None:
        self.memo = "0"
        self.phase = "ARCHIVED"
        self.is_dead = False
        self.refuses = 0  # so many requests
        self.slow_seconds = 0.0
        self.is_deleted = False

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(self.slow_seconds)
        if self.is_dead or self.refuses:
            self.refuses = max(0, self.refuses - 1)
            raise httpx.ConnectError("refused")
        one = {"id": OURS, "phase": self.phase, "desired_state": "ARCHIVED", "memo": self.memo}
        match request.method, request.url.path.rpartition("/")[2]:
            case "PATCH", _:
                self.memo = json.loads(request.content)["memo"]
            case "DELETE", _:
                self.is_deleted = True
            case "GET", "workspaces":
                return httpx.Response(200, json={"items": [one]})
        return httpx.Response(200, json=one)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://codehub")

    def die(self) -> None:
        self.is_dead = True


async def test_what_survives_is_well() -> None:
    api, said = Api(), list[str]()
    report = await drill(api.client(), [Part("x", lambda: None)], say=said.append, settle_seconds=0.2)
    assert report.is_well
    assert [death.part for death in report.deaths] == ["x"]
    assert (said, api.is_deleted) == (["killing x"], True)


async def test_what_does_not_come_back_is_told_and_the_rest_is_spared() -> None:
    api, said = Api(), list[str]()
    parts = [Part("database", api.die), Part("cache", lambda: None)]
    report = await drill(api.client(), parts, say=said.append, settle_seconds=0.2, give_up_seconds=1.5)
    assert not report.is_well
    ((death,), unseen) = report.deaths, report.unseen
    assert (death.part, death.answers_again) == ("database", False)
    assert death.noticed.causes.keys() == {"ConnectError"}
    assert "refused" in unseen
    assert report.as_dict()["unseen"] == unseen
    assert said[0] == "killing database"
    assert OURS in said[-1], "what is left is named"


async def test_children_that_outlive_a_server_for_a_moment_are_not_the_end_of_it() -> None:
    api, looks = Api(), 0

    def look() -> list[int]:
        nonlocal looks
        looks += 1
        if looks <= 2:
            return [1, 2] if looks == 1 else [2]
        return [] if api.refuses else [3]

    def kill() -> None:
        api.refuses = 6

    report = await drill(api.client(), [Part("database", kill, look)], say=lambda _: None, settle_seconds=0.5)
    assert report.deaths[0].noticed.failed == 6
    assert report.deaths[0].is_back
    assert report.is_well


async def test_one_good_answer_and_then_silence_is_not_calm() -> None:
    api = Api()

    def slow_down() -> None:
        api.slow_seconds = 0.9
        api.is_dead = True

    report = await drill(
        api.client(), [Part("x", slow_down)], say=lambda _: None, settle_seconds=0.8, give_up_seconds=1.5
    )
    assert not report.deaths[0].answers_again


async def test_an_installation_that_was_not_well_before_is_a_line() -> None:
    api = Api()
    api.phase = "PENDING"
    with pytest.raises(StartError, match="not all was well before"):
        await drill(api.client(), [], say=lambda _: None, give_up_seconds=0.3)
    assert api.is_deleted
