"""Homes are measured rarely, and left for whoever shows them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from codehub.coordinator.home_sizes import HomeSizes
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
from codehub.drivers.base import DiskPressure
from codehub.drivers.memory import MemoryWorld
from codehub.errors import Unreachable
from codehub.model.disk import Scarce
from codehub.model.workspace import InstanceBackend, WorkspaceId
from codehub.signals.connect import Redis
from codehub.signals.usage import KEY, HomeSize, RedisUsage, read_usage
from tests.db.support import add_workspace

RUNNING = {"phase": "RUNNING", "instance_backend": "process", "storage_backend": "directory"}
STANDBY = {**RUNNING, "phase": "STANDBY", "desired_state": "STANDBY"}


@dataclass
class Kept:
    """Implements ports.HomeSizeKeeper."""

    left: dict[WorkspaceId, HomeSize] = field(default_factory=dict)

    async def leave_homes(self, sizes: Mapping[WorkspaceId, HomeSize]) -> None:
        self.left |= sizes


class Site:
    """Implements drivers.base.Disk, with a sampler whose clock stands still until a test or measuring moves it."""

    def __init__(self, records: DatabaseRecords) -> None:
        self.kept, self.seconds, self.takes = Kept(), 1000.0, 0.0
        self.asked: list[set[WorkspaceId]] = []
        self.without_turn: set[WorkspaceId] = set()
        self.is_out = False
        backend = replace(MemoryWorld().backend(), disk=self)
        backends = {InstanceBackend.PROCESS: backend, InstanceBackend.DOCKER: MemoryWorld().backend()}
        self.sizes = HomeSizes(records, backends, self.kept, clock=lambda: self.seconds)

    async def pressure(self) -> DiskPressure:
        return DiskPressure()

    async def home_sizes(
        self, ids: Collection[WorkspaceId], scarce: Scarce, *, gently: bool = False
    ) -> Mapping[WorkspaceId, int | None]:
        assert (scarce, gently) == (Scarce.BYTES, True)
        if self.is_out:
            raise Unreachable("The disk is away.")
        self.asked.append(set(ids))
        self.seconds += self.takes
        return {each: 7 for each in ids if each not in self.without_turn}

    async def measured(self, *, after: float = 15.0) -> set[WorkspaceId]:
        """Which homes were looked at then."""
        self.seconds += after
        self.asked.clear()
        await self.sizes.measure()
        return set().union(*self.asked)


async def test_what_runs_is_measured_again_and_what_stands_by_is_not(
    records: DatabaseRecords, owner: Connection
) -> None:
    running, standing = await add_workspace(owner, **RUNNING), await add_workspace(owner, **STANDBY)
    elsewhere = {"instance_backend": "docker", "storage_backend": "docker-volume"}
    await add_workspace(owner, **{**RUNNING, **elsewhere})
    site = Site(records)
    assert await site.measured() == {running, standing}
    assert {each: size.bytes for each, size in site.kept.left.items()} == {running: 7, standing: 7}
    assert await site.measured() == set()
    assert await site.measured(after=300) == {running}
    await owner.execute("UPDATE workspaces SET phase = 'STANDBY', desired_state = 'STANDBY' WHERE id = %s", [running])
    assert await site.measured() == {running}, "once more when it has stopped"
    assert await site.measured(after=300) == set()


async def test_measuring_takes_a_small_share_of_the_time(records: DatabaseRecords, owner: Connection) -> None:
    homes = {await add_workspace(owner, **STANDBY) for _ in range(25)}
    site = Site(records)
    site.takes = 30.0
    first = await site.measured()
    assert len(first) == 20, "a bounded number in one go"
    assert await site.measured(after=590) == set(), "it rests twenty times as long"
    assert await site.measured() == homes - first


async def test_one_whose_turn_did_not_come_is_the_next(records: DatabaseRecords, owner: Connection) -> None:
    home = await add_workspace(owner, **STANDBY)
    site = Site(records)
    site.without_turn = {home}
    assert await site.measured() == {home}
    assert site.kept.left == {}
    site.without_turn = set()
    assert await site.measured() == {home}
    assert home in site.kept.left


async def test_a_disk_that_cannot_be_looked_at_is_asked_again(records: DatabaseRecords, owner: Connection) -> None:
    home = await add_workspace(owner, **STANDBY)
    site = Site(records)
    site.is_out = True
    assert await site.measured() == set()
    site.is_out = False
    assert await site.measured() == {home}


async def test_what_was_left_is_read(redis: Redis, records: DatabaseRecords, owner: Connection) -> None:
    home, keeper = await add_workspace(owner, **RUNNING), RedisUsage(redis)
    assert (await read_usage(redis, home)).home is None
    for size in (HomeSize(await records.now(), 7), HomeSize(await records.now(), None)):
        rounded = replace(size, at=size.at.replace(microsecond=size.at.microsecond // 100_000 * 100_000))
        await keeper.leave_homes({home: rounded})
        assert (await read_usage(redis, home)).home == rounded
    await redis.set(f"{KEY}{home}:home", b"nonsense")
    assert (await read_usage(redis, home)).home is None
