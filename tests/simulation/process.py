"""Coordinator processes and their election: two or three of them, at most one holding the lock.

Each runs the real controller, TTL runner and GC under the real Loop, with its ports behind a gate. A process that died
loses the lock within seconds and is started again; one that is paused loses it after a while, and goes on as a leader
that does not know yet. Leadership is fresh for 4 s after it was confirmed, and nobody else begins within 6 s.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, cast

from codehub.coordinator.collect import Collector, GcReport
from codehub.coordinator.controller import Controller
from codehub.coordinator.expire import Expirer
from codehub.coordinator.loop import Loop
from codehub.coordinator.pace import Pace
from codehub.coordinator.ports import Records
from codehub.drivers.base import Archives, Backend, Resources
from codehub.errors import StaleLeader, Unavailable
from codehub.model.clocks import JUMP_SECONDS, ClockWatch
from codehub.model.failure import Rules
from codehub.model.gc import GcRules
from codehub.model.workspace import OpId, WorkspaceId
from tests.coordinator.collecting import nobody_objects
from tests.simulation.database import DatabaseClock, MemoryDatabase
from tests.simulation.gate import Died, Gate, Gated, Plan
from tests.simulation.signals import MemoryActivity, MemoryRedis, MemoryTimers
from tests.simulation.surroundings import Surroundings
from tests.simulation.trace import Trace

CONFIRM_SECONDS, FRESH_SECONDS = 2.0, 4.0
FLUSH_SECONDS = 30.0


class LostLeadership(Exception):
    """The lock is somebody else's, or nobody can tell."""


@dataclass
class Leadership:
    """Implements ports.Leadership."""

    epoch: int
    confirmed_at: float

    def is_fresh(self) -> bool:
        return asyncio.get_running_loop().time() - self.confirmed_at < FRESH_SECONDS


@dataclass
class Shared:
    """What all processes of a simulation are given."""

    database: MemoryDatabase
    redis: MemoryRedis
    surroundings: Surroundings
    trace: Trace
    rng: Random
    plan: Callable[[], Plan]
    new_op_id: Callable[[], OpId]
    rules: Rules
    gc_rules: GcRules
    gc_seconds: float
    clock: "DatabaseClock"
    on_collected: Callable[[GcReport], None] = lambda _report: None
    lost_wakes: float = 0.0
    ids: list[WorkspaceId] = field(default_factory=list)  # of every workspace, in the order they were made
    make: type[Controller] = Controller
    is_restoring: bool = False  # a restore holds the lock
    holder: Gate | None = None
    free: asyncio.Event = field(default_factory=asyncio.Event)  # the lock is nobody's

    def __post_init__(self) -> None:
        self.free.set()

    def release(self, gate: Gate | None) -> None:
        """This holder's session has ended; without one, whoever's it was."""
        if gate is None or self.holder is gate:
            self.holder = None
            self.free.set()


@dataclass
class Process:
    name: str
    shared: Shared
    gate: Gate = field(init=False)
    controller: Controller | None = None
    _loops: list[Loop] = field(default_factory=list)
    _incarnation: int = 0

    async def run(self) -> None:
        """For ever: start, die, start again."""
        while True:
            self._incarnation += 1
            self.gate = gate = Gate(
                f"{self.name}.{self._incarnation}", self.shared.trace, self.shared.rng, self.shared.plan()
            )
            life = asyncio.create_task(self._live(gate))
            gate.on_crash = partial(self._crashed, life, gate)
            gate.on_freeze = partial(self._frozen, gate)
            await asyncio.wait([life])
            if not gate.dead and not life.cancelled():
                life.result()
            await asyncio.sleep(self.shared.rng.uniform(0.1, 20.0))

    def wake(self) -> None:
        """A hint that something was asked for; it may be lost on its way."""
        if self.controller is not None and self.shared.rng.random() >= self.shared.lost_wakes:
            self.controller.woken()

    def _crashed(self, life: asyncio.Task[None], gate: Gate) -> None:
        asyncio.get_running_loop().call_later(self.shared.rng.uniform(0.0, 6.0), self.shared.release, gate)
        life.cancel()

    def _frozen(self, gate: Gate) -> None:
        def lose() -> None:
            if gate.frozen:
                self.shared.release(gate)

        asyncio.get_running_loop().call_later(self.shared.rng.uniform(6.0, 10.0), lose)

    async def _live(self, gate: Gate) -> None:
        clock = ClockWatch(JUMP_SECONDS)  # the database's, of all leaderships of this incarnation
        try:
            while True:
                await self._candidate(gate)
                try:
                    await self._lead(gate, clock)
                except* (StaleLeader, LostLeadership, Unavailable):
                    self.shared.trace.note(None, f"{gate.name} leads no more")
                finally:
                    self.controller = None
                    if not gate.dead:
                        self.shared.release(gate)
        except* Died:
            pass

    async def _candidate(self, gate: Gate) -> None:
        while True:
            await self.shared.free.wait()
            await asyncio.sleep(self.shared.rng.uniform(0.2, 2.0))
            try:
                if await gate.call("election.lock", None, lambda: self._take(gate)):
                    return
            except Unavailable:
                continue

    async def _take(self, gate: Gate) -> bool:
        if self.shared.database.is_out:
            raise Unavailable("The database did not answer in time.")
        if self.shared.holder is not None or self.shared.is_restoring:
            return False
        self.shared.holder = gate
        self.shared.free.clear()
        return True

    async def _lead(self, gate: Gate, clock: ClockWatch) -> None:
        shared, loop = self.shared, asyncio.get_running_loop()
        asked_at = loop.time()

        async def begin() -> int:
            return shared.database.begin_leadership()

        epoch = await gate.call("election.begin", None, begin)
        shared.trace.note(None, f"{gate.name} leads, epoch {epoch}")
        leadership = Leadership(epoch, asked_at)
        records: Any = Gated(gate, "database", shared.database)
        archives = cast("Archives", Gated(gate, "archives", shared.surroundings.store.archives))
        activity: Any = Gated(gate, "redis", MemoryActivity(shared.redis))
        controller = self._controller(gate, records, archives, leadership)
        expirer = Expirer(records, activity, flush_interval=FLUSH_SECONDS, clock=clock)
        timers: Any = Gated(gate, "redis", MemoryTimers(shared.redis))
        collector = Collector(
            records,
            archives,
            timers,
            leadership,
            shared.gc_rules,
            on_change=controller.suspect_archives,
            refusal=nobody_objects,
        )
        ticks = Loop("workspaces", controller.tick, controller.period)
        controller.on_wake = ticks.wake
        self._loops = [
            ticks,
            Loop("ttl", expirer.run_once, lambda: 60.0),
            Loop("gc", lambda: self._collect(collector), lambda: shared.gc_seconds),
        ]
        self.controller = controller
        async with controller.working(), asyncio.TaskGroup() as group:
            for each in self._loops:
                group.create_task(each.run())
            group.create_task(self._confirm(gate, leadership))

    def _controller(self, gate: Gate, records: Records, archives: Archives, leadership: Leadership) -> Controller:
        shared = self.shared
        backends = {
            name: Backend(
                cast("Any", Gated(gate, f"{name}.instances", backend.instances)),
                cast("Any", Gated(gate, f"{name}.volumes", backend.volumes)),
                cast("Any", Gated(gate, f"{name}.jobs", backend.jobs)),
            )
            for name, backend in shared.surroundings.backends().items()
        }
        return shared.make(
            records,
            archives,
            backends,
            leadership,
            rules=shared.rules,
            resources=Resources(),
            pace=Pace(),
            new_op_id=shared.new_op_id,
            trash_retention=shared.gc_rules.trash_retention,
        )

    async def _collect(self, collector: Collector) -> bool:
        await collector.run_once()
        if collector.last is not None:
            self.shared.on_collected(collector.last)
        return False

    async def _confirm(self, gate: Gate, leadership: Leadership) -> None:
        async def still_ours() -> bool:
            if self.shared.database.is_out:
                raise Unavailable("The database did not answer in time.")
            return self.shared.holder is gate

        while True:
            await asyncio.sleep(CONFIRM_SECONDS)
            asked_at = asyncio.get_running_loop().time()
            if not await gate.call("election.confirm", None, still_ours):
                raise LostLeadership
            leadership.confirmed_at = asked_at
