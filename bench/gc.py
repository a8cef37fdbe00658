"""A collection over a store of 1,000,000 archives: its seconds, its memory, and how long it holds up the leader's loop.

The listing is generated, object by object as a bucket would send it, so that what is measured is ours: pairing objects
with their metas, reading 500,000 rows, planning. Half of the archives are superseded. It is a dry run. The peer is the
least that anything could do: every key in one set, less those that rows name. Each runs in a process of its own.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID

from bench.report import Figure, report
from codehub.coordinator.collect import Collector
from codehub.drivers.archive_store.objects import Entry
from codehub.drivers.archives import ArchiveStore
from codehub.model.gc import GcRules, KnownWorkspace
from codehub.model.names import archive_key, meta_key
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId

ARCHIVES, ROUNDS, PAGE = 1_000_000, 3, 1000
ROWS = ARCHIVES // 2
NOW = datetime(2026, 1, 2, tzinfo=UTC)
OLD, NEW = NOW - timedelta(days=2), NOW - timedelta(days=1)
_SPREAD = (1 << 128) // ROWS  # over all ids there are, in the order of a listing


def _workspace(number: int) -> WorkspaceId:
    return WorkspaceId(UUID(int=number * _SPREAD))


def _keys(number: int) -> tuple[ArchiveKey, ArchiveKey]:
    """The superseded archive and the present one."""
    one = _workspace(number)
    return archive_key(one, OpId(UUID(int=number))), archive_key(one, OpId(UUID(int=ARCHIVES + number)))


def _entries() -> Iterator[Entry]:
    for number in range(ROWS):
        for key, at in zip(_keys(number), (OLD, NEW), strict=True):
            yield Entry(f"archives/{key}", at, size=1 << 20)
            yield Entry(f"archives/{meta_key(key)}", at, size=100)


class Listed:
    """The part of a bucket that a listing needs."""

    async def pages(self, _prefix: str) -> AsyncIterator[Sequence[Entry]]:
        entries = _entries()
        while page := list(islice(entries, PAGE)):
            await asyncio.sleep(0)
            yield page


class Rows:
    """Implements ports.ArchiveRecords, as far as a dry run asks."""

    async def now(self) -> datetime:
        return NOW

    async def known(self, after: WorkspaceId | None, limit: int) -> Sequence[KnownWorkspace]:
        first = 0 if after is None else after.int // _SPREAD + 1
        await asyncio.sleep(0)
        return [
            KnownWorkspace(id=_workspace(number), archive_key=_keys(number)[1], op_id=None)
            for number in range(first, min(first + limit, ROWS))
        ]

    async def remembers_since(self) -> datetime:
        return OLD

    async def remembered(self, keys: Collection[ArchiveKey]) -> Collection[ArchiveKey]:
        await asyncio.sleep(0)
        return set(keys)


class Timers:
    async def all(self) -> Mapping[str, datetime]:
        return {}


class Leader:
    epoch = 1

    def is_fresh(self) -> bool:
        return True


async def nobody_objects() -> str | None:
    return None


async def ours() -> float:
    """The longest that the loop was held up."""
    store = ArchiveStore(Listed())  # type: ignore[arg-type]  # nothing else of it is used
    rows: object = Rows()
    collector = Collector(
        rows,  # type: ignore[arg-type]
        store,
        Timers(),  # type: ignore[arg-type]
        Leader(),
        GcRules(),
        on_change=lambda _: None,
        refusal=nobody_objects,
    )
    longest, last = 0.0, time.perf_counter()
    run = asyncio.create_task(collector.collect(dry_run=True))
    while not run.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    done = await run
    assert (done.found, done.known, done.orphans) == (ARCHIVES, ROWS, ROWS), done
    return longest


def peer() -> float:
    keys = {entry.path for entry in _entries()}
    for number in range(ROWS):
        key = _keys(number)[1]
        keys.discard(f"archives/{key}")
        keys.discard(f"archives/{meta_key(key)}")
    assert len(keys) == ARCHIVES
    return 0.0


def _one(which: str) -> None:
    began = time.perf_counter()
    longest = asyncio.run(ours()) if which == "ours" else peer()
    seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([seconds, peak, longest]))


def _measured(which: str) -> tuple[float, float, float]:
    done = subprocess.run([sys.executable, "-m", "bench.gc", which], capture_output=True, text=True, check=True)
    seconds, peak, longest = json.loads(done.stdout.splitlines()[-1])
    return seconds, peak, longest


def main() -> None:
    found = [(_measured("ours"), _measured("peer")) for _ in range(ROUNDS)]
    report(
        "gc",
        [
            Figure("seconds", "s", [a[0] for a, _ in found], [b[0] for _, b in found]),
            Figure("memory", "MiB", [a[1] for a, _ in found], [b[1] for _, b in found]),
        ],
    )
    print(f"gc-longest-hold: {max(a[2] for a, _ in found):.3f} s")


if __name__ == "__main__":
    _one(sys.argv[1]) if len(sys.argv) > 1 else main()
