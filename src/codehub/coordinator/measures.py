"""What the coordinator tells Prometheus: what it has done since it started, and how things stand whenever it is asked.

Only the process that leads has anything but zeros to tell; `codehub_leader` says which one that is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from codehub.coordinator.collect import GcReport
from codehub.coordinator.listen import ListenerStatus
from codehub.coordinator.loop import LoopStatus
from codehub.db.census import Census
from codehub.db.statuses import StatusChange
from codehub.model.workspace import Operation, Phase

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)
DONE, FAILED = "done", "failed"


class Deeds:
    """Counted when they are committed: what was decided and then refused by the database did not happen."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._operations = Counter(
            "codehub_operations",
            "Operations that ended, done or failed for good.",
            ["operation", "backend", "result"],
            registry=registry,
        )
        self._seconds = Histogram(
            "codehub_operation_seconds",
            "How long operations took that were done.",
            ["operation", "backend"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._retries = Counter(
            "codehub_operation_retries",
            "Attempts that failed and are made again.",
            ["operation", "backend"],
            registry=registry,
        )
        self._errors = Counter(
            "codehub_workspace_errors", "Workspaces that went to ERROR.", ["reason"], registry=registry
        )

    def recorded(self, changes: Iterable[StatusChange], now: datetime) -> None:
        """These were committed at that time, by the database's clock."""
        for change in changes:
            self._count(change, now)

    def _count(self, change: StatusChange, at: datetime) -> None:
        was, now = change.was.status, change.now
        backend = str(change.was.instance_backend)
        is_lost = now.phase is Phase.ERROR and was.phase is not Phase.ERROR
        if is_lost:
            self._errors.labels(str(now.error_reason)).inc()
        if was.operation is Operation.NONE:
            return
        operation = str(was.operation)
        if now.operation is was.operation and now.op_id == was.op_id:
            if now.error_count > was.error_count:
                self._retries.labels(operation, backend).inc()
        elif is_lost:
            self._operations.labels(operation, backend, FAILED).inc()
        else:
            self._operations.labels(operation, backend, DONE).inc()
            if was.op_started_at is not None:
                seconds = (at - was.op_started_at).total_seconds()
                self._seconds.labels(operation, backend).observe(max(0.0, seconds))


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand in a process that leads."""

    loops: Mapping[str, LoopStatus]
    errands: int
    is_catching_up: bool
    outages: Collection[str]
    unknown: int
    lost_commits: int
    listener: ListenerStatus
    gc: GcReport | None
    census: Census | None = None
    jobs_running: int = 0
    jobs_waiting: int = 0
    broken: int = 0  # looks and decisions


class StandingCollector(Collector):
    """Asks `standing` at every scrape; None is a process that stands by."""

    def __init__(self, standing: Callable[[], Standing | None], registry: CollectorRegistry) -> None:
        self._standing = standing
        registry.register(self)

    def describe(self) -> Iterator[Metric]:
        """Nothing: a registry would otherwise collect, to learn the names."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        standing = self._standing()
        yield GaugeMetricFamily("codehub_leader", "1 in the process that leads, else 0.", standing is not None)
        if standing is None:
            return
        yield from _of_loops(standing.loops)
        yield GaugeMetricFamily(
            "codehub_errands", "Driver calls that are under way or wait for their turn.", standing.errands
        )
        yield GaugeMetricFamily(
            "codehub_storage_jobs_running", "Storage jobs that run and get further.", standing.jobs_running
        )
        yield GaugeMetricFamily(
            "codehub_storage_jobs_waiting", "Storage jobs that wait in the queue.", standing.jobs_waiting
        )
        yield CounterMetricFamily(
            "codehub_decisions_broken", "Looks and decisions about one workspace that broke.", standing.broken
        )
        yield GaugeMetricFamily(
            "codehub_catching_up", "1 until this leader has looked at every workspace once.", standing.is_catching_up
        )
        outages = GaugeMetricFamily("codehub_outage", "1 for what cannot be reached at the moment.", labels=["of"])
        for name in standing.outages:
            outages.add_metric([name], 1)
        yield outages
        yield GaugeMetricFamily(
            "codehub_unknown_resources", "Containers and volumes that belong to no workspace.", standing.unknown
        )
        yield GaugeMetricFamily(
            "codehub_lost_commits",
            "Commits that the database has lost, until a restore settles it.",
            standing.lost_commits,
        )
        if standing.census is not None:
            yield from _of_census(standing.census)
        yield from _of_events(standing.listener)
        if standing.gc is not None:
            yield from _of_gc(standing.gc)


def _of_loops(loops: Mapping[str, LoopStatus]) -> Iterator[Metric]:
    runs = CounterMetricFamily("codehub_loop_runs", "Runs of each loop.", labels=["loop"])
    failures = CounterMetricFamily("codehub_loop_failures", "Runs that failed.", labels=["loop"])
    seconds = GaugeMetricFamily("codehub_loop_seconds", "How long the last run took.", labels=["loop"])
    failing = GaugeMetricFamily("codehub_loop_failing", "1 while the loop fails.", labels=["loop"])
    for name, status in loops.items():
        runs.add_metric([name], status.runs)
        failures.add_metric([name], status.failures)
        seconds.add_metric([name], status.last_seconds)
        failing.add_metric([name], status.is_failing)
    yield from (runs, failures, seconds, failing)


def _of_census(census: Census) -> Iterator[Metric]:
    phases = GaugeMetricFamily("codehub_workspaces", "Workspaces by phase.", labels=["phase"])
    for phase in Phase:
        phases.add_metric([str(phase)], census.phases.get(phase, 0))
    running = GaugeMetricFamily("codehub_operations_running", "Operations that are under way.", labels=["operation"])
    for operation in Operation:
        if operation is not Operation.NONE:
            running.add_metric([str(operation)], census.operations.get(operation, 0))
    yield from (phases, running)


def _of_events(status: ListenerStatus) -> Iterator[Metric]:
    yield CounterMetricFamily("codehub_events_heard", "Notifications of the database.", status.heard)
    yield CounterMetricFamily("codehub_events_published", "Events told to Redis.", status.published)
    yield CounterMetricFamily("codehub_events_dropped", "Events that became one 'read anew'.", status.dropped)
    yield GaugeMetricFamily(
        "codehub_events_lag_seconds", "How long the oldest event has waited to be told to Redis.", status.lag_seconds
    )
    yield CounterMetricFamily("codehub_events_gaps", "Times that something may have been missed.", status.gaps)


def _of_gc(report: GcReport) -> Iterator[Metric]:
    yield GaugeMetricFamily("codehub_gc_last_seconds", "When GC last ran, in Unix time.", report.at.timestamp())
    yield GaugeMetricFamily("codehub_gc_archives", "Archives in the store at that time.", report.found)
    yield GaugeMetricFamily("codehub_archive_bytes", "Bytes of archives in the store at that time.", report.bytes)
    yield GaugeMetricFamily("codehub_gc_orphans", "… that nobody needs.", report.orphans)
    yield GaugeMetricFamily(
        "codehub_gc_unremembered", "… of a future that the database lost, kept.", len(report.unremembered)
    )
    yield GaugeMetricFamily("codehub_gc_missing", "Workspaces whose archive was not in the store.", len(report.missing))
    yield GaugeMetricFamily("codehub_gc_stopped", "1 if GC stopped to protect archives.", report.stopped is not None)
