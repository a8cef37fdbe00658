"""A hundred workspaces started at once, until every one answers through the proxy, beside JupyterHub.

Ours is `codehub up` as people run it, with its sandbox and its way out; the peer is JupyterHub with
SimpleLocalProcessSpawner and configurable-http-proxy (bench/jupyterhub.py), which keeps nothing apart. Both run the
same tiny HTTP server with the same Python. Workspaces and users exist before; the clock runs from the first request of
the API until the last one has answered a visitor, in rounds that take turns. Whoever waits asks one URL at a time,
twenty times a second, so that waiting costs neither side anything; nor does asking (bench/caller.py).

`python -m bench.spawn NUMBER` starts as many (100).
"""

import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from bench import jupyterhub
from bench.caller import Answer, Caller
from bench.measured import cpu_seconds, descendants
from bench.report import Figure, report
from tests.cli import codehub
from tests.support import short_folder

ROUNDS = 3
_LIMIT_SECONDS = 120.0
_PAUSE_SECONDS = 0.05
_BUSY = (429, 503)
_AGAIN_SECONDS = 0.2
_ADMIN = {"username": "admin", "password": "correct horse battery"}


def settings(number: int) -> dict[str, str]:
    return {
        "CODEHUB_ADMIN_PASSWORD": _ADMIN["password"],
        "MAX_RUNNING_PER_USER": str(number),
        "MAX_RUNNING_GLOBAL": str(number),
        "MAX_WORKSPACES_PER_USER": str(number),
    }


async def all_answer(caller: Caller, paths: Sequence[str], is_theirs: Callable[[str], bool]) -> None:
    """One after the other: who has answered is not asked again."""
    async with asyncio.timeout(_LIMIT_SECONDS):
        for path in paths:
            while not is_theirs((await caller.ask("GET", path)).text):  # noqa: ASYNC110 - it is asked, not told
                await asyncio.sleep(_PAUSE_SECONDS)


async def asked(ask: Callable[[], Awaitable[Answer]], is_done: Callable[[Answer], bool]) -> None:
    """Until it is taken: a server that says that it is busy is asked again, as its clients do."""
    while (answer := await ask()).status in _BUSY:  # noqa: ASYNC110 - it is asked, not told
        await asyncio.sleep(float(answer.fields.get("retry-after", _AGAIN_SECONDS)))
    if answer.status >= httpx.codes.BAD_REQUEST and not is_done(answer):
        raise RuntimeError(f"{answer.status} {answer.text}")


@dataclass(frozen=True)
class Took:
    """Seconds on the clock, and of the processors: by everything but ourselves."""

    seconds: float
    cpu: float


async def timed(starts: Iterable[Awaitable[None]], answered: Awaitable[None]) -> Took:
    theirs = descendants(os.getpid()) - {os.getpid()}
    began, used = time.perf_counter(), cpu_seconds(theirs)
    await asyncio.gather(*starts, answered)
    seconds = time.perf_counter() - began
    theirs = descendants(os.getpid()) - {os.getpid()}
    return Took(seconds, cpu_seconds(theirs) - used)


class Ours:
    """A CodeHub with workspaces that do not run."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self._caller: Caller
        self._ids: list[str] = []

    async def prepare(self, number: int) -> None:
        (await self._client.post("/api/v1/login", json=_ADMIN)).raise_for_status()
        cookies = "; ".join(f"{name}={value}" for name, value in self._client.cookies.items())
        self._caller = Caller(str(self._client.base_url), {"Cookie": cookies})
        for name in range(number):
            wanted = {"name": f"w{name}", "image_ref": "test", "desired_state": "STANDBY"}
            made = (await self._client.post("/api/v1/workspaces", json=wanted)).raise_for_status()
            self._ids.append(made.json()["id"])
        await self._all("STANDBY")

    async def start(self) -> Took:
        return await timed(
            (self._wish(one, "RUNNING") for one in self._ids),
            all_answer(self._caller, [f"/w/{one}/" for one in self._ids], lambda text: "<h1>workspace" in text),
        )

    async def stop(self) -> None:
        await asyncio.gather(*(self._wish(one, "STANDBY") for one in self._ids))
        await self._all("STANDBY")

    async def _wish(self, one: str, state: str) -> None:
        def is_done(answer: Answer) -> bool:
            """What was asked again after a busy answer may have been heard the first time."""
            details = json.loads(answer.text)["error"].get("details") or {}
            return answer.status == httpx.codes.CONFLICT and details.get("desired_state") == state

        wanted = json.dumps({"desired_state": state})
        await asked(lambda: self._caller.ask("PATCH", f"/api/v1/workspaces/{one}", wanted), is_done)

    async def _all(self, phase: str) -> None:
        async with asyncio.timeout(_LIMIT_SECONDS):
            while True:
                page = (await self._client.get("/api/v1/workspaces", params={"limit": 200})).json()["items"]
                if all(one["phase"] == phase and one["operation"] == "NONE" for one in page):
                    return
                await asyncio.sleep(_PAUSE_SECONDS * 4)


class Theirs:
    """A JupyterHub with users whose servers do not run."""

    def __init__(self, client: httpx.AsyncClient, caller: Caller) -> None:
        self._client, self._caller = client, caller
        self._names: list[str] = []

    async def prepare(self, number: int) -> None:
        self._names = [f"u{name}" for name in range(number)]
        (await self._client.post("/hub/api/users", json={"usernames": self._names})).raise_for_status()

    async def start(self) -> Took:
        return await timed(
            (self._start(name) for name in self._names),
            all_answer(self._caller, [f"/user/{name}/" for name in self._names], lambda text: text == "not found\n"),
        )

    async def _start(self, name: str) -> None:
        # 400: it is starting, or runs.
        await asked(
            lambda: self._caller.ask("POST", f"/hub/api/users/{name}/server"), lambda answer: answer.status == 400
        )

    async def stop(self) -> None:
        await jupyterhub.stopped(self._client, self._names)


async def bench(number: int, ours: Ours, theirs: Theirs, tidy: Callable[[], None]) -> None:
    mine: list[Took] = []
    peers: list[Took] = []
    await ours.prepare(number)
    await theirs.prepare(number)
    for turn in range(ROUNDS):
        for side, found in ((ours, mine), (theirs, peers)):
            try:
                found.append(await side.start())
            finally:
                await side.stop()  # ours would outlive its CodeHub
        tidy()
        print(f"round {turn + 1}: ours {mine[-1]}, JupyterHub {peers[-1]}", flush=True)
    report(
        "spawn",
        [
            Figure(f"{number}", "s", [took.seconds for took in mine], [took.seconds for took in peers]),
            Figure(f"{number}-cpu", "s", [took.cpu for took in mine], [took.cpu for took in peers]),
        ],
    )


async def main(number: int, folder: Path) -> None:
    for needed in ("npm", "bwrap"):
        if shutil.which(needed) is None:
            raise SystemExit(f"this benchmark needs {needed}; Debian has it")
    (folder / "hub").mkdir()
    with (
        codehub.running(folder / "d", folder / "log", **settings(number)) as up,
        jupyterhub.running(folder / "hub") as hub,
    ):
        many = httpx.Limits(max_connections=None)
        url = up.url.replace("localhost", "127.0.0.1")  # below /w/, as the peer: an own origin is one redirect more

        def tidy() -> None:
            """But what is theirs by now: PostgreSQL makes processes as it goes, and starts over if one is killed."""
            jupyterhub.end_orphans(descendants(up.process.pid) | descendants(hub.pid))

        async with (
            httpx.AsyncClient(base_url=url, limits=many, timeout=60, trust_env=False) as our_client,
            hub.client() as their_client,
        ):
            await bench(number, Ours(our_client), Theirs(their_client, hub.caller()), tidy)


if __name__ == "__main__":
    place = short_folder()
    try:
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, place))
    finally:
        jupyterhub.end_orphans(set())  # whatever went wrong, nothing that was started here goes on
        shutil.rmtree(place)
