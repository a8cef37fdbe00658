"""GC rules: which archives in the store nobody needs any more.

An archive is deleted only when it has been an orphan for the whole delay, and never when doing so would take the
newest complete archive of a workspace that is not deleted, a key of a workspace the database does not know, or an
implausible share of everything (a database restored from an old backup must not empty the bucket).
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
class GcPlan:
    """What one cycle does; `stopped` says why it deletes nothing although it could."""

    delete: tuple[ArchiveKey, ...]
    start_timers: tuple[ArchiveKey, ...]
    clear_timers: tuple[str, ...]
    foreign: tuple[str, ...]  # keys that are not of our form, or of no workspace we know: reported, never touched
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


def plan(
    found: Sequence[FoundArchive],
    known: Sequence[KnownWorkspace],
    timers: Mapping[str, datetime],
    now: datetime,
    rules: GcRules,
    *,
    override: bool = False,
    unknown_too: bool = False,
) -> GcPlan:
    """Sort what was found into keep, wait and delete. `timers` says since when a key has been an orphan.

    `override` and `unknown_too` are an administrator's words: delete although it looks implausible; delete also keys
    of workspaces that the database does not know.
    """
    owners = {archive.key: archive_owner(archive.key) for archive in found}
    protected = protected_keys(known, now, rules) | _newest_of_the_living(found, owners, known)
    ids = {str(row.id) for row in known}
    ours: list[ArchiveKey] = []
    foreign: list[str] = []
    for key, owner in owners.items():
        if owner is not None and (owner in ids or unknown_too):
            ours.append(ArchiveKey(key))
        else:
            foreign.append(key)
    orphans = {key: None for key in ours if key not in protected}  # a set that keeps the order of the listing
    due = [key for key in orphans if key in timers and now - timers[key] >= rules.orphan_delay]
    stopped = None
    odd = len(orphans.keys() - _replaced(orphans, found, known))
    if not override and odd > rules.implausible_count and odd > len(found) * rules.implausible_share:
        stopped = (
            f"{odd} of {len(found)} archives look orphaned, which is implausible. Check that the database is "
            "the right one; an administrator can override."
        )
    return GcPlan(
        delete=() if stopped else tuple(due),
        start_timers=tuple(key for key in orphans if key not in timers),
        clear_timers=tuple(key for key in timers if key not in orphans),
        foreign=tuple(foreign),
        stopped=stopped,
    )


def _in_trash(row: KnownWorkspace, now: datetime, rules: GcRules) -> bool:
    if row.purged_at is not None or row.deleted_at is None:
        return False
    return now <= row.deleted_at + rules.trash_retention


def _replaced(
    orphans: Collection[ArchiveKey], found: Sequence[FoundArchive], known: Sequence[KnownWorkspace]
) -> frozenset[ArchiveKey]:
    """Orphans that are no newer than the archive that took their place: every workspace in use leaves some.

    A database restored from an old backup has none of these: there, the orphans are the newer ones.
    """
    complete = {archive.key: archive.modified_at for archive in found if archive.complete}
    modified = {archive.key: archive.modified_at for archive in found}
    rows = {str(row.id): row for row in known}
    replaced = set()
    for key in orphans:
        row = rows.get(archive_owner(key) or "")
        present = complete.get(row.archive_key) if row is not None and row.archive_key is not None else None
        if row is not None and key != row.archive_key and present is not None and present >= modified[key]:
            replaced.add(key)
    return frozenset(replaced)


def _newest_of_the_living(
    found: Sequence[FoundArchive], owners: Mapping[str, str | None], known: Sequence[KnownWorkspace]
) -> frozenset[ArchiveKey]:
    """The newest complete archive of each workspace that is not deleted: the last resort if its row is wrong."""
    living = {str(row.id) for row in known if row.deleted_at is None}
    newest: dict[str, FoundArchive] = {}
    for archive in found:
        owner = owners[archive.key]
        if not archive.complete or owner is None or owner not in living:
            continue
        if owner not in newest or archive.modified_at > newest[owner].modified_at:
            newest[owner] = archive
    return frozenset(ArchiveKey(archive.key) for archive in newest.values())
