"""Failed logins slow down, on a real Valkey; nobody can be kept out with it, and nothing is told by it."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from codehub.errors import OverLimit
from codehub.signals import throttle
from codehub.signals.connect import Redis, open_redis
from codehub.signals.throttle import LoginThrottle

FIRST = 30  # long enough for a slow machine
HOME, AWAY = "192.0.2.1", "198.51.100.1"


SLOW = pytest.approx(FIRST, abs=10)


@pytest.fixture
async def counting(redis: Redis) -> LoginThrottle:
    return LoginThrottle(redis, first_delay=FIRST)


@pytest.fixture
async def redis_away() -> AsyncIterator[LoginThrottle]:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens
        async with open_redis(f"redis://127.0.0.1:{closed.getsockname()[1]}") as client:
            yield LoginThrottle(client, first_delay=FIRST)


@pytest.fixture(params=["Redis answers", "Redis is away"])
def either(request: pytest.FixtureRequest, counting: LoginThrottle, redis_away: LoginThrottle) -> LoginThrottle:
    return counting if request.param == "Redis answers" else redis_away


async def waits(each: LoginThrottle, username: str, address: str | None, device: str | None = None) -> int:
    """Seconds that this login is told to wait; 0 when it was let through and then failed."""
    try:
        await each.begin(username, address, device)
    except OverLimit as refused:
        return refused.retry_after or -1
    return 0


async def fail(each: LoginThrottle, times: int, *, username: str = "ada", address: str = HOME) -> None:
    for _ in range(times):
        assert await waits(each, username, address) == 0


async def no_waiting(redis: Redis) -> None:
    """As if the delays had passed; the counts stay."""
    for key in await redis.keys("codehub:login:*"):
        if await redis.type(key) == b"hash":
            await redis.hdel(key, "until")


async def test_from_the_fifth_failure_on(either: LoginThrottle) -> None:
    await fail(either, 5)
    assert await waits(either, "ada", HOME) == SLOW


async def test_delays_double_up_to_a_cap(counting: LoginThrottle, redis: Redis) -> None:
    await fail(counting, 4)
    delays = []
    for _ in range(8):
        await fail(counting, 1)
        delays.append(await waits(counting, "ada", HOME))
        await no_waiting(redis)
    assert delays == pytest.approx([30, 60, 120, 240, 480, 900, 900, 900], abs=10)


async def test_the_fifth_failure_costs_a_second(redis: Redis) -> None:
    each = LoginThrottle(redis)
    await fail(each, 5)
    now, _ = await redis.time()
    for key in await redis.keys("codehub:login:*"):
        until = float(await redis.hget(key, "until") or 0)
        assert until - now <= 2, "a second, and what the clock has gone on"
        assert until - now > -10


async def test_a_refused_attempt_makes_it_no_longer(counting: LoginThrottle) -> None:
    await fail(counting, 5)
    for _ in range(20):
        assert await waits(counting, "ada", HOME) == SLOW


async def test_many_at_once_gain_nothing(counting: LoginThrottle) -> None:
    results = await asyncio.gather(*(waits(counting, "ada", HOME) for _ in range(50)))
    assert results.count(0) == 5


async def test_it_counts_per_user_whatever_the_address(counting: LoginThrottle) -> None:
    for number in range(5):
        await fail(counting, 1, address=f"203.0.113.{number}")
    assert await waits(counting, "Ada", AWAY) == SLOW
    assert await waits(counting, "bob", AWAY) == 0


async def test_it_counts_per_address_whatever_the_user(counting: LoginThrottle) -> None:
    for number in range(5):
        await fail(counting, 1, username=f"user-{number}")
    assert await waits(counting, "ada", HOME) == SLOW
    assert await waits(counting, "ada", AWAY) == 0


async def test_an_address_is_what_one_machine_is_given(counting: LoginThrottle) -> None:
    for number in range(5):
        await fail(counting, 1, username=f"user-{number}", address=f"2001:db8::{number}")
    assert await waits(counting, "ada", "2001:db8::ffff:1") == SLOW
    assert await waits(counting, "ada", "2001:db8:0:1::1") == 0


@pytest.mark.parametrize(("pattern", "free"), [("2001:db8:0:1{:02x}::1", 16), ("2001:db8:0:{:x}00::1", 64)])
async def test_whoever_has_many_networks_is_counted_by_what_they_share(
    either: LoginThrottle, pattern: str, free: int
) -> None:
    """A /56 or a /48, which many people may share, too: so many failures are free."""
    for number in range(free):
        await fail(either, 1, username=f"user-{number}", address=pattern.format(number))
    assert await waits(either, "ada", pattern.format(250)) == 0  # the attempt is charged, and the next one waits
    assert await waits(either, "eve", pattern.format(251)) > 0
    assert await waits(either, "bob", "2001:db8:1::1") == 0


async def test_whoever_is_here_or_nobody_can_name_is_one(counting: LoginThrottle) -> None:
    """A header makes nobody of somebody on this machine, and loopback has millions of addresses."""
    for number, address in enumerate(["127.0.0.1", None, "127.0.0.2", "::1", None]):
        assert await waits(counting, f"user{number}", address) == 0
    for address in ("127.0.0.1", "127.9.9.9", None, "::ffff:127.0.0.3"):
        assert await waits(counting, "another", address) == SLOW
    assert await waits(counting, "another", AWAY) == 0


async def test_one_attacker_cannot_keep_a_user_out(counting: LoginThrottle, redis: Redis) -> None:
    """Once the address is slowed down, it cannot charge the user any more; and a user's delay has a small cap."""
    for _ in range(20):
        await waits(counting, "ada", HOME)
        await no_waiting(redis)
    await fail(counting, 1)
    assert await waits(counting, "ada", AWAY) <= throttle.USER_CAP_SECONDS
    for key in await redis.keys("codehub:login:user:*"):
        await redis.hdel(key, "until")  # a minute later
    assert await waits(counting, "ada", HOME) > throttle.USER_CAP_SECONDS, "the attacker still waits"
    assert await waits(counting, "ada", AWAY) == 0, "the user does not"


async def test_a_browser_that_is_known_is_not_kept_out_by_others(counting: LoginThrottle) -> None:
    await counting.succeeded(await counting.begin("ada", HOME), "a browser")
    for number in range(5):
        await fail(counting, 1, address=f"203.0.113.{number}")
    assert await waits(counting, "ada", HOME) == SLOW
    assert await waits(counting, "ada", HOME, "a browser") == 0
    assert await waits(counting, "ada", HOME, "another browser") == SLOW


async def test_a_known_browser_is_known_for_its_user_and_has_a_limit_too(counting: LoginThrottle) -> None:
    await counting.succeeded(await counting.begin("eve", HOME), "a browser")
    await fail(counting, 5)
    assert await waits(counting, "ada", HOME, "a browser") == SLOW, "eve's browser is no key to ada's account"
    assert [await waits(counting, "eve", HOME, "a browser") for _ in range(6)] == [0, 0, 0, 0, 0, SLOW]


async def test_a_right_password_is_forgiven(either: LoginThrottle) -> None:
    await fail(either, 3)
    await either.succeeded(await either.begin("ada", HOME))
    assert [await waits(either, "ada", AWAY) for _ in range(4)] == [0, 0, 0, 0], "the user starts over"
    assert [await waits(either, name, HOME) for name in ("bob", "carl")] == [0, 0]
    assert await waits(either, "dora", HOME) == SLOW, "what failed from there is not forgotten by one success"


async def test_an_outage_in_the_middle_is_nobodys_failure(either: LoginThrottle) -> None:
    for _ in range(10):
        await either.forgive(await either.begin("ada", HOME))
    await fail(either, 5)
    assert await waits(either, "ada", HOME) == SLOW


async def test_what_is_counted_is_forgotten_in_time_and_holds_no_name(counting: LoginThrottle, redis: Redis) -> None:
    await fail(counting, 1, username="my-secret-password")
    keys = await redis.keys("codehub:login:*")
    assert len(keys) == 2
    assert all([0 < await redis.ttl(key) <= throttle.MEMORY_SECONDS for key in keys])
    assert "my-secret-password" not in str(keys)


async def test_memory_is_bounded_while_redis_is_away(redis_away: LoginThrottle) -> None:
    attempt = throttle.Attempt("u", (throttle.Count("k", 60),))
    for number in range(throttle._MOST_IN_MEMORY + 50):
        redis_away._own[str(number)] = throttle._Counter(last=1e18)
    redis_away._charge_own(attempt)
    assert len(redis_away._own) <= throttle._MOST_IN_MEMORY + 1
