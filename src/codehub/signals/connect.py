"""The connection to Redis: every call has a timeout, and one that was lost is made again by the next call."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, ConnectionError, RedisError, ResponseError  # noqa: A004 - Redis's own

from codehub.errors import StartError, Unavailable

Redis = redis.asyncio.Redis

_TIMEOUT_SECONDS = 1.5  # who waits for an answer over HTTP is told within two seconds


@asynccontextmanager
async def open_redis(url: str) -> AsyncIterator[Redis]:
    """A client for `url`; does not connect yet."""
    try:
        client = Redis.from_url(
            url,
            socket_timeout=_TIMEOUT_SECONDS,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            # A connection that the server closed while it was idle is noticed only by using it. What took too long is
            # not tried again.
            retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
            retry_on_error=[ConnectionError],
            client_name="codehub",
        )
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)  # an option that does not exist is noticed only here
    except (ValueError, TypeError) as error:
        raise StartError(
            "REDIS_URL is not an address that can be used.", "Write it as redis://:password@host:6379/0."
        ) from error
    async with client:
        yield client


def apart(client: Redis, *, seconds: float) -> Redis:
    """A client of the same server with a connection of its own, to be closed by the caller.

    It is for calls that the server takes its time for: no answer within `seconds` is none.
    """
    pool = client.connection_pool
    options = {**pool.connection_kwargs, "socket_timeout": seconds}
    return Redis.from_pool(
        redis.asyncio.ConnectionPool(connection_class=pool.connection_class, max_connections=2, **options)
    )


@contextmanager
def answering() -> Iterator[None]:
    """The edge where whatever is wrong with Redis becomes Unavailable; nothing above it sees the library."""
    try:
        yield
    except (RedisError, OSError) as error:
        if isinstance(error, AuthenticationError) or isinstance(error.__cause__, AuthenticationError):
            raise Unavailable("Redis refused the password.", "Check REDIS_URL.") from error
        if isinstance(error, ResponseError):
            raise Unavailable("Redis refused a command.", f"It said: {error}") from error
        raise Unavailable("Redis does not answer.", "Check that it runs and that REDIS_URL is right.") from error


async def ping(client: Redis) -> None:
    """Raise Unavailable, with the cause in words, unless Redis answers."""
    with answering():
        await client.ping()
