"""A disk that is almost full: what stands by is archived, what grows fastest is stopped, and it is said."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from codehub.coordinator.records import DatabaseRecords
from codehub.coordinator.reserve import DiskReserve
from codehub.db.pool import Connection
from codehub.drivers.memory import MemoryWorld
from codehub.model.workspace import Desired, InstanceBackend, WorkspaceId
from tests.db.support import add_workspace, read

GIB = 1 << 30


class FakeDisk:
    """Implements drivers.base.Disk."""

    def __init__(self) -> None:
        self.told: str | None = None
        self.sizes: dict[WorkspaceId, int] = {}

    async def shortage(self) -> str | None:
        return self.told

    async def home_sizes(self, ids: Collection[WorkspaceId]) -> Mapping[WorkspaceId, int]:
        return {each: self.sizes.get(each, 0) for each in ids}


async def desired(owner: Connection, identity: WorkspaceId) -> Desired:
    return (await read(owner, identity)).wish.desired_state


def guard(records: DatabaseRecords, disk: FakeDisk) -> DiskReserve:
    backend = replace(MemoryWorld().backend(), disk=disk)
    return DiskReserve(records, {InstanceBackend.PROCESS: backend})


async def test_room_is_made_and_said(records: DatabaseRecords, owner: Connection) -> None:
    kinds = {"phase": "RUNNING", "instance_backend": "process", "storage_backend": "directory"}
    quiet, growing = [await add_workspace(owner, **kinds) for _ in range(2)]
    standing = await add_workspace(owner, **{**kinds, "phase": "STANDBY", "desired_state": "STANDBY"})
    elsewhere = await add_workspace(
        owner, phase="STANDBY", desired_state="STANDBY", instance_backend="docker", storage_backend="docker-volume"
    )
    disk = FakeDisk()
    reserve = guard(records, disk)
    await reserve.run_once()
    assert await desired(owner, standing) is Desired.STANDBY, "all is well"
    assert reserve.shortages == {}

    disk.told = "The disk of the homes is almost full."
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

    disk.told = None
    await reserve.run_once()
    assert reserve.shortages == {}
