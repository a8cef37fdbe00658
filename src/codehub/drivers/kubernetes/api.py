"""A thin client of the Kubernetes API: one method per kind of call, time limits on all, errors told apart.

    Unreachable   nothing answered, or not in time, or it could not look (401, 429, 5xx): nothing is known
    ApiError      the server answered and said no: `status`, its `reason` and its own message; callers map it

Every delete names the uid of what is meant. A list is complete or fails: it goes on from page to page, and begins
again when the server has forgotten where we were (410).
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx

from codehub.drivers.kubernetes.access import Access
from codehub.drivers.kubernetes.options import Patience
from codehub.errors import Unreachable

PAGE = 500
NOT_FOUND, CONFLICT, GONE, FORBIDDEN = 404, 409, 410, 403
_LIST_TRIES = 3
_WATCH_SECONDS = 240
_CONNECTIONS = 100

T = TypeVar("T")
Json = dict[str, Any]
Params = Mapping[str, str | int]


class ApiError(Exception):
    """The server's own answer; it never leaves this package."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})")
        self.status = status
        self.reason = reason
        self.message = message


class Cluster:
    """One namespace of one cluster. `calls` counts requests by verb and kind, for measurements."""

    def __init__(self, access: Access, namespace: str, patience: Patience, page: int = PAGE) -> None:
        self.namespace = namespace
        self.server = access.server
        self.calls: Counter[str] = Counter()
        self._access = access
        self._patience = patience
        self._page = page
        self._client = httpx.AsyncClient(
            base_url=access.server,
            verify=access.tls,
            timeout=httpx.Timeout(None, connect=patience.connect, pool=patience.look),
            limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
            trust_env=False,
        )

    async def close(self) -> None:
        await self._client.aclose()

    def path(self, kind: str, name: str = "", group: str = "") -> str:
        """`kind` is the plural of the API: pods, persistentvolumeclaims, …"""
        base = f"/apis/{group}" if group else "/api/v1"
        return f"{base}/namespaces/{self.namespace}/{kind}" + (f"/{name}" if name else "")

    async def get(self, kind: str, name: str) -> Json | None:
        """None if there is none."""
        try:
            return await none_if_missing(self._json("GET", self.path(kind, name), seconds=self._patience.look))
        except ApiError as error:
            raise self._cannot_look(error) from error

    async def version(self) -> Json:
        return await self._json("GET", "/version", seconds=self._patience.look)

    async def all(self, kind: str, selector: str) -> list[Json]:
        """Everything with these labels."""
        return (await self.listing(kind, selector))[0]

    async def listing(self, kind: str, selector: str) -> tuple[list[Json], str]:
        """The same, and the version of the cluster's state that it shows, to watch from."""
        for _ in range(_LIST_TRIES):
            try:
                return await self._pages(kind, selector)
            except ApiError as error:
                if error.status != GONE:
                    raise self._cannot_look(error) from error
        raise Unreachable(f"The cluster at {self.server} changes too quickly to be listed.")

    async def create(self, kind: str, body: Json, *, group: str = "", dry_run: bool = False) -> Json:
        """A dry run is judged by everything that would judge the real thing, and makes nothing."""
        params: Params = {"dryRun": "All"} if dry_run else {}
        return await self._json("POST", self.path(kind, group=group), params=params, body=body)

    async def patch(self, kind: str, name: str, body: Json, *, group: str = "") -> Json:
        """A merge: what is given is set, everything else stays."""
        return await self._json("PATCH", self.path(kind, name, group), body=body)

    async def delete(self, kind: str, name: str, *, uid: str, version: str | None = None, grace: int = 0) -> None:
        """Ask for exactly this object to be deleted; nothing to do if it is gone or another one has its name."""
        conditions = {"uid": uid} | ({"resourceVersion": version} if version else {})
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": conditions, "gracePeriodSeconds": grace}
        await none_if_missing(self._json("DELETE", self.path(kind, name), body=body))

    async def logs(self, pod: str, container: str, lines: int, *, timestamps: bool = False) -> str:
        """ApiError also for 5xx: it is the node that does not answer then, not the cluster."""
        params: Params = {"container": container, "tailLines": lines, "timestamps": "true" if timestamps else "false"}
        path = f"{self.path('pods', pod)}/log"
        response = await self._send("GET", path, params, None, self._patience.look)
        if response.status_code >= httpx.codes.BAD_REQUEST:
            raise _answered(response)
        return response.text

    async def metrics(self, selector: str) -> list[Json]:
        """What pods use now. ApiError where the cluster has no metrics API, or we may not ask it."""
        path = self.path("pods", group="metrics.k8s.io/v1beta1")
        answer = await self._json("GET", path, params={"labelSelector": selector}, seconds=self._patience.look)
        return list(answer.get("items") or [])

    async def watch(self, kind: str, selector: str, version: str) -> AsyncGenerator[Json, None]:
        """Events from this version on, until the server ends it; an empty one says: connected. ApiError 410."""
        params: Params = {
            "watch": "true",
            "labelSelector": selector,
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": _WATCH_SECONDS,
        }
        self.calls[f"watch {kind}"] += 1
        async with self._reached(_WATCH_SECONDS + self._patience.look):
            headers = await self._headers()
            async with self._client.stream(
                "GET", self.path(kind), params=dict(params), headers=headers, extensions=self._extensions
            ) as response:
                if response.status_code >= httpx.codes.BAD_REQUEST:
                    await response.aread()
                    raise self._refusal(response)
                yield {}
                async for line in response.aiter_lines():
                    event = json.loads(line)
                    if event.get("type") == "ERROR":
                        raise _error(event.get("object") or {}, GONE)
                    yield event

    # -- the wire ----------------------------------------------------------------------------------------------------

    async def _pages(self, kind: str, selector: str) -> tuple[list[Json], str]:
        found: list[Json] = []
        params: dict[str, str | int] = {"labelSelector": selector, "limit": self._page}
        while True:
            answer = await self._json("GET", self.path(kind), params=params, seconds=self._patience.look)
            found += answer["items"]
            following = answer["metadata"].get("continue")
            if not following:
                return found, str(answer["metadata"].get("resourceVersion", ""))
            params["continue"] = following

    async def _json(
        self, method: str, path: str, *, params: Params | None = None, body: Json | None = None, seconds: float = 0.0
    ) -> Json:
        response = await self._call(method, path, params or {}, body, seconds or self._patience.act)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise Unreachable(f"The cluster at {self.server} answers with something else than an object.")
        return answer

    async def _call(self, method: str, path: str, params: Params, body: Json | None, seconds: float) -> httpx.Response:
        response = await self._send(method, path, params, body, seconds)
        if response.status_code >= httpx.codes.BAD_REQUEST:
            raise self._refusal(response)
        return response

    async def _send(self, method: str, path: str, params: Params, body: Json | None, seconds: float) -> httpx.Response:
        self.calls[_call_name(method, path)] += 1
        patch = {"content-type": "application/merge-patch+json"} if method == "PATCH" else {}
        async with self._reached(seconds):
            return await self._client.request(
                method,
                path,
                params=dict(params),
                json=body,
                headers=await self._headers() | patch,
                extensions=self._extensions,
            )

    @property
    def _extensions(self) -> dict[str, Any]:
        return {"sni_hostname": self._access.server_name} if self._access.server_name else {}

    async def _headers(self) -> dict[str, str]:
        token = await self._access.token()
        return {"authorization": f"Bearer {token}"} if token else {}

    def _refusal(self, response: httpx.Response) -> Exception:
        """A server that cannot say what is there (its etcd is out, say) is as good as out."""
        error, status = _answered(response), response.status_code
        if status in (httpx.codes.UNAUTHORIZED, httpx.codes.TOO_MANY_REQUESTS) or status >= 500:
            return self._cannot_look(error)
        return error

    def _cannot_look(self, error: ApiError) -> Unreachable:
        hint = "Its Role may lack a right: see docs/kubernetes.md." if error.status == FORBIDDEN else ""
        return Unreachable(f"The cluster at {self.server} cannot look: {error}.", hint)

    @asynccontextmanager
    async def _reached(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except (httpx.TransportError, OSError, json.JSONDecodeError) as error:  # TimeoutError is an OSError
            why = str(error) or type(error).__name__
            raise Unreachable(f"The cluster at {self.server} does not answer: {why}.") from error


async def none_if_missing(call: Awaitable[T]) -> T | None:
    """The answer, or None for 404."""
    try:
        return await call
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None


def _answered(response: httpx.Response) -> ApiError:
    try:
        answer = response.json()
    except ValueError:
        answer = {"message": response.text.strip()[:500]}
    return _error(answer if isinstance(answer, dict) else {}, response.status_code)


def _error(answer: Mapping[str, Any], status: int) -> ApiError:
    code = answer.get("code")
    return ApiError(
        code if isinstance(code, int) else status, str(answer.get("reason", "")), str(answer.get("message", ""))
    )


def _call_name(method: str, path: str) -> str:
    """`GET pods` for `/api/v1/namespaces/x/pods/name`, `GET pods/log` for its logs, `LIST pods` without a name."""
    kind, *rest = path.rpartition("/namespaces/")[2].split("/")[1:] or [path]
    verb = "LIST" if method == "GET" and not rest and kind != path else method
    return f"{verb} {'/'.join([kind, *rest[1:]])}"
