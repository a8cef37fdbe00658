"""The coordinator as a whole: stand by, lead, and while leading run every part beside the others.

A part that fails skips its turn and the others go on; losing leadership ends all of them at once, and standing by
begins anew. Nothing is kept from one term of leadership to the next: whoever leads starts from the rows and the world.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import uuid4

import structlog
from prometheus_client import CollectorRegistry

from codehub.config import Settings
from codehub.coordinator import traces
from codehub.coordinator.answers import logs_of
from codehub.coordinator.archive_answers import archive_answers
from codehub.coordinator.collect import Collector
from codehub.coordinator.controller import Controller
from codehub.coordinator.expire import Expirer
from codehub.coordinator.gc_requests import GcRequests
from codehub.coordinator.home_sizes import LOOK_SECONDS as _SIZES_SECONDS
from codehub.coordinator.home_sizes import HomeSizes
from codehub.coordinator.housekeeping import Housekeeper
from codehub.coordinator.last_logs import KeptLogs
from codehub.coordinator.leading import Election, Leader
from codehub.coordinator.left_overs import LeftOvers
from codehub.coordinator.listen import EventListener
from codehub.coordinator.loop import Loop, LoopStatus
from codehub.coordinator.lost_commits import PERIOD_SECONDS as _COMMITS_SECONDS
from codehub.coordinator.lost_commits import CommitWatch
from codehub.coordinator.measures import Deeds, Standing, StandingCollector
from codehub.coordinator.orphans import Orphans
from codehub.coordinator.pace import Pace
from codehub.coordinator.progress import ProgressTeller
from codehub.coordinator.purge import PERIOD_SECONDS as _PURGE_SECONDS
from codehub.coordinator.purge import Purger
from codehub.coordinator.records import DatabaseRecords
from codehub.coordinator.reserve import LOOK_SECONDS as _RESERVE_SECONDS
from codehub.coordinator.reserve import DiskReserve
from codehub.coordinator.store_owner import StoreOwner
from codehub.coordinator.usage import PERIOD_SECONDS as _USAGE_SECONDS
from codehub.coordinator.usage import UsageSampler
from codehub.db.adoption import AdoptionDue
from codehub.db.census import Census
from codehub.db.pool import Role, open_pool
from codehub.db.statuses import StatusChange
from codehub.dependencies import Degraded
from codehub.drivers.base import Archives, Backend, Resources
from codehub.errors import Unavailable
from codehub.model.clocks import JUMP_SECONDS, ClockWatch
from codehub.model.failure import Rules
from codehub.model.gc import GcRules
from codehub.model.job_queue import JobLimits, jobs_of_machine
from codehub.model.workspace import InstanceBackend, OpId
from codehub.signals.activity import RedisActivity
from codehub.signals.commit_notes import RedisCommitNotes
from codehub.signals.connect import Redis, open_redis
from codehub.signals.events import RedisEvents
from codehub.signals.last_logs import RedisLastLogs
from codehub.signals.progress import RedisProgress
from codehub.signals.questions import Answerer
from codehub.signals.timers import RedisTimers
from codehub.signals.usage import RedisUsage
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
    reserve: DiskReserve
    commits: CommitWatch
    owner: StoreOwner
    listener: EventListener
    teller: ProgressTeller
    answerer: Answerer
    loops: tuple[Loop, ...]
    adoption: AdoptionDue | None = None  # ends only while nobody leads


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
        self._database_clock = ClockWatch(JUMP_SECONDS)  # of all its leaderships: a failover may change the clock
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
        short = [f"{name}: {shortage}" for name, shortage in self.term.reserve.shortages.items()]
        lost = [self.term.commits.trouble] if self.term.commits.trouble else []
        owner = [self.term.owner.trouble] if self.term.owner.trouble else []
        restore = [self.term.adoption.trouble] if self.term.adoption else []
        told = [*lost, *owner, *restore, *failing, *out, *short]
        return Degraded(" ".join(told)) if told else None

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
            jobs_running=controller.jobs_running,
            jobs_waiting=controller.jobs_waiting,
            broken=controller.broken,
            is_catching_up=controller.is_catching_up,
            outages=controller.outages.keys(),
            unknown=len(controller.unknown),
            lost_commits=term.commits.lost.count if term.commits.lost is not None else 0,
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
        await term.commits.begin()
        await term.owner.begin()
        term.adoption = await self._records.adoption_due()
        term.controller.hold_homes(term.adoption)
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
        answerer = Answerer(
            self._redis, {"logs": logs_of(infrastructure.backends), **archive_answers(infrastructure.archives)}
        )
        kept = RedisLastLogs(self._redis).keep
        controller = Controller(
            self._records,
            infrastructure.archives,
            {
                name: replace(backend, instances=KeptLogs(backend.instances, kept))
                for name, backend in infrastructure.backends.items()
            },
            leader,
            rules=rules_of(settings),
            resources=infrastructure.resources,
            pace=pace_of(settings),
            new_op_id=lambda: OpId(uuid4()),
            job_limits=job_limits_of(settings),
            trash_retention=gc_rules_of(settings).trash_retention,
            on_progress=teller.note,
            on_recorded=self._recorded,
        )
        commits = CommitWatch(self._records, RedisCommitNotes(self._redis), leader.epoch)
        holder = f"{socket.gethostname()}:{os.getpid()}"
        owner = StoreOwner(self._records, infrastructure.archives, leader, commits, holder=holder)
        collector = Collector(
            self._records,
            infrastructure.archives,
            RedisTimers(self._redis),
            leader,
            gc_rules_of(settings),
            on_change=controller.suspect_archives,
            refusal=owner.refusal,
        )
        purger = Purger(
            self._records,
            infrastructure.archives,
            leader,
            gc_rules_of(settings),
            on_change=controller.suspect_archives,
            refusal=owner.refusal,
        )
        expirer = Expirer(
            self._records,
            RedisActivity(self._redis),
            flush_interval=settings.activity.flush_interval,
            clock=self._database_clock,
        )
        reserve = DiskReserve(self._records, infrastructure.backends)
        retention = timedelta(seconds=settings.history.retention_seconds)
        audit_days = settings.history.audit_retention_days
        housekeeper = Housekeeper(
            self._records, history=retention, audit=timedelta(days=audit_days) if audit_days else None
        )
        orphans = Orphans(self._records, infrastructure.backends, leader, gc_rules_of(settings))
        requests = GcRequests(collector, orphans, self._records)
        requesting = Loop("gc requests", requests.honour, lambda: _REQUESTS_SECONDS)
        every = settings.coordinator
        left_overs = LeftOvers(controller, infrastructure.backends, partial(self._records.note_unknown, leader.epoch))
        ticking = Loop("controller", left_overs.tick, controller.period)
        controller.on_wake = ticking.wake
        keeper = RedisUsage(self._redis)
        sampler = UsageSampler(infrastructure.backends, keeper, self._records.now)
        sizes = HomeSizes(self._records, infrastructure.backends, keeper)
        loops = (
            ticking,
            Loop("ttl", expirer.run_once, lambda: expirer.period(every.ttl_interval)),
            Loop("disk reserve", reserve.run_once, lambda: _RESERVE_SECONDS),
            Loop("commit notes", commits.run_once, lambda: _COMMITS_SECONDS),
            Loop("store owner", owner.run_once, owner.period),
            Loop("gc", requests.cycle, lambda: every.gc_interval),
            Loop("purges", purger.run_once, lambda: _PURGE_SECONDS),
            requesting,
            Loop("housekeeping", housekeeper.run_once, lambda: _HOUSEKEEPING_SECONDS),
            Loop("samples", lambda: self._records.take_sample(retention), lambda: _SAMPLE_SECONDS),
            Loop("usage", sampler.sample, lambda: _USAGE_SECONDS),
            Loop("home sizes", sizes.measure, lambda: _SIZES_SECONDS),
            Loop("census", self._count, lambda: _CENSUS_SECONDS),
            Loop("accounts", lambda: self._records.tend_accounts(settings.accounts), lambda: every.ttl_interval),
        )
        listener = EventListener(self._database_url, events, controller.woken, on_gc_request=requesting.wake)
        return Term(controller, collector, reserve, commits, owner, listener, teller, answerer, loops)


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


def job_limits_of(settings: Settings) -> JobLimits:
    given = settings.limits
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    per_node = given.max_jobs_per_node or jobs_of_machine(os.cpu_count() or 1, memory)
    return JobLimits(in_all=given.max_jobs_global, per_node=per_node)


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
