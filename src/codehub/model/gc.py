"""GC rules: which archives in the store nobody needs any more.

The database remembers every operation that it began an archive with. An archive that it does not remember was made in
a future that it lost (it was restored from a backup, or a failover lost commits): that may be the newest state of
somebody's home, so it is kept until an administrator decides (ADR 16). This is about deleted workspaces too.

What is remembered is deleted only when it has been an orphan for the whole delay, and never when doing so would take
the newest complete archive of a workspace that is not deleted, a key of a workspace the database does not know, or an
implausible share of everything that no row explains.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from codehub.model.names import archive_key, archive_owner
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId


@dataclass(frozen=True, slots=True)
class FoundArchive:
    """One archive as the listing showed it; complete means that its meta is there too. Bytes count both."""

    key: str
    modified_at: datetime
    complete: bool
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownWorkspace:
    """What GC needs to know of a row."""

    id: WorkspaceId
    archive_key: ArchiveKey | None
    op_id: OpId | None
    deleted_at: datetime | None = None
    purged_at: datetime | None = None
    source_archive: ArchiveKey | None = None


@dataclass(frozen=True, slots=True)
class GcRules:
    """The numbers of GC, from configuration."""

    orphan_delay: timedelta = timedelta(hours=2)
    trash_retention: timedelta = timedelta(days=7)
    implausible_share: float = 0.2
    implausible_count: int = 10


@dataclass(frozen=True, slots=True)
class Unneeded:
    """Archives that no row needs: the first half of a plan. The second asks which of them the database remembers."""

    archives: tuple[FoundArchive, ...]  # in the order of the listing
    last_resorts: frozenset[str]  # … the newest complete archive of a workspace that is not deleted
    unexplained: frozenset[str]  # … of a row that is neither deleted nor has a newer archive, or of no row
    unknown: frozenset[str]  # … of workspaces that the database does not know, at an administrator's word
    foreign: tuple[str, ...]  # not of our form, or of no workspace we know
    found: int  # archives in the store, needed ones included


@dataclass(frozen=True, slots=True)
class Memory:
    """Which archives the database began itself."""

    keys: Collection[str]
    since: datetime  # archives from before that moment count as remembered: nobody took notes then


@dataclass(frozen=True, slots=True)
class GcPlan:
    """What one cycle does; `stopped` says why it deletes nothing although it could."""

    delete: tuple[ArchiveKey, ...]
    start_timers: tuple[ArchiveKey, ...]
    clear_timers: tuple[str, ...]
    foreign: tuple[str, ...]  # keys that are not of our form, or of no workspace we know: reported, never touched
    unremembered: tuple[ArchiveKey, ...] = ()  # of a future that the database lost: kept until somebody decides
    stopped: str | None = None


def protected_keys(known: Iterable[KnownWorkspace], now: datetime, rules: GcRules) -> frozenset[ArchiveKey]:
    """Every key that some row still needs."""
    keys: set[ArchiveKey] = set()
    for row in known:
        if row.source_archive is not None and row.archive_key is None and row.deleted_at is None:
            keys.add(row.source_archive)  # until it was copied: then the row has an archive of its own
        if row.deleted_at is None:
            if row.op_id is not None:
                keys.add(archive_key(row.id, row.op_id))
            if row.archive_key is not None:
                keys.add(row.archive_key)
        elif row.archive_key is not None and _in_trash(row, now, rules):
            keys.add(row.archive_key)
    return frozenset(keys)


def unneeded(
    found: Sequence[FoundArchive],
    known: Sequence[KnownWorkspace],
    now: datetime,
    rules: GcRules,
    *,
    unknown_too: bool = False,
) -> Unneeded:
    """What no row needs. `unknown_too` is an administrator's word: also keys of workspaces that are not known."""
    rows = {str(row.id): row for row in known}
    protected = protected_keys(known, now, rules)
    complete = {archive.key: archive.modified_at for archive in found if archive.complete}
    newest: dict[str, FoundArchive] = {}
    archives: list[FoundArchive] = []
    unexplained: set[str] = set()
    unknown: set[str] = set()
    foreign: list[str] = []
    for archive in found:
        owner = archive_owner(archive.key)
        row = None if owner is None else rows.get(owner)
        if owner is None or (row is None and not unknown_too):
            foreign.append(archive.key)
            continue
        if row is not None and row.deleted_at is None and archive.complete:
            best = newest.get(owner)
            newest[owner] = archive if best is None or archive.modified_at > best.modified_at else best
        if archive.key in protected:
            continue
        archives.append(archive)
        if row is None:
            unknown.add(archive.key)
        if row is None or not _is_explained(archive, row, complete):
            unexplained.add(archive.key)
    last_resorts = frozenset(archive.key for archive in newest.values())
    return Unneeded(
        archives=tuple(archives),
        last_resorts=last_resorts,
        unexplained=frozenset(unexplained),
        unknown=frozenset(unknown),
        foreign=tuple(foreign),
        found=len(found),
    )


def plan(
    candidates: Unneeded,
    memory: Memory,
    timers: Mapping[str, datetime],
    now: datetime,
    rules: GcRules,
    *,
    override: bool = False,
) -> GcPlan:
    """Sort what no row needs into keep, wait and delete. `timers` says since when a key has been an orphan.

    `override` is an administrator's word: delete although it looks implausible. The stop is for rows that are wrong or
    belong to another installation: what a lost future left behind never gets as far as that.
    """
    orphans: dict[ArchiveKey, None] = {}  # a set that keeps the order of the listing
    unremembered: list[ArchiveKey] = []
    for archive in candidates.archives:
        key = ArchiveKey(archive.key)
        if not (key in memory.keys or archive.modified_at < memory.since or key in candidates.unknown):
            unremembered.append(key)
        elif key not in candidates.last_resorts:
            orphans[key] = None
    due = [key for key in orphans if key in timers and now - timers[key] >= rules.orphan_delay]
    odd = sum(key in candidates.unexplained for key in orphans)
    stopped = None
    if not override and odd > rules.implausible_count and odd > candidates.found * rules.implausible_share:
        stopped = (
            f"{odd} of {candidates.found} archives look orphaned and no workspace explains why, which is implausible. "
            "Check that the database is the right one; an administrator can override."
        )
    return GcPlan(
        delete=() if stopped else tuple(due),
        start_timers=tuple(key for key in orphans if key not in timers),
        clear_timers=tuple(key for key in timers if key not in orphans),
        foreign=candidates.foreign,
        unremembered=tuple(unremembered),
        stopped=stopped,
    )


def _in_trash(row: KnownWorkspace, now: datetime, rules: GcRules) -> bool:
    if row.purged_at is not None or row.deleted_at is None:
        return False
    return now <= row.deleted_at + rules.trash_retention


def _is_explained(archive: FoundArchive, row: KnownWorkspace, complete: Mapping[str, datetime]) -> bool:
    """Whether the row says why nobody needs it: its owner deleted the workspace, or a newer archive took its place."""
    if row.deleted_at is not None:
        return True
    present = None if row.archive_key is None else complete.get(row.archive_key)
    return archive.key != row.archive_key and present is not None and present >= archive.modified_at
