"""Every request has an id that nobody but a trusted proxy can choose, and a span that carries it."""

import re
from collections.abc import AsyncIterator
from ipaddress import ip_network
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI
from pydantic import SecretStr

from codehub.config import TracingConfig
from codehub.metrics import Metrics
from codehub.tracing.otlp import exporting
from codehub.web import errors
from codehub.web.app import Observe, healthz
from tests.tracing.collector import attributes, collecting

GIVEN = "0123456789abcdef-lb"


@pytest.fixture
def app() -> FastAPI:
    app = FastAPI()
    app.add_middleware(Observe, metrics=Metrics(), trusted=[ip_network("10.0.0.0/8")])
    errors.install(app)
    app.add_api_route("/healthz", healthz)

    @app.get("/things/{workspace_id}")
    async def thing(workspace_id: str) -> dict[str, object]:
        if workspace_id == "broken":
            raise RuntimeError("a bug")
        return dict(structlog.contextvars.get_contextvars())

    return app


def from_address(app: FastAPI, address: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(address, 1))
    return httpx.AsyncClient(transport=transport, base_url="http://test")


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with from_address(app, "192.0.2.1") as client:
        yield client


async def test_each_answer_has_one_of_its_own_and_logs_have_it_too(client: httpx.AsyncClient) -> None:
    first, second = await client.get("/healthz"), await client.get("/things/x")
    assert re.fullmatch("[0-9a-f]{32}", first.headers["x-request-id"])
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert second.json() == {"request_id": second.headers["x-request-id"]}
    assert structlog.contextvars.get_contextvars() == {}


async def test_a_trusted_proxys_is_taken_over_and_nobody_elses(app: FastAPI, client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz", headers={"X-Request-ID": GIVEN})).headers["x-request-id"] != GIVEN
    async with from_address(app, "10.1.2.3") as proxy:
        assert (await proxy.get("/healthz", headers={"X-Request-ID": GIVEN})).headers["x-request-id"] == GIVEN
        for rubbish in ("short", "x" * 129, "spaces are out", 'quo"tes--'):
            answer = await proxy.get("/healthz", headers={"X-Request-ID": rubbish})
            assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])


async def test_our_own_proxys_is_taken_over(app: FastAPI) -> None:
    async def over_its_socket(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": None, "server": ("/run/api.sock", None)}, receive, send)

    transport = httpx.ASGITransport(over_its_socket)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as proxy:
        assert (await proxy.get("/healthz", headers={"X-Request-ID": GIVEN})).headers["x-request-id"] == GIVEN


async def test_a_bug_is_answered_with_its_id(client: httpx.AsyncClient) -> None:
    answer = await client.get("/things/broken")
    assert answer.status_code == 500
    assert answer.json()["error"]["details"] == {"request_id": answer.headers["x-request-id"]}


async def test_a_request_is_a_span_with_its_route_its_workspace_and_its_id(client: httpx.AsyncClient) -> None:
    with collecting() as collector:
        config = TracingConfig.model_construct(endpoint=collector.url, headers=SecretStr(""), service_name="codehub")
        async with exporting(config):
            answer = await client.get("/things/w1")
            await client.get("/things/broken")
    found = collector.named("GET /things/{workspace_id}")
    assert attributes(found[0]) == {
        "http.request.method": "GET",
        "http.route": "/things/{workspace_id}",
        "http.response.status_code": "200",
        "codehub.request_id": answer.headers["x-request-id"],
        "codehub.workspace": "w1",
    }
    assert found[0]["kind"] == 2
    assert found[1]["status"]["code"] == 2
