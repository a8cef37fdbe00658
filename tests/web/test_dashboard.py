"""The dashboard as it is served: one page for every screen, files for ever, and plain words without a build."""

import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from codehub.metrics import Metrics
from codehub.web import errors
from codehub.web.app import Observe
from codehub.web.dashboard import built, pages
from codehub.web.dashboard.built import File

SCREENS = ["/", "/login", "/workspaces/new", "/workspaces/0b1f", "/trash", "/account", "/admin", "/admin/users"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>the page")
    (tmp_path / "assets" / "index-abc.js").write_text("script")
    return tmp_path


@asynccontextmanager
async def client_of(files: Mapping[str, File]) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    pages.include(app, files)
    errors.install(app)
    app.add_middleware(Observe, metrics=Metrics())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://codehub.test") as client:
        yield client


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(built.read(folder)) as client:
        yield client


@pytest.mark.parametrize("path", SCREENS)
async def test_every_screen_is_the_page(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.text == "<!doctype html>the page"
    assert answer.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    "path", ["/w/0b1f/", "/api/v1/nothing", "/.codehub/enter", "/nothing", "/assets/../index.html"]
)
async def test_what_is_others_is_not_the_page(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


async def test_who_goes_nowhere_sees_the_page_and_a_program_an_error(client: httpx.AsyncClient) -> None:
    going = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}
    shown = await client.get("/nothing/at/all", headers=going)
    assert (shown.status_code, shown.text) == (404, "<!doctype html>the page")
    assert shown.headers["cross-origin-opener-policy"] == "same-origin"
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    for path in ("/api/v1/nothing", "/assets/gone.js"):
        answer = await client.get(path, headers=going)
        assert answer.json()["error"]["code"] == "not_found"
    assert (await client.get("/nothing", headers={"Accept": "*/*"})).json()["error"]["code"] == "not_found"
    assert (await client.post("/nothing", headers=going)).status_code == 404


async def test_the_page_runs_nothing_but_our_own_and_speaks_to_nobody_else(client: httpx.AsyncClient) -> None:
    policy = (await client.get("/")).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "data:" not in policy


@pytest.mark.parametrize("path", SCREENS)
async def test_a_page_of_another_window_has_no_hold_on_it(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).headers["cross-origin-opener-policy"] == "same-origin"


async def test_the_page_is_asked_for_anew_and_files_are_kept_for_ever(client: httpx.AsyncClient) -> None:
    page, script = await client.get("/"), await client.head("/assets/index-abc.js")
    assert page.headers["cache-control"] == "no-cache"
    assert "immutable" in script.headers["cache-control"]
    again = await client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert again.status_code == 304
    assert not again.content


@pytest.mark.parametrize(
    ("accepted", "encoding"),
    [
        ("gzip, br", "gzip"),
        ("br;q=1.0, gzip;q=0.5", "gzip"),
        ("gzip;q=0, br", None),
        ("", None),
    ],
)
async def test_whoever_can_read_it_gets_it_compressed(
    client: httpx.AsyncClient, accepted: str, encoding: str | None
) -> None:
    async with client.stream("GET", "/assets/index-abc.js", headers={"Accept-Encoding": accepted}) as answer:
        assert answer.headers.get("content-encoding") == encoding
        assert answer.headers["vary"] == "Accept-Encoding"
        body = b"".join([piece async for piece in answer.aiter_raw()])
        assert (body if encoding is None else gzip.decompress(body)) == b"script"


async def test_without_a_build_it_says_what_to_do(tmp_path: Path) -> None:
    assert built.read(tmp_path) == {}
    async with client_of({}) as client:
        answer = await client.get("/")
        assert answer.status_code == 503
        assert "make dashboard" in answer.text
        assert (await client.get("/assets/index-abc.js")).status_code == 404
