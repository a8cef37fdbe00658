"""A thin client of the Docker Engine API: one method per kind of call, time limits on all, errors told apart.

    Unreachable   nothing answered, or not in time, or it could not look: nothing is known
    EngineError   the engine answered and said no: `status` and its own message; callers map it

Speaks over the engine's unix socket or plain TCP, in the newest version of the API that both sides know.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from codehub.drivers.docker.options import Patience
from codehub.errors import SettingsError, Unreachable

NEWEST = (1, 47)
OLDEST = (1, 41)  # Docker 20.10
LOOKED = (404, 409)  # answers that say something about what was asked for: it is not there, it is being removed

T = TypeVar("T")
Params = Mapping[str, str | int | Mapping[str, Any]]


class EngineError(Exception):
    """The engine's own answer; it never leaves this package."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} ({status})")
        self.status = status
        self.message = message


class Engine:
    """One Docker engine."""

    def __init__(self, host: str, patience: Patience) -> None:
        self._host = host
        self._patience = patience
        self._prefix: str | None = None
        parts = urlsplit(host)
        if parts.scheme == "unix":
            transport, url = httpx.AsyncHTTPTransport(uds=parts.path), "http://docker"
        elif parts.scheme in ("tcp", "http"):
            transport, url = httpx.AsyncHTTPTransport(), f"http://{parts.netloc}"
        else:
            raise SettingsError(f"DOCKER_HOST={host}: must be unix:///path or tcp://host:port.")
        timeout = httpx.Timeout(None, connect=patience.connect, pool=patience.look)
        self._client = httpx.AsyncClient(transport=transport, base_url=url, timeout=timeout, trust_env=False)

    async def close(self) -> None:
        await self._client.aclose()

    async def get(self, path: str, **params: str | int | Mapping[str, Any]) -> Any:  # noqa: ANN401 - JSON
        return _json(await self._look(path, params))

    async def read(self, path: str, **params: str | int | Mapping[str, Any]) -> bytes:
        """A body that is not JSON: logs."""
        return (await self._look(path, params)).content

    async def post(
        self, path: str, body: object = None, *, seconds: float | None = None, **params: str | int | Mapping[str, Any]
    ) -> Any:  # noqa: ANN401 - JSON
        return _json(await self._call("POST", path, params, body, seconds or self._patience.act))

    async def delete(self, path: str, **params: str | int | Mapping[str, Any]) -> None:
        await self._call("DELETE", path, params, None, self._patience.act)

    async def lines(
        self, method: str, path: str, *, seconds: float | None, **params: str | int | Mapping[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """A stream of JSON documents, one per line: events, or the progress of a pull. An empty one says: connected."""
        async with self._reached(seconds), self._stream(method, path, params) as response:
            yield {}
            async for line in response.aiter_lines():
                if line.strip():
                    yield json.loads(line)

    async def feed(self, container_id: str, data: bytes) -> None:
        """Start a container that was made with StdinOnce, give it its whole standard input, and hang up.

        Should we die on the way, the engine closes its input, and it ends by itself.
        """
        async with self._reached(self._patience.act):
            path = f"/containers/{container_id}/attach"
            headers = {"Upgrade": "tcp", "Connection": "Upgrade"}
            async with self._stream("POST", path, {"stream": 1, "stdin": 1}, headers) as response:
                wire = response.extensions["network_stream"]
                await self.post(f"/containers/{container_id}/start")
                await wire.write(data)

    # -- the wire ----------------------------------------------------------------------------------------------------

    async def _look(self, path: str, params: Params) -> httpx.Response:
        """An engine that cannot say what is there (it is stopping, say) is as good as out."""
        try:
            return await self._call("GET", path, params, None, self._patience.look)
        except EngineError as error:
            if error.status in LOOKED:
                raise
            raise Unreachable(f"The Docker engine at {self._host} cannot look: {error.message}.") from error

    async def _call(self, method: str, path: str, params: Params, body: object, seconds: float) -> httpx.Response:
        async with self._reached(seconds):
            content = body if isinstance(body, bytes) else None
            response = await self._client.request(
                method,
                await self._url(path),
                params=_encoded(params),
                json=None if content is not None else body,
                content=content,
            )
        if response.status_code >= httpx.codes.BAD_REQUEST:
            raise _error(response)
        return response

    @asynccontextmanager
    async def _stream(
        self, method: str, path: str, params: Params, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[httpx.Response]:
        url = await self._url(path)
        async with self._client.stream(method, url, params=_encoded(params), headers=headers) as response:
            if response.status_code >= httpx.codes.BAD_REQUEST:
                await response.aread()
                raise _error(response)
            yield response

    async def _url(self, path: str) -> str:
        if self._prefix is None:
            answer = await self._client.get("/version", timeout=self._patience.look)
            if answer.status_code != httpx.codes.OK:
                raise Unreachable(f"The Docker engine at {self._host} is not up: {_error(answer)}.")
            self._prefix = version_prefix(answer.json()["ApiVersion"])
        return f"{self._prefix}{path}"

    @asynccontextmanager
    async def _reached(self, seconds: float | None) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except (httpx.TransportError, OSError, json.JSONDecodeError) as error:  # TimeoutError is an OSError
            self._prefix = None  # it may be another one when it is back
            why = str(error) or type(error).__name__
            raise Unreachable(f"The Docker engine at {self._host} does not answer: {why}.") from error


def version_prefix(engine: str) -> str:
    """The path that selects the newest version both sides know."""
    theirs = tuple(int(part) for part in engine.split("."))
    if theirs < OLDEST:
        raise Unreachable(f"The Docker engine speaks only API {engine}.", "Docker 20.10 or newer is needed.")
    major, minor = min(theirs, NEWEST)
    return f"/v{major}.{minor}"


async def none_if_missing(call: Awaitable[T]) -> T | None:
    """The answer, or None for 404."""
    try:
        return await call
    except EngineError as error:
        if error.status != httpx.codes.NOT_FOUND:
            raise
        return None


async def first(
    lines: AsyncGenerator[dict[str, Any], None], wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any] | None:
    """The first of the lines that is wanted; the stream is closed then."""
    async with aclosing(lines) as stream:
        async for line in stream:
            if wanted(line):
                return line
    return None


def _json(response: httpx.Response) -> Any:  # noqa: ANN401 - JSON
    return response.json() if response.headers.get("content-type", "").startswith("application/json") else None


def _error(response: httpx.Response) -> EngineError:
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text.strip()[:500]
    return EngineError(response.status_code, message)


def _encoded(params: Params) -> dict[str, str | int]:
    return {key: json.dumps(value) if isinstance(value, Mapping) else value for key, value in params.items()}
