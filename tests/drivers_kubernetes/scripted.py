"""An API server that answers what a test tells it to, over real HTTP."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from codehub.drivers.kubernetes.access import Access
from codehub.drivers.kubernetes.api import Cluster
from codehub.drivers.kubernetes.options import Patience


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    body: Any = None

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


@dataclass(frozen=True)
class Answer:
    """A JSON document, or (a watch) lines of them; `cut` breaks the connection off afterwards, `hang` never ends it."""

    body: Any = None
    status: int = 200
    lines: list[Any] = field(default_factory=list)
    cut: bool = False
    hang: bool = False


def failed(status: int, reason: str = "", message: str = "no") -> Answer:
    return Answer({"kind": "Status", "code": status, "reason": reason, "message": message}, status)


def listed(*items: Any, version: str = "1", following: str = "") -> Answer:
    meta = {"resourceVersion": version} | ({"continue": following} if following else {})
    return Answer({"items": list(items), "metadata": meta})


@asynccontextmanager
async def server(answer: Callable[[Asked], Answer]) -> AsyncIterator[tuple[Cluster, list[Asked]]]:
    """A client of it, and what it was asked."""
    asked: list[Asked] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                url = urlsplit(target)
                query = {key: values[0] for key, values in parse_qs(url.query).items()}
                asked.append(Asked(method, url.path, query, json.loads(body) if body else None))
                await send(reader, writer, answer(asked[-1]))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]

    async def nobody() -> str | None:
        return None

    access = Access(f"http://127.0.0.1:{port}", ssl.create_default_context(), nobody)
    cluster = Cluster(access, "homes", Patience(connect=1.0, look=2.0, act=2.0), page=2)
    try:
        yield cluster, asked
    finally:
        await cluster.close()
        listening.close()


async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer) -> None:
    if answer.lines or answer.hang:
        writer.write(b"HTTP/1.1 200 -\r\nTransfer-Encoding: chunked\r\n\r\n")
        for line in answer.lines:
            data = json.dumps(line).encode() + b"\n"
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await writer.drain()
        if answer.hang:
            await reader.read()  # until the client hangs up
        if not answer.cut:
            writer.write(b"0\r\n\r\n")
    else:
        data = json.dumps(answer.body).encode()
        writer.write(f"HTTP/1.1 {answer.status} -\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    await writer.drain()
    if answer.cut:
        raise ConnectionResetError
