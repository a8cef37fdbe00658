"""One request to the server: time limits, the credential, and every failure as an ApiError that says what to do.

A server that says that it is busy (503, with when to ask again) is asked again a few times, where doing it twice is
doing it once: such an answer may also mean that it was done, and that nobody was told in time.
"""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from codehub.client.errors import NOT_CODEHUB, UNREACHABLE, ApiError

API = "/api/v1"
TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_LONGEST_TEXT = 300  # of an answer that is not ours
_REPEATS = 2
_LONGEST_PAUSE_SECONDS = 5.0
_REPEATABLE = frozenset({"GET", "PATCH", "DELETE"})

M = TypeVar("M", bound=BaseModel)


def tidy_url(text: str) -> str:
    """The server's address without the slash at its end. Raises ValueError with what is wrong."""
    url = text.strip().rstrip("/")
    if "://" not in url:
        raise ValueError(f"{text!r} is not a URL; write it as https://host or http://host:port.")
    parts = urlsplit(url)
    try:
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise ValueError(f"{text!r} is not a URL; write it as https://host or http://host:port.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("The URL must hold neither a user nor a password, a query or a fragment.")
    return url


class Http:
    """A connection to one server, with one credential."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: httpx.Timeout | float = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
        user_agent: str = "codehub-client",
    ) -> None:
        self.url = tidy_url(url)
        headers = {"User-Agent": user_agent, "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {_header_safe(token)}"
        # Redirects are not followed: a token is for this server only.
        self._client = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def use_cookies_of(self, response: httpx.Response) -> None:
        """Send back what the server set, whatever kind of connection the cookie is for."""
        pairs = [header.split(";")[0].strip() for header in response.headers.get_list("set-cookie")]
        self._client.headers["Cookie"] = "; ".join(pair for pair in pairs if not pair.endswith("="))
        self._client.cookies.clear()

    def prove_with(self, proof: str) -> None:
        """Send it with every request: some ask for a fresh proof of who is in a session."""
        self._client.headers["Login-Proof"] = _header_safe(proof)

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: object = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> httpx.Response:
        """A successful answer, or ApiError."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        limit = httpx.USE_CLIENT_DEFAULT if timeout is None else httpx.Timeout(timeout)
        # With If-Match it is not: what was seen before may be what the first attempt has changed.
        repeats = _REPEATS if method in _REPEATABLE and "If-Match" not in (headers or {}) else 0
        attempt = 0
        while True:
            with self.reaching():
                response = self._client.request(method, path, params=given, json=json, headers=headers, timeout=limit)
            pause = _retry_after(response) if response.status_code == httpx.codes.SERVICE_UNAVAILABLE else None
            if pause is None or attempt == repeats:
                self.check(response, is_repeated=attempt > 0)
                return response
            time.sleep(min(pause, _LONGEST_PAUSE_SECONDS))
            attempt += 1

    @contextmanager
    def stream(self, path: str, *, read_seconds: float, accept: str = "text/event-stream") -> Iterator[httpx.Response]:
        """An answer that goes on; silent for longer than `read_seconds`, it counts as lost."""
        timeout = httpx.Timeout(read_seconds, connect=10.0)
        headers = {"Accept": accept, "Cache-Control": "no-store"}
        with self.reaching(), self._client.stream("GET", path, timeout=timeout, headers=headers) as response:
            if not response.is_success:
                response.read()
                self.check(response)
            yield response

    def get(self, kind: type[M], path: str, **params: object) -> M:
        return self.read(kind, self.call("GET", path, params=params))

    def read(self, kind: type[M], response: httpx.Response) -> M:
        """The answer's body as a value."""
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            raise self._not_ours(f"{kind.__name__}: {error.errors()[0]['msg']}", response.status_code) from error

    def check(self, response: httpx.Response, *, is_repeated: bool = False) -> None:
        if response.is_success:
            return
        status = response.status_code
        if response.is_redirect:
            where = response.headers.get("location", "elsewhere")
            raise self._not_ours(f"it redirects to {where}", status)
        try:
            error = response.json()["error"]
            code, message, details = str(error["code"]), str(error["message"]), error.get("details")
        except (ValueError, KeyError, TypeError, AttributeError):
            if status >= 500:
                raise ApiError(
                    f"{self.url} cannot do its work now (status {status}). Try again, or ask who runs it.",
                    code=UNREACHABLE,
                    status=status,
                ) from None
            raise self._not_ours(f"status {status}", status) from None
        details = details if isinstance(details, dict) else None
        raise ApiError(
            message,
            code=code,
            status=status,
            details=details,
            retry_after=_retry_after(response),
            is_repeated=is_repeated,
        )

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """The edge where a connection's troubles become an ApiError."""
        try:
            yield
        except httpx.TimeoutException as error:
            raise ApiError(f"{self.url} did not answer in time. Is it running?", code=UNREACHABLE) from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise ApiError(f"{self.url} cannot be reached: {_cause(error)}", code=UNREACHABLE) from error

    def _not_ours(self, what: str, status: int | None) -> ApiError:
        return ApiError(
            f"{self.url} does not answer as CodeHub does ({what[:_LONGEST_TEXT]}). Check the URL.",
            code=NOT_CODEHUB,
            status=status,
        )


def _cause(error: Exception) -> str:
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return "its certificate is not trusted. If its authority is your own, name it in SSL_CERT_FILE."
    if "Name or service not known" in said or "nodename" in said or "name resolution" in said:
        return "there is no such host. Check the URL."
    if "refused" in said:
        return "nothing listens there. Is it running, and is the port right?"
    if "WRONG_VERSION_NUMBER" in said or "record layer failure" in said:
        return "it does not speak TLS there. Try http:// instead of https://."
    return f"{said.rstrip('.') or type(error).__name__}. Check the URL and the network."


def _retry_after(response: httpx.Response) -> float | None:
    try:
        seconds = float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return seconds if 0 <= seconds < math.inf else None


def _header_safe(token: str) -> str:
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError("The token is not one of CodeHub's: it holds characters that no token has.")
    return token
