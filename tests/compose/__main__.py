"""`make test-compose`: the stack of compose.yaml for real, under load, each part of it killed in turn.

Fails when a user noticed anything but what was under way on a proxy, or a change on an API, as that was killed, or when
anything was lost. Then the leader is killed, and told to end, so many times (KILLS); figures go to
bench/results/compose.json. QUICK=1 leaves the load and the deaths out: the stack comes up, what must be closed is, and
one person works in one workspace.
"""

import asyncio
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import redis

from bench.report import RESULTS
from codehub.drills.figures import percentile
from tests.compose import closed
from tests.compose.load import API, Load, Noticed
from tests.compose.stack import Stack, stack
from tests.support import eventually, eventually_async

KILLS = int(os.environ.get("KILLS") or 20)
QUICK = bool(os.environ.get("QUICK"))
CALM_SECONDS = 3.0
WISH_SECONDS = 180.0
BACKOFF_SECONDS = 11.0  # the engine starts a container at once again if it ran for ten
WISHES = ("STANDBY", "ARCHIVED", "RUNNING")
TOLD = b"written before anything was killed"


@dataclass(frozen=True)
class Blow:
    """One thing that is done to the stack: a part is killed, or whatever `strike` does."""

    what: str
    victim: str | None = None
    strike: Callable[[Stack], None] | None = None
    afterwards: str | None = None  # the part that must be ready again


def blows() -> list[Blow]:
    ours = ("api-1", "api-2", "proxy-1", "proxy-2", "coordinator-1", "coordinator-2")
    return [
        *(Blow(f"kill {name}", name, afterwards=name) for name in ours),
        Blow("flush valkey", strike=_flush),
        Blow("kill valkey", "valkey", afterwards="api-1"),
        Blow("restart postgres", strike=_restart, afterwards="api-1"),
        Blow("kill postgres", "postgres", afterwards="api-1"),
        Blow("kill s3", "s3", afterwards="coordinator-1"),
    ]


def _restart(up: Stack) -> None:
    up.run("restart", "postgres")


def _flush(up: Stack) -> None:
    with redis.Redis.from_url(up.redis_url, socket_timeout=10) as connection:
        connection.flushall()


class Person:
    """Who owns the workspaces."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        answer = await self.http.request(method, path, json=body)
        assert answer.status_code < 400, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer

    async def make(self, name: str) -> str:
        made = await self.call("POST", f"{API}/workspaces", {"name": name, "desired_state": "RUNNING"})
        identity = str(made.json()["id"])
        await self.until(identity, "RUNNING")
        return identity

    async def tell(self, identity: str) -> None:
        """Write a file."""
        put = await self.http.put(f"/w/{identity}/files/told", content=TOLD)
        assert put.status_code == 201, put.text

    async def forgotten(self, identity: str) -> list[str]:
        told = await self.call("GET", f"/w/{identity}/files/told")
        return [] if told.content == TOLD else [f"lost: a file that was archived and restored says {told.content!r}"]

    async def wish(self, identity: str, state: str) -> None:
        await self.call("PATCH", f"{API}/workspaces/{identity}", {"desired_state": state})

    async def until(self, identity: str, phase: str) -> None:
        async def there() -> bool:
            try:
                answer = await self.http.get(f"{API}/workspaces/{identity}")
            except httpx.HTTPError:
                return False
            found = answer.json() if answer.status_code == 200 else {}
            return found.get("phase") == phase and found.get("operation") in (None, "NONE")

        await eventually_async(there, f"{identity} is {phase}", WISH_SECONDS)


async def _logged_in(up: Stack, http: httpx.AsyncClient) -> Person:
    person = Person(http)
    password = up.secret("CODEHUB_ADMIN_PASSWORD")
    await person.call("POST", f"{API}/login", {"username": "admin", "password": password})
    return person


async def one_life(up: Stack) -> list[str]:
    """What is wrong after a workspace was made, written to, archived and started again."""
    async with httpx.AsyncClient(base_url=up.url, headers={"Origin": up.url}, timeout=30, trust_env=False) as http:
        person = await _logged_in(up, http)
        workspace = await person.make("one")
        await person.tell(workspace)
        wrong = await _open_to_workspaces(up, person, workspace)
        for state in ("ARCHIVED", "RUNNING"):
            await person.wish(workspace, state)
            await person.until(workspace, state)
        return wrong + await person.forgotten(workspace)


async def rounds(up: Stack) -> tuple[dict[str, Noticed], list[str]]:
    """What was noticed of each blow, and what is wrong."""
    async with httpx.AsyncClient(base_url=up.url, headers={"Origin": up.url}, timeout=30, trust_env=False) as http:
        person = await _logged_in(up, http)
        busy, moving = await person.make("busy"), await person.make("moving")
        await person.tell(moving)
        wrong = await _open_to_workspaces(up, person, busy)
        noticed: dict[str, Noticed] = {}
        async with Load(up.url, http.cookies, busy) as load:
            await asyncio.sleep(CALM_SECONDS)
            noticed["nothing"] = load.next_stretch()
            for number, blow in enumerate(blows()):
                noticed[blow.what] = await _struck(up, load, person, moving, blow, WISHES[number % len(WISHES)])
        wrong += [f"{what}: {n} × {cause}" for what, one in noticed.items() for cause, n in one.failed.items()]
        wrong += await _lost(person, load, busy, moving)
        return noticed, wrong


async def _open_to_workspaces(up: Stack, person: Person, workspace: str) -> list[str]:
    """What a workspace reaches of the stack: nothing."""
    net, wrong = up.environment["CODEHUB_NET"], []
    inside = {f"{net}.10": 5432, f"{net}.11": 6379, f"{net}.21": 8080, f"{net}.22": 8080, f"{net}.129": 8333}
    for host, port in {**inside, up.address("s3", "archives"): 8888}.items():
        said = (await person.call("GET", f"/w/{workspace}/fetch?host={host}&port={port}")).text
        if said == "open":
            wrong.append(f"a workspace reaches {host}:{port}")
    return wrong


async def _struck(up: Stack, load: Load, person: Person, moving: str, blow: Blow, state: str) -> Noticed:
    """A wish is under way while it strikes, and comes true all the same."""
    await person.wish(moving, state)
    if blow.victim:
        # As a crash does it: the engine starts it again. `docker kill` would tell the engine to leave it down.
        pid = await asyncio.to_thread(up.pid, blow.victim)
        load.expect_death(pid if blow.victim.startswith(("proxy", "api")) else None, is_proxy="proxy" in blow.victim)
        os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(eventually, lambda: not _lives(pid), f"{blow.victim} is dead")
        load.death_seen()
    if blow.strike:
        load.expect_death()
        await asyncio.to_thread(blow.strike, up)
    await asyncio.sleep(CALM_SECONDS)
    if blow.afterwards:
        await asyncio.to_thread(up.wait_for, blow.afterwards)
    await load.caught_up()
    await person.until(moving, state)
    await asyncio.sleep(CALM_SECONDS)
    one = load.next_stretch()
    print(line(blow.what, one), flush=True)  # noqa: T201
    return one


def _lives(pid: int) -> bool:
    """Whether it may still have sockets: a zombie has none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _lost(person: Person, load: Load, busy: str, moving: str) -> list[str]:
    """What had been answered, and is not there any more."""
    wrong = []
    memo = (await person.call("GET", f"{API}/workspaces/{busy}")).json()["memo"]
    if not load.written <= int(memo) <= load.tried:
        wrong.append(f"lost: the memo is {memo}, and {load.written} had been answered")
    newest = await person.call("GET", f"/w/{busy}/files/{load.files % 50}")
    if int(newest.text) < load.files:
        wrong.append(f"lost: a file says {newest.text}, and {load.files} had been answered")
    await person.wish(moving, "RUNNING")
    await person.until(moving, "RUNNING")
    return wrong + await person.forgotten(moving)


def failovers(up: Stack, number: signal.Signals) -> list[float]:
    """Seconds until the other coordinator leads, of so many ends of the leader."""
    found: list[float] = []
    with psycopg.connect(up.database_url(), autocommit=True) as connection:

        def leadership() -> tuple[int, str]:
            row = connection.execute("SELECT epoch, holder FROM leadership").fetchone()
            assert row is not None
            return int(row[0]), str(row[1]).partition(":")[0]

        for _ in range(KILLS):
            epoch, leader = leadership()
            standby = "coordinator-2" if leader == "coordinator-1" else "coordinator-1"
            up.wait_for(standby)
            up.wait_until_up_for(leader, BACKOFF_SECONDS)
            pid = up.pid(leader)
            began = time.monotonic()
            os.kill(pid, number)
            while leadership()[0] == epoch:
                assert time.monotonic() - began < 60, f"nobody took over from {leader}"
                time.sleep(0.005)  # what is measured must not be rounded to the pause of `eventually`
            found.append(time.monotonic() - began)
    return found


def line(what: str, one: Noticed) -> str:
    causes = ", ".join(f"{count} × {cause}" for cause, count in one.failed.items())
    failed = f"{sum(one.failed.values())} failed" + (f" ({causes})" if causes else "")
    return (
        f"compose-{what.replace(' ', '-')}: {one.requests} requests, {failed}, "
        f"{one.in_flight} in flight on what was killed, {one.told_to_wait} told to ask again, "
        f"{one.streams_made_again} streams made again, "
        f"slowest answer {one.slowest:.2f} s"
    )


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="codehub-compose-") as name:
        Path(name).chmod(0o755)
        with stack(Path(name)) as up:
            print(f"the stack is up at {up.url}", flush=True)  # noqa: T201
            wrong = [*closed.image(up), *closed.archives(up)]
            if QUICK:
                wrong += [*asyncio.run(one_life(up)), *closed.database(up)]
                return _verdict(wrong)
            noticed, more = asyncio.run(rounds(up))
            wrong += [*more, *closed.database(up)]
            times = {
                "killed": failovers(up, signal.SIGKILL),
                "told-to-end": failovers(up, signal.SIGTERM),
            }
    for how, seconds in times.items():
        p50, p95 = percentile(seconds, 0.5), percentile(seconds, 0.95)
        print(f"compose-failover-leader-{how}: p50 {p50:.2f} s, p95 {p95:.2f} s, of {len(seconds)}")  # noqa: T201
    RESULTS.mkdir(exist_ok=True)
    content = {
        "name": "compose",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "noticed": {what: asdict(one) for what, one in noticed.items()},
        "failover_seconds": times,
        "wrong": wrong,
    }
    (RESULTS / "compose.json").write_text(json.dumps(content, indent=2) + "\n")
    return _verdict(wrong)


def _verdict(wrong: list[str]) -> int:
    for each in wrong:
        print(f"WRONG: {each}")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
