"""A page of CodeHub's own host plants cookies beside ours: that locks nobody out, and makes nobody somebody else."""

from datetime import timedelta

import httpx
import pytest

from codehub.db.pool import Pool
from codehub.web.cookie_tossing import endings
from codehub.web.cookies import FLOW, PLAIN
from tests.accounts.people import Person, add_person, session_headers

ME = "/api/v1/session"


@pytest.fixture
async def ada(pool: Pool) -> Person:
    return await add_person(pool)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("planted", ["nonsense", "", "x" * 43])
async def test_a_planted_cookie_locks_nobody_out_and_is_ended(
    client: httpx.AsyncClient, pool: Pool, ada: Person, planted: str, *, is_first: bool
) -> None:
    cookies = [(await session_headers(pool, ada))["Cookie"], f"codehub_session={planted}"]
    answer = await client.get(ME, headers={"Cookie": "; ".join(cookies[::-1] if is_first else cookies)})
    assert answer.json()["user"]["username"] == ada.username
    ended = answer.headers.get_list("set-cookie")
    assert "codehub_session=; Max-Age=0; Path=/api" in ended
    assert "codehub_session=; Max-Age=0; Path=/api/v1/session" in ended
    assert "codehub_session=; Max-Age=0; Path=/" not in ended, "that is ours"


async def test_a_planted_session_that_is_alive_counts_no_more_than_ours(
    client: httpx.AsyncClient, pool: Pool, ada: Person
) -> None:
    """Which of both is ours cannot be told; once the planted one is ended, it can."""
    evil = await add_person(pool, "evil")
    both = [(await session_headers(pool, each))["Cookie"] for each in (evil, ada)]
    answer = await client.get(ME, headers={"Cookie": "; ".join(both)})
    assert answer.status_code == 401
    assert "codehub_session=; Max-Age=0; Path=/api" in answer.headers.get_list("set-cookie")


async def test_of_two_that_are_not_alive_none_counts(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    over = (await session_headers(pool, ada, timedelta(seconds=-1)))["Cookie"]
    assert (await client.get(ME, headers={"Cookie": f"{over}; codehub_session=x"})).status_code == 401


async def test_nothing_is_ended_where_nothing_was_planted(client: httpx.AsyncClient, pool: Pool, ada: Person) -> None:
    mine = (await session_headers(pool, ada))["Cookie"]
    answer = await client.get(ME, headers={"Cookie": f"{mine}; {mine}; other=1; other=2"})
    assert answer.status_code == 200
    assert "set-cookie" not in answer.headers


async def test_an_answer_ends_only_so_many_and_in_the_end_all(client: httpx.AsyncClient) -> None:
    """An answer's head has a size that proxies and clients take."""
    path = "/a/b/c/d/e/f/g/h"
    planted = "; ".join(f"{name}={value}" for name in (PLAIN, FLOW) for value in "xy")
    ended: set[str] = set()
    host = client.base_url.host
    everything = {each for name in (PLAIN, FLOW) for each in endings(name, host, path)}
    assert len(everything) > 60
    for _ in range(50):
        lines = (await client.get(path, headers={"Cookie": planted})).headers.get_list("set-cookie")
        assert len(lines) <= 60
        ended.update(lines)
    assert ended == everything


def test_everything_that_could_have_been_planted_is_ended() -> None:
    found = endings("n", "hub.example.com:8080", "/w/x")
    paths = ["/w", "/w/", "/w/x", "/w/x/"]
    for domain in ("hub.example.com", "example.com"):
        assert [each for each in found if each.endswith(f"Domain={domain}")] == [
            f"n=; Max-Age=0; Path={path}; Domain={domain}" for path in ["/", *paths]
        ]
    assert [each for each in found if "Domain" not in each] == [f"n=; Max-Age=0; Path={path}" for path in paths]


@pytest.mark.parametrize("host", ["192.0.2.1:80", "[2001:db8::1]", "127.0.0.1"])
def test_an_address_has_no_domain(host: str) -> None:
    assert not [each for each in endings("n", host, "/api") if "Domain" in each]
