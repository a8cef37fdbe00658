"""An engine that answers and cannot: it is stopping, or what it needs is out. Every verb says so in our own terms."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from codehub.drivers.docker import DockerDriver
from codehub.errors import DriverError, Unreachable
from tests.drivers_docker.conftest import FolderStore
from tests.drivers_docker.test_outage import VERBS
from tests.lab.docker import Lab
from tests.support import short_folder

LOOKS = [name for name in VERBS if name.split(".")[-1] in ("observe", "look", "logs")]
NO = (500, {"message": "the daemon is shutting down"})


def stop_listening(path: Path) -> None:
    path.unlink(missing_ok=True)


@asynccontextmanager
async def engine(path: Path, answer: Callable[[str], tuple[int, object]]) -> AsyncIterator[None]:
    """Listens where an engine would, and answers each request, by its path, with a status and a document."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status, document = answer((await reader.readuntil(b"\r\n\r\n")).decode().split()[1])
        body = json.dumps(document)
        fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
        writer.write(f"HTTP/1.1 {status} X\r\n{fields}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, str(path))
    try:
        yield
    finally:
        server.close()
        stop_listening(path)


@pytest.mark.parametrize("knows", ["its version", "nothing"])
@pytest.mark.parametrize("verb", VERBS)
async def test_an_engine_that_answers_500(lab: Lab, store: FolderStore, verb: str, knows: str) -> None:
    def answer(path: str) -> tuple[int, object]:
        return (200, {"ApiVersion": "1.41"}) if path == "/version" and knows == "its version" else NO

    socket = short_folder() / "engine.sock"
    driver = DockerDriver(lab.options(host=f"unix://{socket}"), store.job_urls)
    async with engine(socket, answer):
        with pytest.raises(DriverError) as caught:
            await VERBS[verb](driver)
    if knows == "nothing" or verb in LOOKS:
        assert isinstance(caught.value, Unreachable)
    await driver.close()


async def test_an_engine_that_was_replaced_during_an_outage_is_asked_what_it_speaks(
    lab: Lab, store: FolderStore
) -> None:
    socket = short_folder() / "engine.sock"
    driver = DockerDriver(lab.options(host=f"unix://{socket}"), store.job_urls)
    asked: list[str] = []
    for version in ("1.44", "1.41"):

        def answer(path: str, version: str = version) -> tuple[int, object]:
            if path == "/version":
                return 200, {"ApiVersion": version}
            asked.append(path.split("/")[1])
            return 200, []

        async with engine(socket, answer):
            assert await driver.instances.observe() == {}
        with pytest.raises(Unreachable):
            await driver.instances.observe()
    assert asked == ["v1.44", "v1.41"]
    await driver.close()
