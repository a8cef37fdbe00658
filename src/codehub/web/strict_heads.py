"""One reading of Host and Authorization: that of the public port (proxy/heads.py), also where our proxy is not before.

A server that is asked by itself (`codehub api`, a health port) takes the first Host or the last, and proxies in front
of it may take another one.
"""

from http import HTTPStatus

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from codehub.web.errors import error_body
from codehub.web.proxy.heads import BadHead, check_sender


class StrictHeads:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                check_sender(scope["headers"])
            except BadHead as bad:
                await JSONResponse(error_body("bad_request", str(bad)), HTTPStatus.BAD_REQUEST)(scope, receive, send)
                return
        await self._app(scope, receive, send)
