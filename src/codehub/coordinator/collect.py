"""The GC runner: removes archives that nobody needs any more (SPEC section 9; the rules are model/gc.py).

The store is listed first and the rows are read after it. Whatever the listing shows was uploaded under an op_id that
its row held before the upload began; a row read later holds that op_id still, or the archive_key it became, or has
moved on for good. The other way round, an archive made between the two would look like an orphan.

The rows, and what the database remembers, are read once more just before each few deletions, and leadership is
confirmed before every one. A failure to list or to read ends the cycle with nothing deleted; an archive that could not
be deleted keeps its timer and is tried again in the next cycle. What is decided about a whole store is decided in a
thread: the leader's loop goes on meanwhile.

What the database remembers is forgotten after the archive is gone, never before: the other way round, what is left
after a crash would be kept for ever.
"""

import asyncio
import gc as garbage
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from codehub.coordinator.ports import ArchiveRecords, Leadership, OrphanTimers, Refusal
from codehub.drivers.base import Archives
from codehub.errors import DriverError, Unreachable
from codehub.model import gc
from codehub.model.gc import FoundArchive, GcRules, KnownWorkspace, Memory
from codehub.model.names import parse_archive_key
from codehub.model.suspicion import is_another_store
from codehub.model.workspace import ArchiveKey, WorkspaceId

log = structlog.get_logger(__name__)

_PAGE = 1000  # rows, or keys, of one statement
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
    unremembered: tuple[ArchiveKey, ...] = ()  # of a future that the database lost: kept until somebody decides
    missing: tuple[WorkspaceId, ...]  # not deleted, and the archive of their row is not in the store
    stopped: str | None = None  # why nothing more was deleted
    deleted: int = 0
    spared: int = 0  # needed again at the last look
    failed: int = 0  # tried again in the next cycle


@dataclass(frozen=True, slots=True)
class _Look:
    """Everything that one cycle read, in the order in which it was read."""

    found: Sequence[FoundArchive]
    known: Sequence[KnownWorkspace]
    now: datetime
    timers: dict[str, datetime]


@dataclass(frozen=True, slots=True)
class _Sorted:
    """What follows from it, made in a thread."""

    candidates: gc.Unneeded
    by_owner: Mapping[str, Sequence[FoundArchive]]  # what was found, by what stands before the first slash
    keys: frozenset[str]  # of everything that was found
    bytes: int
    archived: int  # rows that are not deleted and name an archive
    missing: tuple[WorkspaceId, ...]  # … which is not in the listing

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
        refusal: Refusal,
        page: int = _PAGE,
    ) -> None:
        """`refusal`: why nothing may be deleted from this store, asked before each few deletions."""
        self.last: GcReport | None = None
        self._records = records
        self._archives = archives
        self._timers = timers
        self._leadership = leadership
        self._rules = rules
        self._on_change = on_change
        self._refusal = refusal
        self._page = page
        self._one_at_a_time = asyncio.Lock()

    async def run_once(self) -> None:
        await self.collect()

    async def collect(self, *, dry_run: bool = False, override: bool = False, unknown_too: bool = False) -> GcReport:
        """One cycle. `override` and `unknown_too` are an administrator's words (model/gc.py)."""
        async with self._one_at_a_time:
            with unscanned():
                look = await self._look()
                done = await asyncio.to_thread(_sort, look, self._rules, unknown_too=unknown_too)
                memory = await self._memory(done.candidates)
                plan = await asyncio.to_thread(
                    gc.plan, done.candidates, memory, look.timers, look.now, self._rules, override=override
                )
            with set_aside():
                return await self._report(look, done, plan, dry_run=dry_run, unknown_too=unknown_too)

    async def _report(
        self, look: _Look, done: _Sorted, plan: gc.GcPlan, *, dry_run: bool, unknown_too: bool
    ) -> GcReport:
        """… and, but for a dry run, what was done."""
        report = GcReport(
            at=look.now,
            dry_run=dry_run,
            found=len(look.found),
            bytes=done.bytes,
            known=len(look.known),
            orphans=len(plan.start_timers) + len(look.timers) - len(plan.clear_timers),
            due=plan.delete,
            foreign=plan.foreign,
            unremembered=plan.unremembered,
            missing=done.missing,
            stopped=plan.stopped,
        )
        if plan.stopped:
            log.error("GC stopped: it deletes nothing", why=plan.stopped)
        if not dry_run:
            report = await self._carry_out(look, done, plan, report, unknown_too=unknown_too)
        self.last = report
        return report

    async def _look(self) -> _Look:
        found = [archive async for page in self._archives.found() for archive in page]
        known: list[KnownWorkspace] = []
        while page := await self._records.known(known[-1].id if known else None, self._page):
            known += page
        return _Look(found, known, await self._records.now(), dict(await self._timers.all()))

    async def _memory(self, candidates: gc.Unneeded) -> Memory:
        since = await self._records.remembers_since()
        asked = [ArchiveKey(archive.key) for archive in candidates.archives if archive.modified_at >= since]
        remembered: set[ArchiveKey] = set()
        for start in range(0, len(asked), self._page):
            remembered.update(await self._records.remembered(asked[start : start + self._page]))
        return Memory(remembered, since)

    async def _carry_out(
        self, look: _Look, done: _Sorted, plan: gc.GcPlan, report: GcReport, *, unknown_too: bool
    ) -> GcReport:
        is_outage = is_another_store(len(report.missing), done.archived)
        if is_outage:
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
            report = await self._delete(look, done, batch, report, unknown_too=unknown_too)
            if report.stopped:
                break
        if report.deleted or report.failed:
            log.info("GC", deleted=report.deleted, failed=report.failed, spared=report.spared, stopped=report.stopped)
        if not is_outage and not report.stopped:
            await self._forget_what_never_came(done.keys)
        return report

    async def _forget_what_never_came(self, listed: frozenset[str]) -> None:
        """Operations of long ago that no workspace is in any more, and that left no archive."""
        after: ArchiveKey | None = None
        while page := await self._records.old_operations(after, self._page):
            await self._records.forget([key for key in page if key not in listed])
            after = page[-1]

    async def _delete(
        self, look: _Look, done: _Sorted, batch: Sequence[ArchiveKey], report: GcReport, *, unknown_too: bool
    ) -> GcReport:
        """Delete what the rows, read once more, still call an orphan."""
        if (why := await self._refusal()) is not None:
            return replace(report, stopped=why)
        orphans = await self._still_orphans(look, done, batch, unknown_too=unknown_too)
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
        await self._records.forget(deleted)
        return replace(
            report,
            deleted=report.deleted + len(deleted),
            spared=report.spared + len(spared),
            failed=report.failed + failed,
            stopped=stopped,
        )

    async def _still_orphans(
        self, look: _Look, done: _Sorted, batch: Sequence[ArchiveKey], *, unknown_too: bool
    ) -> Sequence[ArchiveKey]:
        """By the same rules as before, from the rows and the memory as they are now."""
        owners = sorted({parse_archive_key(key).workspace_id for key in batch})
        known = await self._records.known_of(owners, batch)
        candidates = gc.unneeded(done.found_of(owners), known, look.now, self._rules, unknown_too=unknown_too)
        memory = await self._memory(candidates)
        plan = gc.plan(candidates, memory, look.timers, look.now, self._rules, override=True)
        still = frozenset(plan.delete)
        return [key for key in batch if key in still]


@contextmanager
def unscanned() -> Iterator[None]:
    """While much is read that has no cycles: Python would look through all of it for some, and hold everything up."""
    was_enabled = garbage.isenabled()
    garbage.disable()
    try:
        yield
    finally:
        if was_enabled:
            garbage.enable()


@contextmanager
def set_aside() -> Iterator[None]:
    """The same for what is kept meanwhile, however long that is: only what is newer is looked through."""
    others = garbage.get_freeze_count()  # the server's: what was there when it began to serve
    garbage.freeze()
    try:
        yield
    finally:
        garbage.unfreeze()
        if others:
            garbage.freeze()


def _sort(look: _Look, rules: GcRules, *, unknown_too: bool) -> _Sorted:
    by_owner: dict[str, list[FoundArchive]] = {}
    for archive in look.found:
        by_owner.setdefault(archive.key.partition("/")[0], []).append(archive)
    return _Sorted(
        candidates=gc.unneeded(look.found, look.known, look.now, rules, unknown_too=unknown_too),
        by_owner=by_owner,
        keys=frozenset(archive.key for archive in look.found),
        bytes=sum(archive.size for archive in look.found),
        archived=sum(row.deleted_at is None and row.archive_key is not None for row in look.known),
        missing=_missing(look),
    )


def _missing(look: _Look) -> tuple[WorkspaceId, ...]:
    """To be looked at directly: a listing is no proof, and an archive may have been made since."""
    listed = {archive.key for archive in look.found if archive.complete}
    return tuple(
        row.id for row in look.known if row.deleted_at is None and row.archive_key and row.archive_key not in listed
    )
