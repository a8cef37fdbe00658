"""A disk that is almost full: what stands by is archived, who takes it is stopped, and it is said."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from codehub.coordinator.ports import ReserveRecords
from codehub.coordinator.records import DatabaseRecords
from codehub.coordinator.reserve import DiskReserve
from codehub.db.pool import Connection
from codehub.drivers.base import DiskPressure
from codehub.drivers.memory import MemoryWorld
from codehub.model.disk import PATIENCE, Scarce
from codehub.model.workspace import Desired, InstanceBackend, WorkspaceId
from tests.db.support import add_workspace, read

GIB = 1 << 30
RUNNING = {"phase": "RUNNING", "instance_backend": "process", "storage_backend": "directory"}


class FakeDisk:
    """Implements drivers.base.Disk."""

    def __init__(self) -> None:
        self.scarce: Scarce | None = None
        self.told: str | None = None
        self.sizes: dict[WorkspaceId, int | None] = {}
        self.measured = 0

    async def pressure(self) -> DiskPressure:
        return DiskPressure(self.scarce, self.told)

    async def home_sizes(
        self, ids: Collection[WorkspaceId], scarce: Scarce, *, gently: bool = False
    ) -> Mapping[WorkspaceId, int | None]:
        assert scarce is self.scarce
        assert not gently, "somebody waits for it"
        self.measured += 1
        return {each: self.sizes.get(each, 0) for each in ids}

    def is_full(self) -> None:
        self.scarce, self.told = Scarce.BYTES, "The disk of the homes is almost full."

    def has_room(self) -> None:
        self.scarce, self.told = None, None


async def desired(owner: Connection, identity: WorkspaceId) -> Desired:
    return (await read(owner, identity)).wish.desired_state


def guard(records: ReserveRecords, disk: FakeDisk) -> DiskReserve:
    backend = replace(MemoryWorld().backend(), disk=disk)
    return DiskReserve(records, {InstanceBackend.PROCESS: backend})


async def test_room_is_made_and_said(records: DatabaseRecords, owner: Connection) -> None:
    quiet, growing = [await add_workspace(owner, **RUNNING) for _ in range(2)]
    standing = await add_workspace(owner, **{**RUNNING, "phase": "STANDBY", "desired_state": "STANDBY"})
    elsewhere = await add_workspace(
        owner, phase="STANDBY", desired_state="STANDBY", instance_backend="docker", storage_backend="docker-volume"
    )
    disk = FakeDisk()
    reserve = guard(records, disk)
    await reserve.run_once()
    assert await desired(owner, standing) is Desired.STANDBY, "all is well"
    assert reserve.shortages == {}

    disk.is_full()
    await reserve.run_once()
    assert reserve.shortages == {InstanceBackend.PROCESS: disk.told}
    assert await desired(owner, standing) is Desired.ARCHIVED
    assert await desired(owner, elsewhere) is Desired.STANDBY, "another disk"
    assert await desired(owner, growing) is Desired.RUNNING, "it takes two looks to see who grows"

    disk.sizes = {growing: GIB, quiet: 1000}
    await reserve.run_once()
    assert await desired(owner, growing) is Desired.STANDBY
    assert await desired(owner, quiet) is Desired.RUNNING
    assert "disk is almost full" in (await read(owner, growing)).wish.asked_by

    disk.has_room()
    await reserve.run_once()
    assert reserve.shortages == {}


async def test_who_grows_is_known_when_the_reserve_is_touched(records: DatabaseRecords, owner: Connection) -> None:
    quiet, growing = [await add_workspace(owner, **RUNNING) for _ in range(2)]
    disk = FakeDisk()
    reserve = guard(records, disk)
    disk.scarce = Scarce.BYTES  # almost
    for _ in range(3):
        await reserve.run_once()
    assert disk.measured == 1, "that costs, so it is done rarely"
    assert reserve.shortages == {}

    disk.is_full()
    disk.sizes = {growing: GIB, quiet: 1000}
    await reserve.run_once()
    assert await desired(owner, growing) is Desired.STANDBY
    assert await desired(owner, quiet) is Desired.RUNNING


class LaterRecords:
    """The same database, read at another time."""

    def __init__(self, records: DatabaseRecords) -> None:
        self.later = timedelta()
        self.settled_on = records.settled_on
        self.expire = records.expire
        self._now = records.now

    async def now(self) -> datetime:
        return await self._now() + self.later


async def test_who_fills_the_disk_and_sits_still_is_stopped_after_a_while(
    records: DatabaseRecords, owner: Connection
) -> None:
    workers = [await add_workspace(owner, **RUNNING) for _ in range(2)]
    still = await add_workspace(owner, **RUNNING)
    later, disk = LaterRecords(records), FakeDisk()
    reserve = guard(later, disk)
    disk.is_full()
    disk.sizes = {still: 9 * GIB, workers[0]: GIB, workers[1]: GIB}
    await reserve.run_once()
    later.later = PATIENCE - timedelta(seconds=1)
    await reserve.run_once()
    assert await desired(owner, still) is Desired.RUNNING
    later.later = 2 * PATIENCE
    await reserve.run_once()
    assert await desired(owner, still) is Desired.STANDBY
    disk.sizes = {workers[0]: GIB, workers[1]: GIB}
    await reserve.run_once()
    for each in workers:
        assert await desired(owner, each) is Desired.RUNNING, "that is given time to help"
