"""A server that says what a test wants: for what a real one seldom does."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from codehub.client import Client

Answer = httpx.Response | Exception
URL = "https://codehub.test"
WORKSPACE_ID = "0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11"


class Script(httpx.BaseTransport):
    """Answers each request with the next of its answers; remembers what was asked."""

    def __init__(self, *answers: Answer | Callable[[httpx.Request], httpx.Response]) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    @property
    def last(self) -> httpx.Request:
        return self.asked[-1]


@contextmanager
def client_of(script: Script, token: str | None = "secret") -> Iterator[Client]:
    with Client(URL, token, transport=script) as client:
        yield client


def ok(body: object, status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=body, headers=headers)


def refusal(status: int, code: str, message: str, details: Mapping[str, Any] | None = None) -> httpx.Response:
    error: dict[str, Any] = {"code": code, "message": message}
    if details is not None:
        error["details"] = details
    return httpx.Response(status, json={"error": error})


def workspace(**changes: Any) -> dict[str, Any]:
    return {
        "id": WORKSPACE_ID,
        "owner": {"id": "77aa6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11", "username": "ada"},
        "name": "thesis",
        "image_ref": "test",
        "backend": "process",
        "created_at": "2026-01-01T00:00:00+00:00",
        "updated_at": "2026-01-01T00:00:00+00:00",
        "phase_changed_at": "2026-01-01T00:00:00+00:00",
        "desired_state": "RUNNING",
        "phase": "STANDBY",
        "operation": "STARTING",
        "url": f"/w/{WORKSPACE_ID}/",
        **changes,
    }


def sse(*events: tuple[str, object]) -> httpx.Response:
    text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    return httpx.Response(200, text=text, headers={"content-type": "text/event-stream"})
