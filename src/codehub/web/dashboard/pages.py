"""Serves the dashboard: one page for every path that its screens have, and the files that the page names.

- Files have their content's hash in their name and may be kept for ever; the page is asked for anew each time.
- Nothing but our own scripts and styles runs in it, and it speaks to nobody else (the policy below).
- Whoever goes to an address that nobody has sees the dashboard's own page for it; programs get the API's error.
- Without a build the server says so in plain words; the API and the command line work all the same.
"""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from codehub.web.crossing import Sent
from codehub.web.dashboard.built import INDEX, File, read
from codehub.web.errors import http_error

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# A page of another window has no hold on the dashboard's, however one opened the other.
_PROTECTED = {"Content-Security-Policy": POLICY, "Cross-Origin-Opener-Policy": "same-origin"}
# The screens (frontend/src/app.tsx). /w/, /api/ and /.codehub/ are others'.
SCREENS = ("/", "/login", "/workspaces/{name}", "/trash", "/account", "/admin", "/admin/{rest:path}")
_OTHERS = ("/w/", "/api/", "/.codehub/", "/assets/")
_NOT_BUILT = (
    "CodeHub runs, but its dashboard is not built.\n\n"
    "Run `make dashboard` in CodeHub's folder and start CodeHub again (`make up` does both).\n"
    "The API and the command line (`codehub --help`) work without it.\n"
)


def include(app: FastAPI, files: Mapping[str, File] | None = None) -> None:
    """Add the dashboard's routes; `files` instead of what is built here."""
    found = read() if files is None else files

    async def screen(request: Request) -> Response:
        index = found.get(INDEX)
        if index is None:
            return PlainTextResponse(_NOT_BUILT, HTTPStatus.SERVICE_UNAVAILABLE)
        return _answer(request, index, "no-cache", _PROTECTED)

    async def asset(request: Request, name: str) -> Response:
        file = found.get(f"assets/{name}")
        if file is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return _answer(request, file, "public, max-age=31536000, immutable", {})

    async def nowhere(request: Request, error: Exception) -> Response:
        index = found.get(INDEX)
        is_ours = not request.url.path.startswith(_OTHERS)
        if index is None or not is_ours or not Sent.of(request.method, request.headers).is_navigation:
            return await http_error(request, error)
        answer = _answer(request, index, "no-cache", _PROTECTED)
        answer.status_code = HTTPStatus.NOT_FOUND
        return answer

    for path in SCREENS:
        app.add_api_route(path, screen, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route("/assets/{name}", asset, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_exception_handler(HTTPStatus.NOT_FOUND.value, nowhere)


def _answer(request: Request, file: File, caching: str, more: Mapping[str, str]) -> Response:
    headers = {"Cache-Control": caching, "ETag": file.etag, "Vary": "Accept-Encoding", **more}
    if file.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    body, encoding = file.best_for(request.headers.get("accept-encoding", ""))
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    return Response(body, media_type=file.media_type, headers=headers)
