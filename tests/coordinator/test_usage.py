"""What workspaces use, measured by the leader and left for whoever shows it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from codehub.coordinator.usage import UsageSampler
from codehub.drivers.base import InstanceUsage
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.faults import Fault, Misbehaviour
from codehub.drivers.memory.things import Instance, Volume
from codehub.model.observation import Life
from codehub.model.workspace import Incarnation, InstanceBackend, OpId, WorkspaceId
from codehub.signals.connect import Redis
from codehub.signals.usage import KEY, MOST_POINTS, Measurement, RedisUsage, read_usage

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Kept:
    """Implements ports.UsageKeeper."""

    newest: dict[WorkspaceId, Measurement] = field(default_factory=dict)
    days: list[Mapping[WorkspaceId, Measurement]] = field(default_factory=list)

    async def leave(self, newest: Mapping[WorkspaceId, Measurement]) -> None:
        self.newest = dict(newest)

    async def add(self, points: Mapping[WorkspaceId, Measurement]) -> None:
        self.days.append(points)


@dataclass
class Site:
    """A sampler whose clocks stand still until a test moves them."""

    world: MemoryWorld = field(default_factory=MemoryWorld)
    kept: Kept = field(default_factory=Kept)
    seconds: float = 100.0

    def __post_init__(self) -> None:
        backends = {InstanceBackend.PROCESS: self.world.backend()}
        self.sampler = UsageSampler(backends, self.kept, self._now, clock=lambda: self.seconds)

    async def _now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def runs(self) -> Instance:
        volume = Volume(Incarnation("x"), "u")
        made = Instance(OpId(uuid4()), "ide", volume, Life.READY, "10.0.0.1:1")
        self.world.instances[WorkspaceId(uuid4())] = made
        return made

    async def sample(self, one: Instance, usage: InstanceUsage, *, after: float = 15.0) -> Measurement:
        self.seconds += after
        one.usage = usage
        await self.sampler.sample()
        (measured,) = self.kept.newest.values()
        return measured


async def test_processors_are_the_difference_between_two_looks() -> None:
    site = Site()
    one = site.runs()
    first = await site.sample(one, InstanceUsage(cpu_seconds=50.0, memory_bytes=7, ports=(8000,)))
    assert (first.cpus, first.memory_bytes, first.ports) == (None, 7, (8000,)), "one look tells no rate"
    second = await site.sample(one, InstanceUsage(cpu_seconds=56.0, memory_bytes=9), after=12.0)
    assert (second.cpus, second.memory_bytes) == (0.5, 9)
    again = await site.sample(one, InstanceUsage(cpu_seconds=1.0))
    assert again.cpus is None, "it was started again meanwhile"


async def test_an_engine_that_tells_the_rate_is_believed() -> None:
    site = Site()
    assert (await site.sample(site.runs(), InstanceUsage(cpus=1.25))).cpus == 1.25


async def test_a_point_of_the_day_has_the_mean_and_the_peak() -> None:
    site = Site()
    one = site.runs()
    await site.sample(one, InstanceUsage(cpus=1.0, memory_bytes=100))
    await site.sample(one, InstanceUsage(cpus=2.0, memory_bytes=900))
    assert site.kept.days == [], "not before its time"
    await site.sample(one, InstanceUsage(cpus=3.0, memory_bytes=200), after=300)
    (points,) = site.kept.days
    (point,) = points.values()
    assert (point.cpus, point.memory_bytes) == (2.0, 900)
    await site.sample(one, InstanceUsage(cpus=9.0, memory_bytes=1), after=300)
    (point,) = site.kept.days[1].values()
    assert (point.cpus, point.memory_bytes) == (9.0, 1), "each point is about its own minutes"


async def test_an_engine_that_is_out_costs_the_picture_alone() -> None:
    site = Site()
    site.runs()
    site.world.faults.add(Fault("instances.usage", Misbehaviour.UNREACHABLE))
    await site.sampler.sample()
    assert site.kept.newest == {}


async def test_what_was_left_is_read_and_bounded(redis: Redis) -> None:
    identity, keeper = WorkspaceId(uuid4()), RedisUsage(redis)
    empty = await read_usage(redis, identity)
    assert (empty.newest, list(empty.day)) == (None, [])
    newest = Measurement(NOW, 0.5, 7, (8000, 8001))
    await keeper.leave({identity: newest})
    for number in range(MOST_POINTS + 2):
        await keeper.add({identity: Measurement(NOW + timedelta(minutes=number), None, number)})
    await redis.rpush(f"{KEY}{identity}:day", b"nonsense", b"[1]", b"{}")
    found = await read_usage(redis, identity)
    assert found.newest == newest
    assert [point.memory_bytes for point in found.day] == list(range(2, MOST_POINTS + 2))
    assert 0 < await redis.ttl(f"{KEY}{identity}") <= 120, "nothing old is shown as new"
    assert 0 < await redis.ttl(f"{KEY}{identity}:day") <= 24 * 3600
