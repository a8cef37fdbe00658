"""/healthz, /readyz and /metrics, and what a request that fails looks like."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from codehub.config import Settings
from codehub.dependencies import Check, Degraded, Dependency
from codehub.errors import Unavailable
from codehub.metrics import Metrics
from codehub.web import health
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.api.conftest import context
from tests.support import eventually_async

__all__ = ["context"]


async def up() -> None:
    """A dependency that answers."""


async def down() -> None:
    raise Unavailable("It does not answer.", "Start it.")


async def warned() -> str:
    return "It could be better: <b>mend it</b>."


async def silent() -> None:
    await asyncio.Event().wait()


@pytest.fixture
def checks() -> dict[Dependency, Check]:
    return {Dependency.POSTGRESQL: up, Dependency.REDIS: up}


@pytest.fixture
def app(checks: dict[Dependency, Check]) -> FastAPI:
    return create_app(checks, Metrics())


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


async def test_alive_whatever_its_dependencies_do(client: httpx.AsyncClient, checks: dict[Dependency, Check]) -> None:
    checks[Dependency.POSTGRESQL] = down
    answer = await client.get("/healthz")
    assert (answer.status_code, answer.text) == (200, "ok\n")


async def test_ready_when_every_dependency_answers(client: httpx.AsyncClient) -> None:
    answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["dependencies"] == {"postgresql": {"state": "up"}, "redis": {"state": "up"}}


async def test_up_with_a_warning_is_ready(client: httpx.AsyncClient, checks: dict[Dependency, Check]) -> None:
    checks[Dependency.REDIS] = warned
    answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "ready"
    assert answer.json()["dependencies"]["redis"] == {"state": "up", "detail": "It could be better: <b>mend it</b>."}


async def test_up_with_something_out_behind_it_is_degraded(
    client: httpx.AsyncClient, checks: dict[Dependency, Check]
) -> None:
    async def degraded() -> str:
        return Degraded("archive store: it is full.")

    checks[Dependency.COORDINATOR] = degraded
    answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["status"] == "degraded"
    assert answer.json()["dependencies"]["coordinator"] == {"state": "up", "detail": "archive store: it is full."}


async def test_how_workspaces_are_kept_apart_is_told_as_it_is_now(checks: dict[Dependency, Check]) -> None:
    told = {"process": ["In a sandbox."]}
    transport = httpx.ASGITransport(create_app(checks, Metrics(), lambda: told))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        assert (await client.get("/readyz")).json()["isolation"] == {"process": ["In a sandbox."]}
        told["process"] = ["Not any more."]
        assert (await client.get("/readyz")).json()["isolation"] == {"process": ["Not any more."]}


async def test_not_ready_says_which_dependency_and_what_to_do(
    client: httpx.AsyncClient, checks: dict[Dependency, Check]
) -> None:
    checks[Dependency.REDIS] = down
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["dependencies"]["redis"] == {"state": "down", "detail": "It does not answer. Start it."}
    assert answer.json()["dependencies"]["postgresql"] == {"state": "up"}


async def test_a_dependency_that_hangs_does_not_hang_the_answer(
    client: httpx.AsyncClient, checks: dict[Dependency, Check]
) -> None:
    checks[Dependency.POSTGRESQL] = silent
    async with asyncio.timeout(health.CHECK_SECONDS + 3):
        answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert "No answer" in answer.json()["dependencies"]["postgresql"]["detail"]


async def test_a_check_that_breaks_is_a_dependency_that_is_down(
    client: httpx.AsyncClient, checks: dict[Dependency, Check]
) -> None:
    async def broken() -> None:
        raise TypeError("inside")

    checks[Dependency.REDIS] = broken
    answer = await client.get("/readyz")
    assert answer.status_code == 503
    assert "inside" not in answer.text


async def test_a_scrape_alone_knows_the_state_of_the_dependencies(
    client: httpx.AsyncClient, checks: dict[Dependency, Check]
) -> None:
    assert 'codehub_dependency_up{name="redis"} 1.0' in (await client.get("/metrics")).text
    checks[Dependency.REDIS] = down

    async def is_told() -> bool:
        return 'codehub_dependency_up{name="redis"} 0.0' in (await client.get("/metrics")).text

    await eventually_async(is_told, "what is two seconds old is looked at again")


async def test_a_bug_is_counted(app: FastAPI, client: httpx.AsyncClient) -> None:
    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError

    await client.get("/broken")
    metrics = (await client.get("/metrics")).text
    assert 'codehub_http_requests_total{method="GET",route="/broken",status="500"} 1.0' in metrics


async def test_metrics_show_the_dependencies_and_the_requests(
    client: httpx.AsyncClient, checks: dict[Dependency, Check]
) -> None:
    checks[Dependency.REDIS] = down
    await client.get("/readyz")
    await client.get("/no/such/path")
    metrics = (await client.get("/metrics")).text
    assert 'codehub_dependency_up{name="redis"} 0.0' in metrics
    assert 'codehub_http_requests_total{method="GET",route="/readyz",status="503"} 1.0' in metrics
    assert "/no/such/path" not in metrics, "a stranger's paths must not become labels"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nope", 404), ("POST", "/healthz", 405), ("GET", "/number?n=x", 422)]
)
async def test_an_error_has_one_shape(
    app: FastAPI, client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    @app.get("/number")
    async def number(n: int) -> int:
        return n

    answer = await client.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message"}


async def test_a_bug_shows_no_stack_trace(app: FastAPI, client: httpx.AsyncClient) -> None:
    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("secret detail")

    answer = await client.get("/broken")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_server_error"
    assert "secret detail" not in answer.text


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/nope", "/broken"])
async def test_every_answer_has_the_security_headers(app: FastAPI, client: httpx.AsyncClient, path: str) -> None:
    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError

    headers = (await client.get(path)).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


async def test_everybody_shares_one_look(client: httpx.AsyncClient, checks: dict[Dependency, Check]) -> None:
    looks = 0

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)

    checks[Dependency.REDIS] = counted
    await asyncio.gather(*(client.get(path) for path in ("/readyz", "/", "/metrics") * 10))
    assert looks == 1


@pytest.mark.parametrize(
    ("peer", "forwarded", "networks", "is_told"),
    [
        ("127.0.0.1", None, "", True),
        ("::1", None, "", True),
        ("192.0.2.7", None, "", False),
        ("192.0.2.7", "127.0.0.1", "", False),  # it says so itself
        ("10.0.0.1", "127.0.0.1", "", False),  # within a trusted network anybody could say so
        ("10.0.0.1", "192.0.2.7", "", False),
        ("10.0.0.1", "127.0.0.1, 192.0.2.7", "", False),
        (None, "192.0.2.7", "", False),  # our own proxy, over its socket
        (None, "127.0.0.1", "", True),
        (None, "unknown", "", False),
        (None, None, "", False),
        ("127.0.0.2", "192.0.2.7:1234", "", False),  # a proxy on this machine, which speaks for somebody
        ("127.0.0.2", "", "", False),
        ("127.0.0.2", "127.0.0.1", "", False),
        ("127.0.0.2", None, "", True),
        ("127.0.0.1", "192.0.2.7", "", False),  # … also when no setting names it
        ("::1", "127.0.0.1", "", False),
        ("192.0.2.7", None, "192.0.2.0/24", True),
        ("127.0.0.1", None, "192.0.2.0/24", False),
    ],
)
async def test_details_are_told_to_the_networks_that_a_setting_names(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    peer: str | None,
    forwarded: str | None,
    networks: str,
    is_told: bool,
) -> None:
    monkeypatch.setenv("CODEHUB_HEALTH_NETWORKS", networks)
    monkeypatch.setenv("CODEHUB_TRUSTED_PROXIES", "10.0.0.0/8,127.0.0.2/32")
    asked = Context(Settings.load(), context.pool, context.redis, context.images, context.default_backend)
    app = create_app({Dependency.POSTGRESQL: down}, Metrics(), lambda: {"process": ["In a sandbox."]}, asked)

    async def from_there(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "client": (peer, 1234) if peer else None}, receive, send)

    headers = {} if forwarded is None else {"X-Forwarded-For": forwarded}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(from_there), base_url="http://localhost") as client:
        ready = await client.get("/readyz", headers=headers)
        metrics = await client.get("/metrics", headers=headers)
    assert ready.status_code == 503, "everybody may know that"
    assert ready.json()["status"] == "not ready"
    if is_told:
        assert ready.json()["dependencies"]["postgresql"]["detail"] == "It does not answer. Start it."
        assert "codehub_dependency_up" in metrics.text
    else:
        assert ready.json() == {"status": "not ready", "dependencies": {}}
        assert (metrics.status_code, metrics.json()["error"]["code"]) == (403, "not_allowed")
