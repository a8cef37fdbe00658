"""The GC runner: removes archives that nobody needs any more (SPEC section 9; the rules are model/gc.py).

The store is listed first and the rows are read after it. Whatever the listing shows was uploaded under an op_id that
its row held before the upload began; a row read later holds that op_id still, or the archive_key it became, or has
moved on for good. The other way round, an archive made between the two would look like an orphan.

The rows are read once more just before each few deletions, and leadership is confirmed before every one. A failure to
list or to read ends the cycle with nothing deleted; an archive that could not be deleted keeps its timer and is tried
again in the next cycle.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from codehub.coordinator.ports import ArchiveRecords, Leadership, OrphanTimers
from codehub.drivers.base import Archives
from codehub.errors import DriverError, Unreachable
from codehub.model import gc
from codehub.model.gc import FoundArchive, GcRules, KnownWorkspace
from codehub.model.names import parse_archive_key
from codehub.model.suspicion import looks_like_outage
from codehub.model.workspace import ArchiveKey, WorkspaceId

log = structlog.get_logger(__name__)

_PAGE = 5000
_BATCH = 20  # deletions after one look at the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What one cycle found and did; a dry run only found."""

    at: datetime  # by the database's clock
    dry_run: bool
    found: int  # archives in the store, incomplete ones included
    bytes: int = 0  # … of those that are complete
    known: int  # workspaces in the database, deleted ones included
    orphans: int  # archives that nobody needs, whether their time has come or not
    due: tuple[ArchiveKey, ...]  # … whose time has come: to be deleted
    foreign: tuple[str, ...]  # not of our form, or of no workspace we know: never touched
    missing: tuple[WorkspaceId, ...]  # not deleted, and the archive of their row is not in the store
    stopped: str | None = None  # why nothing more was deleted
    deleted: int = 0
    spared: int = 0  # needed again at the last look
    failed: int = 0  # tried again in the next cycle


@dataclass(frozen=True, slots=True)
class _Look:
    """Everything that one cycle read, in the order in which it was read."""

    found: Sequence[FoundArchive]
    by_owner: Mapping[str, Sequence[FoundArchive]]  # the same, by what stands before the first slash
    known: Sequence[KnownWorkspace]
    now: datetime
    timers: dict[str, datetime]

    def found_of(self, owners: Collection[WorkspaceId]) -> list[FoundArchive]:
        """All archives of these workspaces. A key of our form begins with its owner's id."""
        return [archive for owner in owners for archive in self.by_owner.get(str(owner), ())]


class Collector:
    """One cycle at a time; `last` is the report of the newest that was completed."""

    def __init__(
        self,
        records: ArchiveRecords,
        archives: Archives,
        timers: OrphanTimers,
        leadership: Leadership,
        rules: GcRules,
        *,
        on_change: Callable[[Collection[WorkspaceId]], None],
        page: int = _PAGE,
    ) -> None:
        self.last: GcReport | None = None
        self._records = records
        self._archives = archives
        self._timers = timers
        self._leadership = leadership
        self._rules = rules
        self._on_change = on_change
        self._page = page
        self._one_at_a_time = asyncio.Lock()

    async def run_once(self) -> None:
        await self.collect()

    async def collect(self, *, dry_run: bool = False, override: bool = False, unknown_too: bool = False) -> GcReport:
        """One cycle. `override` and `unknown_too` are an administrator's words (model/gc.py)."""
        async with self._one_at_a_time:
            look = await self._look()
            plan = gc.plan(
                look.found, look.known, look.timers, look.now, self._rules, override=override, unknown_too=unknown_too
            )
            report = GcReport(
                at=look.now,
                dry_run=dry_run,
                found=len(look.found),
                bytes=sum(archive.size for archive in look.found),
                known=len(look.known),
                orphans=len(plan.start_timers) + len(look.timers) - len(plan.clear_timers),
                due=plan.delete,
                foreign=plan.foreign,
                missing=_missing(look),
                stopped=plan.stopped,
            )
            if plan.stopped:
                log.error("GC stopped: it deletes nothing", why=plan.stopped)
            if not dry_run:
                report = await self._carry_out(look, plan, report, unknown_too=unknown_too)
            self.last = report
            return report

    async def _look(self) -> _Look:
        found = [archive async for page in self._archives.found() for archive in page]
        known: list[KnownWorkspace] = []
        while page := await self._records.known(known[-1].id if known else None, self._page):
            known += page
        by_owner: dict[str, list[FoundArchive]] = {}
        for archive in found:
            by_owner.setdefault(archive.key.partition("/")[0], []).append(archive)
        return _Look(found, by_owner, known, await self._records.now(), dict(await self._timers.all()))

    async def _carry_out(self, look: _Look, plan: gc.GcPlan, report: GcReport, *, unknown_too: bool) -> GcReport:
        archived = sum(row.deleted_at is None and row.archive_key is not None for row in look.known)
        if looks_like_outage(len(report.missing), archived):
            log.error(
                "many archives are not in the store's listing; this is taken for an outage", missing=len(report.missing)
            )
        elif report.missing:
            self._on_change(report.missing)
        # What only an administrator may delete keeps the timer that his word started, until he says it again.
        foreign = frozenset(plan.foreign)
        await self._timers.clear([key for key in plan.clear_timers if key not in foreign])
        await self._timers.start(plan.start_timers, look.now)
        for start in range(0, len(plan.delete), _BATCH):
            batch = plan.delete[start : start + _BATCH]
            report = await self._delete(look, batch, report, unknown_too=unknown_too)
            if report.stopped:
                break
        if report.deleted or report.failed:
            log.info("GC", deleted=report.deleted, failed=report.failed, spared=report.spared, stopped=report.stopped)
        return report

    async def _delete(
        self, look: _Look, batch: Sequence[ArchiveKey], report: GcReport, *, unknown_too: bool
    ) -> GcReport:
        """Delete what the rows, read once more, still call an orphan."""
        orphans = await self._still_orphans(look, batch, unknown_too=unknown_too)
        failed, stopped = 0, None
        deleted: list[ArchiveKey] = []
        try:
            for key in orphans:
                if not self._leadership.is_fresh():
                    stopped = "Leadership is not certain; the rest waits for the next cycle."
                    break
                try:
                    await self._archives.delete(key)
                except Unreachable as error:
                    stopped = f"The archive store does not answer; the rest waits for the next cycle. {error}"
                    break
                except DriverError as error:
                    failed += 1
                    log.warning("an orphaned archive could not be deleted", archive=key, cause=str(error))
                else:
                    deleted.append(key)
        finally:  # what is gone is gone, whatever ended the cycle
            if deleted:
                self._on_change(sorted({parse_archive_key(key).workspace_id for key in deleted}))
        spared = [key for key in batch if key not in orphans]
        await self._timers.clear([*deleted, *spared])
        return replace(
            report,
            deleted=report.deleted + len(deleted),
            spared=report.spared + len(spared),
            failed=report.failed + failed,
            stopped=stopped,
        )

    async def _still_orphans(
        self, look: _Look, batch: Sequence[ArchiveKey], *, unknown_too: bool
    ) -> Sequence[ArchiveKey]:
        """By the same rules as before, from the rows as they are now."""
        owners = sorted({parse_archive_key(key).workspace_id for key in batch})
        known = await self._records.known_of(owners, batch)
        found = look.found_of(owners)
        plan = gc.plan(found, known, look.timers, look.now, self._rules, override=True, unknown_too=unknown_too)
        still = frozenset(plan.delete)
        return [key for key in batch if key in still]


def _missing(look: _Look) -> tuple[WorkspaceId, ...]:
    """To be looked at directly: a listing is no proof, and an archive may have been made since."""
    listed = {archive.key for archive in look.found if archive.complete}
    return tuple(
        row.id for row in look.known if row.deleted_at is None and row.archive_key and row.archive_key not in listed
    )
