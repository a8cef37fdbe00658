"""One seed: a world, its processes, its users and its weather; then calm, in which everything must come true."""

import asyncio
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from time import process_time
from typing import Any
from uuid import UUID

import structlog

from codehub.coordinator.controller import Controller
from codehub.db.losses import Word
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.things import Job
from codehub.model.failure import TERMINAL, Rules, is_put_off
from codehub.model.gc import GcRules
from codehub.model.names import parse_archive_key
from codehub.model.suspicion import ARCHIVES
from codehub.model.workspace import Desired, InstanceBackend, Operation, OpId, Phase, Workspace
from tests.simulation import virtual
from tests.simulation.database import DatabaseClock, MemoryDatabase
from tests.simulation.disasters import Disasters
from tests.simulation.gate import Plan
from tests.simulation.homecoming import Homecoming
from tests.simulation.ledger import Ledger
from tests.simulation.outcome import Outcome
from tests.simulation.people import LONGEST_TTL, People
from tests.simulation.process import Process, Shared
from tests.simulation.scale import TRAVELS, Disaster, Scale, scale_of
from tests.simulation.signals import MemoryRedis
from tests.simulation.surroundings import Surroundings
from tests.simulation.trace import Trace, Violation
from tests.simulation.travel import TimeMachine
from tests.simulation.weather import Weather

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
GC = GcRules(orphan_delay=timedelta(minutes=20), trash_retention=timedelta(hours=1), implausible_count=1_000_000)
GC_SECONDS = 600.0
EAGER_GC = GcRules(orphan_delay=timedelta(minutes=4), trash_retention=timedelta(minutes=15), implausible_count=3)
EAGER_GC_SECONDS = 120.0
CONVERGES_SECONDS = 1800.0  # the longest pause of an outage is 5 min, the longest time limit 10
CHECK_SECONDS = 20.0
REST_SECONDS = 1200.0  # the slowest part but GC comes around once a minute, and every row is swept in less


class Simulation:
    def __init__(self, seed: int, scale: Scale | None = None, make: type[Controller] = Controller) -> None:
        self.seed, self.scale = seed, scale or scale_of(seed)
        self._plans = Random(f"{seed}/plans")
        ops = Random(f"{seed}/ops")
        self.trace = Trace()
        skews = Random(f"{seed}/skew")
        backends = (InstanceBackend.PROCESS, InstanceBackend.DOCKER)
        skew = {name: timedelta(seconds=skews.uniform(-120, 120)) for name in backends}
        surroundings = Surroundings(self.clock, skew)
        database_clock = DatabaseClock(self.clock)
        gc_rules = EAGER_GC if self.scale.collects_often else GC
        self.shared = Shared(
            database=MemoryDatabase(database_clock),
            clock=database_clock,
            redis=MemoryRedis(),
            surroundings=surroundings,
            trace=self.trace,
            rng=Random(f"{seed}/processes"),
            plan=self._plan,
            new_op_id=lambda: OpId(UUID(int=ops.getrandbits(128), version=4)),
            rules=Rules(),
            gc_rules=gc_rules,
            gc_seconds=EAGER_GC_SECONDS if self.scale.collects_often else GC_SECONDS,
            lost_wakes=self._plans.choice((0.0, 0.1, 0.5, 1.0)),
            make=make,
        )
        self.ledger = Ledger(surroundings, self.shared.database.rows, self.trace, self.clock, gc_rules, database_clock)
        self.ledger.is_fair = self.scale.is_fair
        self.weather = Weather(
            self.shared,
            self.ledger,
            Random(f"{seed}/weather"),
            self.scale.weather_every,
            self.scale.losses,
            self.scale.verbs,
            self.scale.kinds,
            self.scale.is_fair,
        )
        self.people = People(
            self.shared, self.ledger, Random(f"{seed}/people"), self.scale.people_every, self.scale.workspaces
        )
        self.processes = [Process(name, self.shared) for name in "abc"[: self._plans.choice((2, 2, 3))]]
        self.time_machine = TimeMachine(self.shared, self.ledger, Random(f"{seed}/travel"), self.processes)
        self.disasters = Disasters(
            self.shared,
            self.ledger,
            self.people,
            self.weather,
            Random(f"{seed}/strikes"),
            self.scale.disasters,
            self.scale.disaster_every,
            self.time_machine,
        )
        self.shared.on_collected = self.ledger.collected
        self._calm = False
        self._listen()

    def clock(self) -> datetime:
        return BEGINNING + timedelta(microseconds=round(asyncio.get_running_loop().time() * 1e6))

    def _plan(self) -> Plan:
        if self._calm:
            return Plan()
        rng = self._plans
        slow = rng.choice((0.005, 0.02, 0.3, 2.0))
        return Plan(
            crash_at=rng.choice((0, rng.randint(1, 60), rng.randint(1, 3000))),
            freeze_at=rng.choice((0, rng.randint(1, 60), rng.randint(1, 3000))),
            freeze_seconds=rng.choice((rng.uniform(0.1, 6.0), rng.uniform(6.0, 90.0))),
            after_effect=rng.random() < 0.5,
            slow=slow,
            lost_answers=rng.choice((0.0, 0.0, 0.01)),
        )

    def _listen(self) -> None:
        database, surroundings = self.shared.database, self.shared.surroundings
        database.watchers += [self._note, self.ledger.written, self._notify]
        database.on_decided = self.ledger.decided
        database.on_expired = self.ledger.expired
        surroundings.stored.on_put = self.ledger.archive_put
        surroundings.stored.on_going = lambda key, _: self.ledger.archive_going(key)
        for name in surroundings.worlds:
            surroundings.volumes[name].on_going = self.ledger.volume_going
            surroundings.instances[name].on_put = self.ledger.instance_made
            surroundings.jobs[name].on_put = partial(self._job_begun, surroundings.worlds[name])

    def _job_begun(self, world: MemoryWorld, _: OpId, job: Job) -> None:
        self.trace.note(job.workspace_id, f"{job.kind.name} job {str(job.op_id)[:8]} on {job.volume.uid}")
        self.ledger.job_begun(job)
        self.weather.run_job(world, job)

    def _note(self, before: Workspace | None, row: Workspace) -> None:
        if before is None:
            self.trace.note(row.id, f"created, wants {row.wish.desired_state}")
        elif before.status is not row.status:
            self.trace.note(row.id, told(row))
            if _quiet(before) != _quiet(row):
                self.trace.got_further(row.id)

    def _notify(self, before: Workspace | None, row: Workspace) -> None:
        """The trigger workspaces_notify_wake, and everything between it and the controller."""
        if before is not None and _asked(before) == _asked(row):
            return
        self.trace.wanted(row.id)
        delay = self.shared.rng.random() * 0.05
        for process in self.processes:
            asyncio.get_running_loop().call_later(delay, process.wake)

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        helpers: list[asyncio.Task[None]] = []
        async with asyncio.TaskGroup() as group:
            lasting = [self.people.proxies(), *(process.run() for process in self.processes)]
            lasting += [self._engine_events(world) for world in self.shared.surroundings.worlds.values()]
            if set(TRAVELS) & set(self.scale.disasters):
                lasting.append(self.time_machine.remember())
            helpers += [group.create_task(each) for each in lasting]
            for _ in range(self.scale.workspaces // 2):
                self.people.create()
            doing = (self.people.live(), self.weather.blow(), self.disasters.strike())
            passing = [group.create_task(each) for each in doing]
            await self._for(self.scale.hours * 3600)
            for task in passing:
                task.cancel()
            await self._converge()
            for task in helpers:
                task.cancel()

    async def _engine_events(self, world: MemoryWorld) -> None:
        async for _ in world.backend().instances.events():
            for process in self.processes:
                process.wake()

    async def _for(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(CHECK_SECONDS)
            self.ledger.check_all()

    async def _converge(self) -> None:
        """The faults end: every wish comes true, and then nothing happens any more."""
        self._calm = True
        self.people.stop()
        await self.time_machine.settled()
        self.weather.clear_up()
        self.disasters.clear_up()
        for process in self.processes:
            process.gate.thaw()
            process.gate.plan = Plan()
        waited = 0.0
        while restless := [row for row in self.shared.database.rows.values() if not is_settled(row)]:
            if waited >= CONVERGES_SECONDS:
                row = restless[0]
                self.trace.fail(f"{len(restless)} do not converge: {told(row)}, wants {wanted(row)}", row.id)
            if self.scale.losses or self.time_machine.left_to_administrators:  # many may really be lost
                self.shared.database.losses_accepted = dict.fromkeys([*InstanceBackend, ARCHIVES], Word(self.clock()))
            await self._for(CHECK_SECONDS)
            waited += CHECK_SECONDS
        await self._for(60.0)
        self._nothing_left()
        if self.scale.comes_home:
            await Homecoming(self.shared, self.ledger, self.people, self.time_machine.left_to_administrators).run()
        if self.scale.rests:
            await self._rest()

    async def _rest(self) -> None:
        unneeded = self.ledger.unneeded()
        await self._for(LONGEST_TTL * 3 + 300)  # TTLs run out
        before = dict(self.shared.database.rows)
        await self._for(REST_SECONDS)
        for row in before.values():
            after = self.shared.database.rows[row.id]
            if is_put_off(row.status) or is_put_off(after.status):
                continue  # it is tried again, ever more rarely
            if _quiet(row) != _quiet(after) and after.wish.deleted_at is None:
                self.trace.fail(f"it does not come to rest: {told(row)}, then {told(after)}", row.id)
        self._no_errand_left()
        left = unneeded & self.ledger.unneeded() & self.shared.database.archive_operations.keys()
        if left and Disaster.CLOCKS_JUMP not in self.scale.disasters:  # after a jump its wait begins anew
            self.trace.fail(f"GC has left what nobody needs: {min(left)}", parse_archive_key(min(left)).workspace_id)

    def _nothing_left(self) -> None:
        rows = self.shared.database.rows
        for world in self.shared.surroundings.worlds.values():
            for job in world.jobs.values():
                if job.workspace_id in rows and rows[job.workspace_id].status.operation is Operation.NONE:
                    self.trace.fail("a job is left", job.workspace_id)
            for workspace_id in world.instances.keys() & rows.keys():
                status = rows[workspace_id].status
                homeless = status.phase is Phase.ERROR and not status.conditions.volume_ready.status
                if status.operation is Operation.NONE and (
                    homeless or status.phase not in (Phase.RUNNING, Phase.ERROR)
                ):
                    self.trace.fail("an instance is left", workspace_id)

    def _no_errand_left(self) -> None:
        for process in self.processes:
            if process.controller is not None and process.controller.errands:
                self.trace.fail("an errand is left", None)


def _asked(row: Workspace) -> tuple[object, ...]:
    return row.wish.desired_state, row.wish.deleted_at, row.wish.purged_at, row.wish.recover_request


def _quiet(row: Workspace) -> Workspace:
    return replace(row, status=replace(row.status, observed_at=None))


def is_settled(row: Workspace) -> bool:
    """Its wish is true, or it waits for a person, for GC or, in use, for the next time that it is archived."""
    status, wish = row.status, row.wish
    if status.operation is not Operation.NONE:
        return False
    if wish.deleted_at is not None:
        return status.phase in (Phase.DELETING, Phase.DELETED)
    if status.phase is Phase.ERROR:
        return status.error_reason in TERMINAL
    if is_put_off(status):
        return True
    return status.phase.value == wish.desired_state.value and wish.desired_state is not Desired.DELETED


def wanted(row: Workspace) -> str:
    return f"{row.wish.desired_state}{', deleted' * (row.wish.deleted_at is not None)}"


def told(row: Workspace) -> str:
    status, home = row.status, row.status.home_ctx
    key = status.archive_key[37:45] if status.archive_key else "-"
    return (
        f"{status.phase} {status.operation} op {str(status.op_id)[:8]} key {key} {home.volume} {home.uid}"
        f" {status.error_reason or ''} {status.error_count or ''}".rstrip()
    )


def run_seed(seed: int, scale: Scale | None = None, make: type[Controller] = Controller) -> Outcome:
    """Run one seed to its end, or to what went wrong."""
    started, made = process_time(), Simulation(seed, scale, make)
    at = 0.0

    async def main() -> None:
        nonlocal at
        running, failed = asyncio.create_task(made.run()), asyncio.create_task(made.trace.failed.wait())
        await asyncio.wait([running, failed], return_when=asyncio.FIRST_COMPLETED)
        at = asyncio.get_running_loop().time()
        if made.trace.violation is None:
            await running

    with _news_only(made.trace):
        virtual.run(main())
    trace = made.trace
    return Outcome(
        seed=seed,
        digest=trace.digest,
        events=trace.events,
        faults=trace.faults.total(),
        virtual_hours=at / 3600,
        seconds=process_time() - started,
        workspaces=len(made.shared.database.rows),
        kinds=dict(trace.faults),
        most_asked=trace.most_asked,
        violation=trace.violation,
        story=trace.story,
    )


@contextmanager
def _news_only(trace: Trace) -> Iterator[None]:
    """What the coordinator logs about the weather is not news here; an exception that nobody expected is."""

    def hear(_: object, __: str, event: MutableMapping[str, Any]) -> str:
        error = event.get("exc_info")
        error = sys.exc_info()[1] if error is True else error
        if isinstance(error, BaseException) and not isinstance(error, Violation) and trace.violation is None:
            where = traceback.extract_tb(error.__traceback__)[-1]
            with suppress(Violation):
                trace.fail(f"a bug: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[hear], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)
