"""A workspace that fills a small disk is stopped before anybody else on that disk meets its end."""

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from codehub.coordinator.ports import Expiration
from codehub.coordinator.reserve import DiskReserve
from codehub.drivers.process import Options
from codehub.model.workspace import Desired, InstanceBackend, Phase, WorkspaceId
from codehub.model.workspace import Workspace as Row
from tests.drivers_process.world import Workspace, World
from tests.model.builders import in_phase
from tests.support import AS_ROOT, missing, needs_root, short_folder

MIB = 1 << 20
LOOK_SECONDS = 0.2
# At once until the reserve is near, then so slowly that a loaded machine still has seconds to see it.
ATTACKS = {
    "a file": "kept = open('much', 'wb')",
    "a file without a name": "kept = open('much', 'wb'); os.unlink('much')",
    "empty files": "kept = None",
}
ATTACK = """
import os, time
{opening}
def fill(count):
    if kept is None:
        for _ in range(count * 40):
            fill.number += 1
            open(str(fill.number), "wb").close()
    else:
        kept.write(bytes(count << 20))
        kept.flush()
fill.number = 0
fill(30)
try:
    while True:
        time.sleep(0.5)
        fill(1)
except OSError:
    open("/tmp/filled", "wb").close()
    time.sleep(600)
"""


@contextmanager
def disk() -> Iterator[Path]:
    """64 MiB, and 4,000 files."""
    needs_root("who may mount a file system")
    folder = short_folder()
    mount = ("mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=4000,mode=755", "none", str(folder))
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        missing("a machine that lets root mount", AS_ROOT)
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", str(folder)), check=True)
        shutil.rmtree(folder)


class Database:
    """Writes to the disk as PostgreSQL does its log, and holds what workspaces there are: they step down at once."""

    def __init__(self, folder: Path, running: Sequence[Workspace]) -> None:
        self.running = {each.id: each for each in running}
        self.stopped: list[WorkspaceId] = []
        self.failed: list[str] = []
        self._folder = folder
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def close(self) -> None:
        self._end.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._end.wait(0.01):
            number += 1
            path = self._folder / f"wal-{number % 8}"
            try:
                path.unlink(missing_ok=True)
                with path.open("wb") as file:
                    file.write(os.urandom(1 << 16))
                    os.fsync(file.fileno())
            except OSError as error:
                self.failed.append(str(error))

    async def now(self) -> datetime:
        return datetime.now(UTC)

    async def settled_on(self, _: InstanceBackend) -> Sequence[Row]:
        return [replace(in_phase(Phase.RUNNING), id=each) for each in self.running]

    async def expire(self, expirations: Sequence[Expiration]) -> int:
        for each in expirations:
            assert each.transition.to is Desired.STANDBY
            workspace = self.running.pop(each.was.id)
            await workspace.world.driver.instances.remove(workspace.id)
            self.stopped.append(workspace.id)
        return len(expirations)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_the_database_never_meets_a_full_disk(attack: str) -> None:
    with disk() as folder:
        world = World(Options(root=folder / "w", reserve=16 * MIB))
        workspaces = [await world.start() for _ in range(3)]
        attacker, (kept, worker) = workspaces[0], workspaces[1:]
        database = Database(folder, workspaces)
        try:
            kept.run("head -c 4000000 /dev/urandom >kept")
            worker.run("sh -c 'while sleep 0.1; do date >>notes; done' </dev/null >/dev/null 2>&1 &")
            attacker.request("PUT", "/files/fill.py", ATTACK.replace("{opening}", ATTACKS[attack]).encode())
            attacker.run("setsid python3 fill.py </dev/null >/dev/null 2>&1 &")
            reserve = DiskReserve(database, {InstanceBackend.PROCESS: world.driver.backend})
            async with asyncio.timeout(60):
                while not database.stopped:
                    await reserve.run_once()
                    await asyncio.sleep(LOOK_SECONDS)
            assert database.stopped == [attacker.id]
            assert database.failed == []
        finally:
            database.close()
            await world.close()
