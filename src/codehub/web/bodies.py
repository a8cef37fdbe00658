"""How large a request to the API may be: 1 MB, whether it says its size or not, and how long it may take to arrive.

The body is read here, before anything else is done for the request; what is too large is never read to its end. Only
paths of the API are limited: what goes to a workspace has no limit.
"""

import asyncio
import contextlib
from http import HTTPStatus

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codehub.web.errors import error_body

MOST_BYTES = 1_000_000
MOST_SECONDS = 30.0
_LIMITED = "/api/"
_LINGER_BYTES, _LINGER_SECONDS = 10 * MOST_BYTES, 5.0


class BodyLimit:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_LIMITED) or not (size := _size(scope)):
            await self._app(scope, receive, send)
            return
        try:
            body = await _read(receive, size)
        except TimeoutError:
            await _refuse(HTTPStatus.REQUEST_TIMEOUT, "too_slow", "The request took too long to arrive.", receive, send)
            return
        if body is None:
            message = f"The request is larger than {MOST_BYTES // 1_000_000} MB."
            await _refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", message, receive, send)
            return
        await self._app(scope, _again(body, receive), send)


async def _refuse(status: HTTPStatus, code: str, message: str, receive: Receive, send: Send) -> None:
    """Answer, then take in a little more: a client that is still sending would miss it on a closed connection."""
    answer = JSONResponse(error_body(code, message), status, {"Connection": "close"})
    await send({"type": "http.response.start", "status": int(status), "headers": answer.raw_headers})
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            left = _LINGER_BYTES
            while left > 0:
                received = await receive()
                left -= len(received.get("body", b""))
                if received["type"] != "http.request" or not received.get("more_body", False):
                    break
    await send({"type": "http.response.body", "body": b""})


def _size(scope: Scope) -> int | None:
    """The size that the request says it has, more than allowed when it does not say; None without a body."""
    headers = dict(scope["headers"])
    if b"transfer-encoding" in headers:
        return MOST_BYTES
    try:
        return int(headers.get(b"content-length", b"0"))
    except ValueError:
        return MOST_BYTES


async def _read(receive: Receive, size: int) -> list[Message] | None:
    """Every message of the body; None when it is too large."""
    if size > MOST_BYTES:
        return None
    messages: list[Message] = []
    read = 0
    async with asyncio.timeout(MOST_SECONDS):
        while True:
            message = await receive()
            messages.append(message)
            read += len(message.get("body", b""))
            if read > MOST_BYTES:
                return None
            if message["type"] != "http.request" or not message.get("more_body", False):
                return messages


def _again(messages: list[Message], receive: Receive) -> Receive:
    """The messages that were read, then what comes after them."""
    rest = iter(messages)

    async def replay() -> Message:
        return next(rest, None) or await receive()

    return replay
