"""The connection to Redis fails in words and heals by itself."""

import pytest

from codehub.errors import StartError, Unavailable
from codehub.signals.connect import open_redis, ping
from tests.conftest import ServerUrls


async def test_a_running_server_answers(server_urls: ServerUrls) -> None:
    async with open_redis(server_urls.redis) as redis:
        await ping(redis)


async def test_no_server_is_unavailable_not_an_exception_of_the_library() -> None:
    async with open_redis("redis://127.0.0.1:1/0") as redis:
        with pytest.raises(Unavailable, match="does not answer"):
            await ping(redis)


async def test_a_wrong_password_is_told_apart(server_urls: ServerUrls) -> None:
    path = server_urls.redis.split("@", 1)[1]
    async with open_redis(f"unix://:wrong@{path}") as redis:
        with pytest.raises(Unavailable, match="password"):
            await ping(redis)


async def test_an_address_that_is_none_is_refused_at_start() -> None:
    with pytest.raises(StartError, match="REDIS_URL"):
        async with open_redis("not a url"):
            pass


async def test_a_lost_connection_is_made_again_by_the_next_call(server_urls: ServerUrls) -> None:
    async with open_redis(server_urls.redis) as redis:
        await ping(redis)
        await redis.client_kill_filter(_type="normal", skipme=False)
        await ping(redis)
