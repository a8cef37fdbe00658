"""A request to the API has a size limit, whether it says its size or not; answers have their headers in any case."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from codehub.metrics import Metrics
from codehub.web import bodies
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.headers import SECURITY_HEADERS
from codehub.web.server import listen, serve, url_of


@pytest.fixture
async def url(context: Context) -> AsyncIterator[str]:
    """A real server: chunks and sizes are its matter."""
    listener = listen("127.0.0.1", 0)
    serving = asyncio.create_task(serve(create_app({}, Metrics(), context=context), listener))
    yield url_of(listener)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    listener.close()


def login_head(host: str, size: int) -> bytes:
    """What comes before a body that says to be of that many bytes."""
    return f"POST /api/v1/login HTTP/1.1\r\nHost: {host}\r\nContent-Length: {size}\r\n\r\n".encode()


def login(size: int) -> bytes:
    """A login of that many bytes."""
    start, end = b'{"username": "a", "password": "', b'"}'
    return start + b"x" * (size - len(start) - len(end)) + end


def pieces(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


async def some(body: bytes) -> AsyncIterator[bytes]:
    for piece in pieces(body):
        yield piece


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "status"), [(bodies.MOST_BYTES, 422), (bodies.MOST_BYTES + 1, 413), (5_000_000, 413)])
async def test_a_megabyte_and_no_more(url: str, chunked: bool, size: int, status: int) -> None:
    body = login(size)
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{url}api/v1/login", content=some(body) if chunked else body, headers=headers)
    assert answer.status_code == status
    assert answer.json()["error"]["code"] == ("too_large" if status == 413 else "invalid")
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name] == value


async def test_what_is_too_large_is_refused_before_it_is_sent(url: str) -> None:
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(login_head(host, 1_000_000_000))
    async with asyncio.timeout(10):
        line = await reader.readline()
    writer.close()
    assert b" 413 " in line


async def test_a_body_in_pieces_arrives_whole(url: str) -> None:
    async with httpx.AsyncClient() as client:
        answer = await client.post(
            f"{url}api/v1/login", content=some(login(900_000)), headers={"Content-Type": "application/json"}
        )
    assert answer.json()["error"]["message"].startswith("body.password: must not have more than")


async def test_one_who_hangs_up_in_the_middle_harms_nobody(url: str) -> None:
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(login_head(host, 1000) + b"{")
    async with httpx.AsyncClient() as client:
        assert (await client.get(f"{url}healthz")).status_code == 200
