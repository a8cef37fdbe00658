"""A connection costs little: heads have a size and a time, and there are only so many connections."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse

from codehub.web.connections import Limits
from codehub.web.server import listen, serve

Connect = Callable[[], AbstractAsyncContextManager[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
GET = b"GET / HTTP/1.1\r\nHost: x\r\n"


def app() -> FastAPI:
    app = FastAPI()

    @app.post("/")
    async def take(request: Request) -> int:
        return len(await request.body())

    @app.get("/")
    async def show() -> str:
        return "shown"

    @app.get("/slow")
    async def slow() -> StreamingResponse:
        async def lines() -> AsyncIterator[str]:
            for _ in range(4):
                await asyncio.sleep(0.2)  # all of it takes longer than a head may
                yield "line\n"

        return StreamingResponse(lines())

    return app


@pytest.fixture
def limits() -> Limits:
    return Limits(connections=5, head_seconds=0.4)


@pytest.fixture
async def connect(limits: Limits) -> AsyncIterator[Connect]:
    listener = listen("127.0.0.1", 0)
    host, port = listener.getsockname()[:2]
    serving = asyncio.create_task(serve(app(), listener, limits))

    @asynccontextmanager
    async def connected() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            yield reader, writer
        finally:
            writer.close()

    yield connected
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    listener.close()


async def everything(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side hangs up."""
    got = b""
    async with asyncio.timeout(10):
        try:
            while piece := await reader.read(65536):
                got += piece
        except ConnectionError:
            pass
    return got


ENDLESS = {
    "a header": GET + b"X: ",
    "an address": b"GET /",
    "headers": GET,
    "trailers": b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n",
}


@pytest.mark.parametrize("limits", [Limits()])
@pytest.mark.parametrize("what", ENDLESS)
async def test_a_head_has_an_end(connect: Connect, what: str) -> None:
    more = b"X-More: more\r\n" * 8000 if what in ("headers", "trailers") else b"x" * 70_000
    async with connect() as (reader, writer):
        writer.write(ENDLESS[what] + more)
        got = await everything(reader)
    assert b" 200 " not in got
    if what != "trailers":
        assert got.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("limits", [Limits()])
async def test_what_is_below_the_limits_passes(connect: Connect) -> None:
    async with connect() as (reader, writer):
        writer.write(GET + b"X: " + b"x" * 60_000 + b"\r\n\r\n")
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 10)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000)
        writer.write(GET + b"Connection: close\r\n\r\n")
        got = await everything(reader)
    assert b"900000" in got
    assert got.endswith(b'"shown"')


@pytest.mark.parametrize("sent", [b"", b"GET /", b"\r\n", GET])
async def test_a_head_has_a_time(connect: Connect, sent: bytes) -> None:
    async with connect() as (reader, writer):
        writer.write(sent)
        assert await everything(reader) == b""


async def test_the_second_head_has_one_too(connect: Connect) -> None:
    async with connect() as (reader, writer):
        writer.write(GET + b"\r\n")
        assert b'"shown"' in await asyncio.wait_for(reader.readuntil(b'"shown"'), 10)
        writer.write(b"\r\n")  # ends uvicorn's own time for idle connections
        before = asyncio.get_running_loop().time()
        assert await everything(reader) == b""
        assert asyncio.get_running_loop().time() - before < 4


async def test_an_answer_takes_as_long_as_it_takes(connect: Connect) -> None:
    async with connect() as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await everything(reader)).count(b"line") == 4


@pytest.mark.parametrize("limits", [Limits(connections=5)])
async def test_there_are_only_so_many_connections(connect: Connect) -> None:
    async with connect(), connect(), connect(), connect(), connect(), connect() as (reader, _):
        assert await everything(reader) == b""
