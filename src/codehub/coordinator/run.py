"""The coordinator as a whole: stand by, lead, and while leading run every part beside the others.

A part that fails skips its turn and the others go on; losing leadership ends all of them at once, and standing by
begins anew. Nothing is kept from one term of leadership to the next: whoever leads starts from the rows and the world.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry

from codehub.config import Settings
from codehub.coordinator import traces
from codehub.coordinator.answers import logs_of
from codehub.coordinator.collect import Collector
from codehub.coordinator.controller import Controller
from codehub.coordinator.expire import Expirer
from codehub.coordinator.gc_requests import GcRequests
from codehub.coordinator.housekeeping import Housekeeper
from codehub.coordinator.leading import Election, Leader
from codehub.coordinator.left_overs import LeftOvers
from codehub.coordinator.listen import EventListener
from codehub.coordinator.loop import Loop, LoopStatus
from codehub.coordinator.measures import Deeds, Standing, StandingCollector
from codehub.coordinator.pace import Pace
from codehub.coordinator.progress import ProgressTeller
from codehub.coordinator.records import DatabaseRecords
from codehub.db.census import Census
from codehub.db.pool import Role, open_pool
from codehub.db.statuses import StatusChange
from codehub.drivers.base import Archives, Backend, Resources
from codehub.errors import Unavailable
from codehub.model.failure import Rules
from codehub.model.gc import GcRules
from codehub.model.workspace import InstanceBackend, OpId
from codehub.signals.activity import RedisActivity
from codehub.signals.connect import Redis, open_redis
from codehub.signals.events import RedisEvents
from codehub.signals.progress import RedisProgress
from codehub.signals.questions import Answerer
from codehub.signals.timers import RedisTimers
from codehub.together import together

log = structlog.get_logger(__name__)

_HOUSEKEEPING_SECONDS = 3600.0
_SAMPLE_SECONDS = 300.0
_EVENTS_AGAIN_SECONDS = 5.0
_CENSUS_SECONDS = 60.0
_REQUESTS_SECONDS = 60.0  # when no notification was heard


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """What the coordinator drives."""

    archives: Archives
    backends: Mapping[InstanceBackend, Backend]
    resources: Resources


@dataclass
class Term:
    """The parts of one leadership."""

    controller: Controller
    collector: Collector
    listener: EventListener
    teller: ProgressTeller
    answerer: Answerer
    loops: tuple[Loop, ...]


class Coordinator:
    """One process's share in coordinating: it leads, or stands by to."""

    def __init__(
        self,
        settings: Settings,
        infrastructure: Infrastructure,
        database_url: str,
        records: DatabaseRecords,
        redis: Redis,
        *,
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._infrastructure = infrastructure
        self._database_url = database_url
        self._records = records
        self._redis = redis
        self._election = Election(database_url, self._lead)
        self._deeds = Deeds(registry)
        self._census: Census | None = None
        self.term: Term | None = None  # while this process leads
        StandingCollector(self._standing, registry)

    async def run(self) -> None:
        """For ever."""
        await self._election.run()

    async def check(self) -> str | None:
        """For /readyz: None while it leads and all is well, else what is worth knowing; raises when it does neither."""
        if self._election.is_standing_by:
            return "It stands by: another coordinator leads."
        if self.term is None:
            raise Unavailable("The coordinator neither leads nor stands by.", "See whether the database answers.")
        failing = [f"{loop.name}: {loop.status.last_error}" for loop in self.term.loops if loop.status.is_failing]
        out = [f"{name}: {cause}" for name, cause in self.term.controller.outages.items()]
        return " ".join([*failing, *out]) or None

    @property
    def status(self) -> Mapping[str, LoopStatus]:
        """What each loop has done in this leadership."""
        return {loop.name: loop.status for loop in self.term.loops} if self.term is not None else {}

    def _standing(self) -> Standing | None:
        term = self.term
        if term is None:
            return None
        controller = term.controller
        return Standing(
            loops=self.status,
            errands=controller.errands,
            is_catching_up=controller.is_catching_up,
            outages=controller.outages.keys(),
            unknown=len(controller.unknown),
            listener=term.listener.status,
            gc=term.collector.last,
            census=self._census,
        )

    def _recorded(self, changes: Sequence[StatusChange], now: datetime) -> None:
        self._deeds.recorded(changes, now)
        traces.recorded(changes, now)

    async def _count(self) -> None:
        self._census = await self._records.census()

    async def _lead(self, leader: Leader) -> None:
        term = self._begin(leader)
        try:
            async with term.controller.working():
                self.term = term
                await together(
                    {loop.name: loop.run() for loop in term.loops}
                    | {"listener": term.listener.run(), "progress": term.teller.run(), "questions": term.answerer.run()}
                    | {
                        f"events of {name}": _watch(name, backend, term.controller)
                        for name, backend in self._infrastructure.backends.items()
                    }
                )
        finally:
            self.term = None

    def _begin(self, leader: Leader) -> Term:
        settings, infrastructure = self._settings, self._infrastructure
        channels = settings.redis_channels
        events = RedisEvents(self._redis, sse_prefix=channels.sse_prefix, wake_prefix=channels.wake_prefix)
        teller = ProgressTeller(RedisProgress(self._redis), events)
        answerer = Answerer(self._redis, {"logs": logs_of(infrastructure.backends)})
        controller = Controller(
            self._records,
            infrastructure.archives,
            infrastructure.backends,
            leader,
            rules=rules_of(settings),
            resources=infrastructure.resources,
            pace=pace_of(settings),
            new_op_id=lambda: OpId(uuid4()),
            on_progress=teller.note,
            on_recorded=self._recorded,
        )
        collector = Collector(
            self._records,
            infrastructure.archives,
            RedisTimers(self._redis),
            leader,
            gc_rules_of(settings),
            on_change=controller.suspect_archives,
        )
        expirer = Expirer(self._records, RedisActivity(self._redis), flush_interval=settings.activity.flush_interval)
        retention = timedelta(seconds=settings.history.retention_seconds)
        audit_days = settings.history.audit_retention_days
        housekeeper = Housekeeper(
            self._records, history=retention, audit=timedelta(days=audit_days) if audit_days else None
        )
        requests = GcRequests(collector, self._records)
        requesting = Loop("gc requests", requests.honour, lambda: _REQUESTS_SECONDS)
        every = settings.coordinator
        left_overs = LeftOvers(controller, infrastructure.backends, partial(self._records.note_unknown, leader.epoch))
        ticking = Loop("controller", left_overs.tick, controller.period)
        controller.on_wake = ticking.wake
        loops = (
            ticking,
            Loop("ttl", expirer.run_once, lambda: every.ttl_interval),
            Loop("gc", requests.cycle, lambda: every.gc_interval),
            requesting,
            Loop("housekeeping", housekeeper.run_once, lambda: _HOUSEKEEPING_SECONDS),
            Loop("samples", lambda: self._records.take_sample(retention), lambda: _SAMPLE_SECONDS),
            Loop("census", self._count, lambda: _CENSUS_SECONDS),
            Loop("accounts", lambda: self._records.tend_accounts(settings.accounts), lambda: every.ttl_interval),
        )
        listener = EventListener(self._database_url, events, controller.woken, on_gc_request=requesting.wake)
        return Term(controller, collector, listener, teller, answerer, loops)


async def _watch(name: InstanceBackend, backend: Backend, controller: Controller) -> None:
    """A driver's events hurry the next tick; without them it only comes later."""
    silent = False
    while True:
        try:
            async for _ in backend.instances.events():
                silent = False
                controller.hurry()
        except Exception as error:  # noqa: BLE001 - events are hints; the ticks go on without them
            if not silent:
                log.warning("a backend's events cannot be heard", backend=name, cause=str(error))
            silent = True
        await asyncio.sleep(_EVENTS_AGAIN_SECONDS)
        controller.hurry()  # something may have happened meanwhile


@asynccontextmanager
async def open_coordinator(
    settings: Settings,
    infrastructure: Infrastructure,
    database_url: str,
    redis_url: str,
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[Coordinator]:
    """A coordinator with connections of its own; what it has done is told by `registry`."""
    async with (
        open_pool(database_url, Role.CONTROLLER, max_size=4) as controller_pool,
        open_pool(database_url, Role.API, max_size=4) as api_pool,
        open_redis(redis_url) as redis,
    ):
        records = DatabaseRecords(controller_pool, api_pool)
        yield Coordinator(
            settings, infrastructure, database_url, records, redis, registry=registry or CollectorRegistry()
        )


def rules_of(settings: Settings) -> Rules:
    limits = {operation: timedelta(seconds=limit) for operation, limit in settings.operations.limits().items()}
    return Rules(max_retry=settings.retry.max_retry, time_limits=limits)


def pace_of(settings: Settings) -> Pace:
    every = settings.coordinator
    return Pace(
        idle_interval=every.idle_interval,
        active_interval=every.active_interval,
        active_duration=every.active_duration,
        sweep_rate=every.sweep_rate,
    )


def gc_rules_of(settings: Settings) -> GcRules:
    return GcRules(
        orphan_delay=timedelta(seconds=settings.gc.orphan_delay_seconds),
        trash_retention=timedelta(seconds=settings.gc.trash_retention_seconds),
    )
