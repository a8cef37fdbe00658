"""What a CodeHub costs that nobody uses: memory and processor time, beside a JupyterHub with its proxy.

Ours is `codehub up` with everything it starts, its PostgreSQL and its Valkey included, with 0, 100 and 10,000 archived
workspaces in the database and their archives in the store. The peer has no users. Both run at the same time, are left
alone until what they do at their start is done, and are then watched. Memory is the sum of what the kernel shares out
to each process (PSS): what several of them share is counted once. Processor time is in percent of one core.
"""

import asyncio
import hashlib
import shutil
import sys
import time
from collections.abc import Collection
from pathlib import Path

import psycopg

from bench import jupyterhub
from bench.measured import cpu_seconds, descendants, megabytes, name_of
from bench.reconcile import OWNER, row
from bench.report import Figure, report
from codehub.db import migrate
from codehub.drivers.archive_store.meta import EMPTY_ARCHIVE, Meta
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.memory import MemoryWorld
from codehub.embedded import DataDir, EmbeddedServers
from codehub.model.names import meta_key
from codehub.model.workspace import ArchiveKey, Phase
from tests.cli import codehub
from tests.support import short_folder

SIZES = (0, 100, 10_000)
SETTLING_SECONDS, WATCHED_SECONDS = 30.0, 40.0
_LEAST_PERCENT = 0.01  # less than the clock can tell
_META = Meta(hashlib.sha256(EMPTY_ARCHIVE).hexdigest(), len(EMPTY_ARCHIVE))


async def fill(folder: Path, number: int) -> None:
    """A data directory with so many workspaces."""
    with DataDir.open(folder) as data:
        async with EmbeddedServers(data).running() as servers:
            assert servers.database_url is not None
            await asyncio.to_thread(migrate.upgrade, servers.database_url)
            rows = [row(Phase.ARCHIVED, MemoryWorld()) for _ in range(number)]
            async with await psycopg.AsyncConnection.connect(servers.database_url) as conn:
                await conn.execute("INSERT INTO users (id, username) VALUES (%s, 'bench')", [OWNER])
                columns = ", ".join(row(Phase.ARCHIVED, MemoryWorld()))
                async with conn.cursor().copy(f"COPY workspaces ({columns}) FROM STDIN") as copy:
                    for one in rows:
                        await copy.write_row(list(one.values()))
            await put([ArchiveKey(str(one["archive_key"])) for one in rows], folder / "archives")


async def put(keys: Collection[ArchiveKey], folder: Path) -> None:
    """Their archives, where CodeHub looks for them: nothing is missing, so nothing is searched for."""
    await ArchiveStore.open(folder.as_uri()).prepare()
    for key in keys:
        path = folder / "archives" / key
        path.parent.mkdir(parents=True)
        path.write_bytes(EMPTY_ARCHIVE)
        (folder / "archives" / meta_key(key)).write_bytes(_META.encode())


class Watched:
    """One of the two, from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._began = time.monotonic()
        self._used = {one: cpu_seconds([one]) for one in descendants(pid)}

    def percent(self) -> float:
        return max(_LEAST_PERCENT, sum(self._percents().values()))

    def memory(self) -> float:
        return megabytes(descendants(self._pid))

    def each(self) -> str:
        """Who takes how much, the greatest first."""
        percents = self._percents()
        found = sorted(((megabytes([pid]), percents.get(pid, 0.0), name_of(pid)) for pid in percents), reverse=True)
        return ", ".join(f"{name} {mb:.0f} MB {percent:.2f} %" for mb, percent, name in found)

    def _percents(self) -> dict[int, float]:
        seconds = time.monotonic() - self._began
        return {pid: (cpu_seconds([pid]) - self._used.get(pid, 0.0)) / seconds * 100 for pid in descendants(self._pid)}


def main(sizes: Collection[int], folder: Path) -> None:
    figures: list[Figure] = []
    (folder / "hub").mkdir()
    with jupyterhub.running(folder / "hub") as hub:
        for number in sizes:
            asyncio.run(fill(folder / f"d{number}", number))
            with codehub.running(folder / f"d{number}", folder / f"log{number}") as up:
                assert up.url
                time.sleep(SETTLING_SECONDS)
                ours, theirs = Watched(up.process.pid), Watched(hub.pid)
                time.sleep(WATCHED_SECONDS)
                print(f"{number}: {ours.each()}; JupyterHub: {theirs.each()}", flush=True)
                figures += [
                    Figure(f"memory-{number}", "MB", [ours.memory()], [theirs.memory()]),
                    Figure(f"cpu-{number}", "%", [ours.percent()], [theirs.percent()]),
                ]
    report("footprint", figures)


if __name__ == "__main__":
    place = short_folder()
    try:
        main([int(word) for word in sys.argv[1:]] or SIZES, place)
    finally:
        shutil.rmtree(place)
