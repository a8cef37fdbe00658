"""A small load of API calls, as users make them, and what they notice while parts of the installation die.

Reads ask for the list of workspaces; writes change the memo of one workspace of the drill's own. A write that was
answered must be there afterwards.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from codehub.errors import StartError

API = "/api/v1"
_REQUEST_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


@dataclass
class Noticed:
    """What users noticed in one stretch of time."""

    requests: int = 0
    failed: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    longest_gap: float = 0.0  # seconds without any answer that was good

    def fail(self, cause: str) -> None:
        self.failed += 1
        self.causes[cause] = self.causes.get(cause, 0) + 1


class Users:
    """Readers and a writer, until they are stopped."""

    def __init__(self, client: httpx.AsyncClient, workspace: str) -> None:
        self._client = client
        self._workspace = f"{API}/workspaces/{workspace}"
        self._good_at = asyncio.get_running_loop().time()
        self._tasks: list[asyncio.Task[None]] = []
        self.noticed = Noticed()
        self.written = 0  # the newest write that was answered
        self.tried = 0

    def start(self, readers: int = 2) -> None:
        works = [self._read() for _ in range(readers)] + [self._write()]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def next_stretch(self) -> Noticed:
        """What was noticed since the last call; a gap that is not over yet counts."""
        self._gap()
        done, self.noticed = self.noticed, Noticed()
        return done

    @property
    def quiet_for(self) -> float:
        """Seconds since the last good answer."""
        return asyncio.get_running_loop().time() - self._good_at

    async def _read(self) -> None:
        while True:
            await self._ask("GET", f"{API}/workspaces?limit=20")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _write(self) -> None:
        while True:
            self.tried += 1
            if await self._ask("PATCH", self._workspace, {"memo": str(self.tried)}):
                self.written = self.tried
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _ask(self, method: str, path: str, body: Mapping[str, str] | None = None) -> bool:
        self.noticed.requests += 1
        try:
            answer = await self._client.request(method, path, json=body)
        except httpx.HTTPError as error:
            self.noticed.fail(type(error).__name__)
            return False
        if answer.status_code >= 400:
            self.noticed.fail(str(answer.status_code))
            return False
        self._gap()
        self._good_at = asyncio.get_running_loop().time()
        return True

    def _gap(self) -> None:
        self.noticed.longest_gap = max(self.noticed.longest_gap, self.quiet_for)


def open_client(url: str, token: str) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {token}", "User-Agent": "codehub-drill"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=_REQUEST_SECONDS)


async def state_of(client: httpx.AsyncClient) -> dict[str, tuple[str, str]]:
    """Every workspace of this user: its phase and what is wanted of it."""
    found: dict[str, tuple[str, str]] = {}
    cursor: str | None = None
    while True:
        params: dict[str, str | int] = {"limit": 100}
        if cursor:
            params["cursor"] = cursor
        page = await asked(client, "GET", f"{API}/workspaces", params=params)
        found |= {str(one["id"]): (str(one["phase"]), str(one["desired_state"])) for one in page["items"]}
        cursor = page.get("next_cursor")
        if not cursor:
            return found


async def asked(
    client: httpx.AsyncClient,
    method: str,
    path: str,
    *,
    params: Mapping[str, str | int] | None = None,
    json: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One request that must work."""
    try:
        answer = await client.request(method, path, params=params, json=json)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json() if answer.content else {}
    except (httpx.HTTPError, ValueError) as error:
        raise StartError(f"{method} {path} failed: {error}", "See: codehub doctor --remote") from error
    return found
