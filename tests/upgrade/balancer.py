"""A public address before several proxies, as an installation has one: whoever connects is led to the next proxy that
says that it is ready; connections that are open stay where they are.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from urllib.parse import urlsplit

import httpx

from tests.support import eventually

_LOOK_SECONDS = 0.1


@dataclass
class Target:
    """One proxy; `ready` is the address that it says it at."""

    url: str
    ready: str
    is_ready: bool = False

    def is_left(self) -> None:
        """Wait until nobody is led there any more."""
        eventually(lambda: not self.is_ready, f"{self.url} says that it leaves")


class Balancer:
    def __init__(self) -> None:
        self.targets: list[Target] = []
        self.url = ""
        self._numbers = count()
        self._over = asyncio.Event()
        self._led: set[asyncio.Task[None]] = set()

    def add(self, url: str, ready: str) -> Target:
        target = Target(url, ready)
        self.targets.append(target)
        eventually(lambda: target.is_ready, f"{url} is ready")
        return target

    async def run(self) -> None:
        server = await asyncio.start_server(self._lead, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
            while not self._over.is_set():
                for target in list(self.targets):
                    target.is_ready = await _says_ready(client, target.ready)
                await asyncio.sleep(_LOOK_SECONDS)
        server.close()

    def stop(self) -> None:
        self._over.set()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._led.add(task)
        task.add_done_callback(self._led.discard)
        ready = [target for target in self.targets if target.is_ready]
        if ready:
            parts = urlsplit(ready[next(self._numbers) % len(ready)].url)
            try:
                far_reader, far_writer = await asyncio.open_connection(parts.hostname, parts.port)
                async with asyncio.TaskGroup() as both:
                    both.create_task(_pass_on(reader, far_writer))
                    both.create_task(_pass_on(far_reader, writer))
            except* OSError:
                pass
        writer.close()


async def _says_ready(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@contextmanager
def balancing() -> Iterator[Balancer]:
    made = Balancer()
    thread = threading.Thread(target=lambda: asyncio.run(made.run()))
    thread.start()
    try:
        eventually(lambda: bool(made.url), "the balancer listens")
        yield made
    finally:
        made.stop()
        thread.join(20)
