"""A steady load as people make it, and what they notice: API calls, event streams, and WebSockets into a workspace.

It is bounded: a few users, each with a pause after every request. A request that was under way at the very moment its
proxy was killed, or a change whose API was, is told apart from one that began later, which must not fail.
"""

import asyncio
import json
import math
import subprocess
import time
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Self

import httpx
import websockets
from websockets.asyncio.client import ClientConnection

API = "/api/v1"
PAUSE_SECONDS = 0.1
REQUEST_SECONDS = 15.0
TRIES = 3
READERS, STREAMS, SOCKETS = 3, 4, 6
CAUGHT_UP_SECONDS = 30.0


@dataclass
class Noticed:
    """What users noticed while one part was away."""

    requests: int = 0
    failed: dict[str, int] = field(default_factory=dict)  # by what and why
    told_to_wait: int = 0  # answered with 503 and Retry-After, and asked again then, as an orderly program does
    in_flight: int = 0  # broken requests and WebSockets that were on the killed proxy, or changes on the killed API
    streams_made_again: int = 0
    slowest: float = 0.0  # seconds that one good answer took

    def fail(self, cause: str) -> None:
        self.failed[cause] = self.failed.get(cause, 0) + 1


class Load:
    """Users, until they are stopped."""

    def __init__(self, url: str, cookies: httpx.Cookies, workspace: str) -> None:
        self._url = url
        self._cookies = cookies
        self._workspace = workspace
        self._tasks: list[asyncio.Task[None]] = []
        self._died_at = 0.0
        self._doomed_ports: set[int] = set()
        self._open: dict[int, ClientConnection] = {}
        self._seen = [0] * STREAMS  # the newest memo that each stream told
        self.noticed = Noticed()
        self.written = 0  # the newest memo that was answered
        self.tried = 0
        self.files = 0  # the newest file that was written through the proxy

    async def __aenter__(self) -> Self:
        works: list[Coroutine[None, None, None]] = [
            *(self._reader() for _ in range(READERS)),
            self._writer(),
            self._filer(),
            *(self._stream(number) for number in range(STREAMS)),
            *(self._socket(number) for number in range(SOCKETS)),
        ]
        self._tasks = [asyncio.create_task(work) for work in works]
        await self.caught_up()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def next_stretch(self) -> Noticed:
        done, self.noticed = self.noticed, Noticed()
        return done

    def expect_death(self, pid: int | None = None, *, is_proxy: bool = False) -> None:
        """Just before a part is killed. A proxy takes what is on it along, an API the changes it has begun."""
        self._doomed_ports = ports_of(pid) if pid and is_proxy else set()
        self._died_at = math.inf if pid else 0.0

    def death_seen(self) -> None:
        """What begins from here on is on nobody who dies; on a busy machine the killed keep sockets for a while."""
        self._died_at = min(self._died_at, time.monotonic())

    async def caught_up(self) -> None:
        """Return when every stream has told what was written by now, and every WebSocket is open."""
        async with asyncio.timeout(CAUGHT_UP_SECONDS):
            while not (self.written and len(self._open) == SOCKETS):  # noqa: ASYNC110 - several tasks' state
                await asyncio.sleep(PAUSE_SECONDS)
            wanted = self.written
            while min(self._seen) < wanted:  # noqa: ASYNC110 - as above
                await asyncio.sleep(PAUSE_SECONDS)

    # -- users -------------------------------------------------------------------------------------------------------

    async def _reader(self) -> None:
        async with self.client() as http:
            while True:
                await self._ask(http, "GET", f"{API}/workspaces?limit=20")
                await asyncio.sleep(PAUSE_SECONDS)

    async def _writer(self) -> None:
        async with self.client() as http:
            while True:
                self.tried += 1
                body = json.dumps({"memo": str(self.tried)}).encode()
                if await self._ask(http, "PATCH", f"{API}/workspaces/{self._workspace}", body):
                    self.written = self.tried
                await asyncio.sleep(PAUSE_SECONDS)

    async def _filer(self) -> None:
        """Writes files into the workspace."""
        async with self.client() as http:
            while True:
                number = self.files + 1
                if await self._ask(http, "PUT", f"/w/{self._workspace}/files/{number % 50}", str(number).encode()):
                    self.files = number
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, http: httpx.AsyncClient, method: str, path: str, body: bytes | None = None) -> bool:
        self.noticed.requests += 1
        began = time.monotonic()
        what = f"{method} {path.partition('?')[0].replace(self._workspace, '…')}".partition("/files")[0]
        headers = {"Content-Type": "application/json"} if method == "PATCH" else {}
        for left in reversed(range(TRIES)):
            try:
                answer = await http.request(method, path, content=body, headers=headers)
            except httpx.HTTPError as error:
                self._failed(what, type(error).__name__, began)
                return False
            if answer.status_code < 400:
                self.noticed.slowest = max(self.noticed.slowest, time.monotonic() - began)
                return True
            if answer.status_code == 502 and method == "PATCH" and self._was_under_way(began):
                self.noticed.in_flight += 1
                break
            if answer.status_code != 503 or "retry-after" not in answer.headers or not left:
                self.noticed.fail(f"{what}: {answer.status_code}")
                break
            self.noticed.told_to_wait += 1
            await asyncio.sleep(float(answer.headers["retry-after"]))
        return False

    async def _stream(self, number: int) -> None:
        """As a browser's EventSource: a stream that ends is made again, and begins with everything."""
        async with self.client() as http:
            while True:
                began = time.monotonic()
                try:
                    async with http.stream(
                        "GET", f"{API}/events", timeout=httpx.Timeout(REQUEST_SECONDS, read=75)
                    ) as told:
                        if told.status_code != 200:
                            self.noticed.fail(f"GET events: {told.status_code}")
                        began = 0.0
                        async for line in told.aiter_lines():
                            self._hear(number, line)
                except httpx.HTTPError as error:
                    if began:  # it never began
                        self._failed("GET events", type(error).__name__, began)
                self.noticed.streams_made_again += 1
                await asyncio.sleep(PAUSE_SECONDS)

    def _hear(self, number: int, line: str) -> None:
        if not line.startswith("data:"):
            return
        event = json.loads(line.removeprefix("data:"))
        if isinstance(event, dict) and event.get("id") == self._workspace and event.get("memo"):
            self._seen[number] = max(self._seen[number], int(event["memo"]))

    async def _socket(self, number: int) -> None:
        """A terminal: what is typed comes back; one that breaks is opened again at once."""
        url = f"ws{self._url.removeprefix('http')}/w/{self._workspace}/ws"
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        while True:
            began, port = time.monotonic(), 0
            try:
                async with websockets.connect(
                    url, additional_headers={"Cookie": cookie}, origin=websockets.Origin(self._url), proxy=None
                ) as connection:
                    port = int(connection.local_address[1])
                    self._open[number] = connection
                    await self._type(connection)
            except (OSError, TimeoutError, websockets.WebSocketException) as error:
                self._socket_broke(port, began, error)
            finally:
                self._open.pop(number, None)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _type(self, connection: ClientConnection) -> None:
        typed = 0
        while True:
            typed += 1
            self.noticed.requests += 1
            began = time.monotonic()
            async with asyncio.timeout(REQUEST_SECONDS):
                await connection.send(str(typed))
                assert await connection.recv() == str(typed)
            self.noticed.slowest = max(self.noticed.slowest, time.monotonic() - began)
            await asyncio.sleep(PAUSE_SECONDS)

    # -- what became of it -------------------------------------------------------------------------------------------

    def _failed(self, what: str, why: str, began: float) -> None:
        if self._doomed_ports and self._was_under_way(began):
            self.noticed.in_flight += 1
        else:
            self.noticed.fail(f"{what}: {why}")

    def _was_under_way(self, began: float) -> bool:
        return began <= self._died_at

    def _socket_broke(self, port: int, began: float, error: Exception) -> None:
        if port and port in self._doomed_ports:
            self.noticed.in_flight += 1
        elif port:
            self.noticed.fail(f"WebSocket broke: {type(error).__name__}")
        else:
            self._failed("WebSocket", f"{type(error).__name__} {error}"[:80], began)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self._url,
            cookies=self._cookies,
            headers={"Origin": self._url},
            timeout=REQUEST_SECONDS,
            trust_env=False,
        )


def ports_of(pid: int) -> set[int]:
    """The clients' ports of the connections that a process of this machine has."""
    listed = subprocess.run(["ss", "-Htnp"], check=True, capture_output=True, text=True, timeout=20).stdout
    mine = [line.split() for line in listed.splitlines() if f"pid={pid}," in line]
    return {int(words[4].rpartition(":")[2]) for words in mine}
