"""A page of another site that has its own name lead here (DNS rebinding) reads nothing, on any port of ours."""

import socket
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from codehub.config import Settings
from codehub.metrics import Metrics
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.hosts import Hosts, Place
from codehub.web.our_hosts import hosts_of, machine_name
from tests.api.conftest import context

__all__ = ["context"]

PLAIN = Hosts(names=["hub.lan", "*.corp.example", "build_box"])
PUBLIC = Hosts("ws.example.com", "https://hub.example.com:8443")
OURS = [
    "localhost", "localhost:8080", "LocalHost.:80", "codehub.localhost:8080", "127.0.0.1:8080", "192.0.2.7", "[::1]:80",
    "[2001:db8::7]", "10.1.2.3:8080", "hub.lan", "HUB.lan:9", "a.corp.example", "b.a.corp.example", "build_box:8080",
]  # fmt: skip
STRANGE = [
    "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "hub.lan.evil.example",
    "corp.example", "xcorp.example", "", "a,b", "localhost,evil.example", "[::1", "127.1", "0x7f000001", "2130706433",
    "localhost:x", "user@localhost", "hub.lan/x", "evil.example.", ".localhost.evil", "a b",
]  # fmt: skip


@pytest.mark.parametrize("authority", OURS)
def test_names_that_nobody_else_can_lead_here_are_ours(authority: str) -> None:
    assert PLAIN.place_of(authority) is Place.MAIN


@pytest.mark.parametrize("authority", STRANGE)
def test_other_names_are_not(authority: str) -> None:
    assert PLAIN.place_of(authority) is Place.STRANGE


@pytest.mark.parametrize("authority", ["hub.example.com", "hub.example.com:8443", "127.0.0.1", "ws.example.com"])
def test_what_settings_name_is_ours(authority: str) -> None:
    assert PUBLIC.place_of(authority) is Place.MAIN


def test_a_public_url_is_no_licence_for_other_names() -> None:
    assert PUBLIC.place_of("evil.example") is Place.STRANGE
    assert PUBLIC.place_of("x.ws.example.com") is Place.NOWHERE


def test_this_machine_knows_its_own_name(settings: Settings) -> None:
    name = socket.gethostname().lower().partition(".")[0]
    assert machine_name() == name
    assert hosts_of(settings).place_of(f"{name}:8080") is Place.MAIN


def searched() -> list[str]:
    """As whoever runs the network's DHCP says."""
    lines = [line.split() for line in Path("/etc/resolv.conf").read_text().splitlines()]
    return [domain for line in lines if line and line[0] in ("search", "domain") for domain in line[1:]]


@pytest.mark.parametrize("domain", ["local", "lan", "example.com", *searched()])
def test_names_that_the_network_gives_away_are_not_believed(settings: Settings, domain: str) -> None:
    """Whoever runs it could lead them here, and away again."""
    assert hosts_of(settings).place_of(f"{machine_name()}.{domain}:8080") is Place.STRANGE


def test_they_are_once_a_setting_says_so(settings: Settings) -> None:
    accounts = settings.accounts.model_copy(update={"allowed_hosts": (f"{machine_name()}.local",)})
    listed = settings.model_copy(update={"accounts": accounts})
    assert hosts_of(listed).place_of(f"{machine_name()}.local:8080") is Place.MAIN


@pytest.fixture(params=["the API", "a health port"])
def app(request: pytest.FixtureRequest, context: Context, settings: Settings) -> FastAPI:
    return create_app({}, Metrics(), **({"context": context} if request.param == "the API" else {"settings": settings}))


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/", "/api/v1/login", "/nowhere"])
async def test_another_name_reads_nothing(app: FastAPI, path: str) -> None:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example:8080") as rebound:
        answer = await rebound.get(path)
    assert answer.status_code == 421
    error = answer.json()["error"]
    assert error["code"] == "unknown_host"
    assert "evil.example" in error["message"]
    assert "CODEHUB_ALLOWED_HOSTS" in error["message"]


@pytest.mark.parametrize("name", ["10.42.0.7:8080", "localhost", "[fd00::7]:8080"])
async def test_probes_and_scrapers_ask_by_address(app: FastAPI, name: str) -> None:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url=f"http://{name}") as probe:
        assert (await probe.get("/readyz")).status_code == 200
        assert (await probe.get("/metrics")).status_code == 200


async def test_a_balancer_may_ask_whether_it_lives_under_any_name(app: FastAPI) -> None:
    transport = httpx.ASGITransport(app, client=("192.0.2.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://elb-probe.internal") as probe:
        assert (await probe.get("/healthz")).text == "ok\n"
