"""Errors as answers: one shape, `{"error": {"code", "message"}}`, with `details` where a program can use them.

Nothing else reaches a caller: no stack trace, no text of a database or a library. The cause is in the log.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from codehub import errors as e
from codehub.web import mistakes, request_ids
from codehub.web.headers import SECURITY_HEADERS

log = structlog.get_logger(__name__)

STATUSES: Mapping[type[e.CodeHubError], HTTPStatus] = {
    e.NotLoggedIn: HTTPStatus.UNAUTHORIZED,
    e.NotAllowed: HTTPStatus.FORBIDDEN,
    e.NotFound: HTTPStatus.NOT_FOUND,
    e.Invalid: HTTPStatus.UNPROCESSABLE_ENTITY,
    e.Conflict: HTTPStatus.CONFLICT,
    e.Gone: HTTPStatus.GONE,
    e.Outdated: HTTPStatus.PRECONDITION_FAILED,
    e.OverLimit: HTTPStatus.TOO_MANY_REQUESTS,
    e.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}

# What the framework refuses by itself. Not the names of HTTPStatus: other versions of Python have others.
_HTTP_CODES = {
    400: ("bad_request", "The request cannot be read."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "This address does not have that method."),
    406: ("not_acceptable", "There is no answer of the kind that was asked for."),
    413: ("too_large", "The request is too large."),
    415: ("unsupported_media_type", "The request is of a kind that is not read here."),
    422: ("invalid", "The request cannot be used."),
}


def install(app: FastAPI) -> None:
    app.add_exception_handler(e.ServiceError, _service_error)
    app.add_exception_handler(e.Unavailable, _unavailable)
    app.add_exception_handler(HTTPException, http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(Exception, _internal_error)


def error_body(code: str, message: str, details: Mapping[str, object] | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message} | ({"details": details} if details else {})}


async def _service_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, e.ServiceError)
    status = next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)
    headers = {}
    if isinstance(error, e.OverLimit) and error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if isinstance(error, e.NotLoggedIn):
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(error_body(error.code, str(error), error.details), status, headers)


async def _unavailable(_request: Request, error: Exception) -> JSONResponse:
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return JSONResponse(error_body("unavailable", str(error)), status, {"Retry-After": "2"})


async def http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code, usual = _HTTP_CODES.get(error.status_code, ("http_error", "The request was refused."))
    plain = not error.detail or error.detail in {status.phrase for status in HTTPStatus}
    message = usual if plain else str(error.detail)
    return JSONResponse(error_body(code, message), error.status_code, headers=error.headers)


async def _invalid_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return JSONResponse(error_body("invalid", mistakes.sentence(error.errors()[0])), HTTPStatus.UNPROCESSABLE_ENTITY)


async def _internal_error(request: Request, error: Exception) -> JSONResponse:
    request_id = request_ids.of(request.scope) or ""
    log.error("a request failed", path=request.url.path, request_id=request_id, exc_info=error)
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    message = "Something went wrong here; the log has the details."
    body = error_body("internal_server_error", message, {"request_id": request_id} if request_id else None)
    headers = {**SECURITY_HEADERS, request_ids.HEADER: request_id} if request_id else SECURITY_HEADERS
    return JSONResponse(body, status, headers)  # this one passes no middleware of ours
