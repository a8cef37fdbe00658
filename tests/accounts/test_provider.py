"""What a provider publishes, and how often it is asked for that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from codehub.config import OidcConfig
from codehub.errors import Unavailable
from codehub.services.provider import Provider
from tests.support import eventually_async, free_port


@asynccontextmanager
async def silent_provider(port: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """It takes connections, and answers none until it ends."""
    asked: list[asyncio.StreamWriter] = []

    async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(writer)

    async with await asyncio.start_server(take, "127.0.0.1", port):
        yield asked
        for each in asked:
            each.close()


async def is_unavailable(provider: Provider) -> bool:
    with suppress(Unavailable):
        await provider.verified("a.b.c")
        return False
    return True


async def test_an_outage_is_asked_about_once_by_however_many() -> None:
    """Anybody can send a logout token, and its request would make one of ours."""
    port = free_port()
    config = OidcConfig.model_validate({"issuer": f"http://127.0.0.1:{port}", "client_id": "x"})
    async with silent_provider(port) as asked:
        provider = Provider(config)
        waiting = [asyncio.create_task(is_unavailable(provider)) for _ in range(50)]

        async def is_asked() -> bool:
            return bool(asked)

        await eventually_async(is_asked, "the provider is asked")
        gone = waiting.pop()
        gone.cancel()  # whose request is over takes nobody's answer with them
        await asyncio.wait([gone])
        asked[0].close()
        assert all(await asyncio.gather(*waiting))
        assert await is_unavailable(provider)
        assert len(asked) == 1


async def test_after_a_moment_it_is_asked_again() -> None:
    port = free_port()
    config = OidcConfig.model_validate({"issuer": f"http://127.0.0.1:{port}", "client_id": "x"})
    provider = Provider(config, failed=0.0)
    assert await is_unavailable(provider)
    async with silent_provider(port) as asked:

        async def is_asked() -> bool:
            attempt = asyncio.create_task(is_unavailable(provider))
            await asyncio.wait([attempt], timeout=0.1)
            attempt.cancel()
            return bool(asked)

        await eventually_async(is_asked, "the provider is asked again")
