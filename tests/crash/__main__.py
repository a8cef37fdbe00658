"""`make test-crash`: for every point of a workspace's life a life of its own, with one death, at exactly that point.

The points of a clean cycle are counted first. A cycle is never quite like another (a tick more or less), so the summary
says at how many different labels somebody died, and how many points were not come by before the cycle had ended.

    WORKERS=4       cycles at a time
    POINTS=1-200    only these; POINTS=::7 every seventh
"""

import asyncio
import os
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from codehub.db import migrate
from codehub.embedded import DataDir, EmbeddedServers
from tests.crash.cycle import person
from tests.crash.herd import Coordinator, Nursery, herd_of, open_nursery
from tests.crash.site import Site, process_site
from tests.support import Databases, short_folder

# Mostly as people have it: a tick comes when something happened, so that a cycle has few points that are like others.
CALM = {
    "COORDINATOR_ACTIVE_INTERVAL": "1",
    "COORDINATOR_IDLE_INTERVAL": "15",
    "COORDINATOR_TTL_INTERVAL": "60",
    "COORDINATOR_GC_INTERVAL": "2",
}
NOT_COME_BY = "(not come by)"


@dataclass
class Exhaustive:
    """Servers, a place to fork coordinators from, and what came of it so far."""

    nursery: Nursery
    databases: Databases
    template: str
    redis_url: str
    labels: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    done: int = 0

    @asynccontextmanager
    async def site(self, lane: int) -> AsyncIterator[Site]:
        folder = short_folder()
        # In a thread: dropping waits for connections that others are just making, here.
        database = await asyncio.to_thread(self.databases.create, self.template)
        redis = f"{self.redis_url}?db={lane}"
        try:
            async with process_site(folder, database, redis, number=1 + lane, intervals=CALM) as site:
                yield site
        finally:
            await asyncio.to_thread(self.databases.drop, database)
        shutil.rmtree(folder)

    async def cycle(self, lane: int, die_at: int | None) -> list[str]:
        """The labels that the first coordinator came by."""
        async with self.site(lane) as site:
            seen = site.folder / "seen"
            first: list[Coordinator] = []

            async def start() -> Coordinator:
                more = {} if first else {"die_at": die_at, "seen": str(seen)}
                first.append(await self.nursery.start(site.environment, site.folder / "log", **more))
                return first[-1]

            try:
                async with herd_of(1, start), person(site) as somebody:
                    await somebody.run()
            except BaseException as error:
                error.add_note((site.folder / "log").read_text(errors="replace")[-4000:])
                raise
            return seen.read_text().splitlines()

    async def lane(self, number: int, points: Iterator[int], total: int) -> None:
        for point in points:
            try:
                labels = await self.cycle(number, point)
                self.labels[labels[-1] if len(labels) == point else NOT_COME_BY] += 1
            except Exception:  # noqa: BLE001 - whatever it is, the other points go on
                self.failures.append(f"point {point}:\n{traceback.format_exc()}")
                say(self.failures[-1])
            self.done += 1
            if self.done % 25 == 0:
                say(f"{self.done} of {total} points, {len(self.failures)} failures")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def chosen(total: int) -> Sequence[int]:
    """POINTS: FIRST-LAST, or a slice as Python writes it."""
    given = os.environ.get("POINTS", "")
    numbers = range(1, total + 1)
    if "-" in given:
        first, last = map(int, given.split("-"))
        return [number for number in numbers if first <= number <= last]
    parts = [int(part) if part else None for part in given.split(":")] if given else [None]
    return numbers[slice(*parts)] if len(parts) > 1 else numbers


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Exhaustive]:
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data, durable=False).running() as servers, open_nursery() as nursery:
            assert servers.database_url
            assert servers.redis_url
            databases = Databases(servers.database_url)
            with databases.one() as template:
                migrate.upgrade(template)
                yield Exhaustive(nursery, databases, template, servers.redis_url)


async def main() -> int:
    workers = int(os.environ.get("WORKERS", "4"))
    folder = short_folder()
    began = time.monotonic()
    async with opened(folder) as run:
        total = len(await run.cycle(0, None))
        points = chosen(total)
        took = time.monotonic() - began
        say(f"a clean cycle has {total} points ({took:.0f} s); a cycle with a death at each of {len(points)}:")
        shared = iter(points)
        async with asyncio.TaskGroup() as group:
            for lane in range(workers):
                group.create_task(run.lane(lane, shared, len(points)))
        missed = run.labels.pop(NOT_COME_BY, 0)
        say(
            f"{len(points)} points in {time.monotonic() - began:.0f} s: {run.labels.total()} deaths at"
            f" {len(run.labels)} different labels, {missed} not come by, {len(run.failures)} failures"
        )
    shutil.rmtree(folder)
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
