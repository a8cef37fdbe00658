"""OpenID providers in processes of their own, and a browser's way to them and back."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from codehub.config import Settings
from codehub.metrics import Metrics
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.support import eventually, free_port

BASE_URL = "http://codehub.test"
START = "/api/v1/login/oidc"


@contextmanager
def provider_process(*command: str) -> Iterator[str]:
    """A provider in a process of its own; its issuer."""
    port = free_port()
    arguments = [each.format(port=port) for each in command]
    with subprocess.Popen([sys.executable, *arguments], stderr=subprocess.DEVNULL) as process:
        try:
            issuer = f"http://127.0.0.1:{port}"
            eventually(lambda: _answers(issuer), "the provider answers", 60)
            yield issuer
        finally:
            process.kill()


def _answers(issuer: str) -> bool:
    try:
        return httpx.get(f"{issuer}/.well-known/openid-configuration").status_code == 200
    except httpx.HTTPError:
        return False


def tell(issuer: str, **state: object) -> None:
    assert httpx.put(f"{issuer}/state", json=state).status_code == 200


def app_of(context: Context, monkeypatch: pytest.MonkeyPatch, **settings: str) -> httpx.ASGITransport:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    changed = Context(Settings.load(), context.pool, context.redis, context.images, context.default_backend)
    return httpx.ASGITransport(create_app({}, Metrics(), context=changed), client=("192.0.2.7", 1))


async def through(browser: httpx.AsyncClient, start: str = START) -> str:
    """To the provider, as far as where it sends the browser back to."""
    there = await browser.get(start)
    assert there.status_code == 303, there.text
    async with httpx.AsyncClient() as outside:
        back = await outside.get(there.headers["location"])
    assert back.status_code == 303, back.text
    assert back.headers["location"].startswith(f"{BASE_URL}/api/v1/login/oidc/callback?")
    return str(back.headers["location"])


async def log_in(browser: httpx.AsyncClient, start: str = START) -> httpx.Response:
    return await browser.get(await through(browser, start))
