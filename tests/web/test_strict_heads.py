"""A server that no proxy of ours stands before reads Host and Authorization as the proxy does."""

import httpx
import pytest
from fastapi import FastAPI

from codehub.config import Settings
from codehub.metrics import Metrics
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.proxy.heads import BadHead, read_request
from tests.api.conftest import context

__all__ = ["context"]

HOST = ("Host", "localhost")
REFUSED = {
    "two hosts": [HOST, ("Host", "evil.example")],
    "the same host twice": [HOST, HOST],
    "a list of hosts": [("Host", "localhost,evil.example")],
    "a host with a user": [("Host", "user@localhost")],
    "an empty host": [("Host", "")],
    "two credentials": [HOST, ("Authorization", "Bearer a"), ("Authorization", "Bearer b")],
    "one credential twice": [HOST, ("Authorization", "Bearer a"), ("authorization", "Bearer a")],
}


@pytest.fixture(params=["the API", "a health port"])
def app(request: pytest.FixtureRequest, context: Context, settings: Settings) -> FastAPI:
    return create_app({}, Metrics(), **({"context": context} if request.param == "the API" else {"settings": settings}))


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/api/v1/session"])
@pytest.mark.parametrize("case", REFUSED)
async def test_what_two_readers_could_take_for_different_things_is_refused(app: FastAPI, case: str, path: str) -> None:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as caller:
        answer = await caller.get(path, headers=REFUSED[case])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request")
    assert answer.headers["content-security-policy"]


@pytest.mark.parametrize("case", REFUSED)
def test_the_proxy_reads_it_alike(case: str) -> None:
    lines = "".join(f"\r\n{name}: {value}" for name, value in REFUSED[case])
    with pytest.raises(BadHead):
        read_request(f"GET / HTTP/1.1{lines}".encode())


async def test_one_of_each_is_read(app: FastAPI) -> None:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as caller:
        assert (await caller.get("/healthz", headers=[HOST, ("Authorization", "Basic x")])).status_code == 200
