"""The database in memory: the coordinator's ports with exactly the meaning that `db/` gives them.

test_database_contract.py runs the same histories here and on PostgreSQL. Every statement is atomic. The clock is the
simulation's; nothing else tells the time.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from codehub.coordinator.ports import Asked, Expiration, Reading
from codehub.db.losses import Word
from codehub.db.statuses import HistoryEntry, StatusChange
from codehub.errors import StaleLeader, Unavailable
from codehub.model import conditions as c
from codehub.model import ttl
from codehub.model.conditions import TERMINAL_ARCHIVE_REASONS
from codehub.model.failure import is_put_off, is_waiting
from codehub.model.gc import KnownWorkspace
from codehub.model.leaving import WANTED_AGAIN
from codehub.model.names import archive_key, archive_owner, parse_archive_key
from codehub.model.suspicion import Place
from codehub.model.wishes import is_ready_to_delete
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    Operation,
    Phase,
    Status,
    Wish,
    Workspace,
    WorkspaceId,
)

Watcher = Callable[[Workspace | None, Workspace], None]
_OLD = timedelta(days=7)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_SHORTEST = timedelta(seconds=ttl.SHORTEST_SECONDS)


@dataclass
class DatabaseClock:
    """The time of the machine that the database is on; another machine's may be another."""

    true: Callable[[], datetime]
    skew: timedelta = timedelta()
    latest: datetime = _LONG_AGO  # that it ever told

    def __call__(self) -> datetime:
        now = self.true() + self.skew
        self.latest = max(self.latest, now)
        return now


@dataclass(frozen=True)
class Moment:
    """All that there was at that time."""

    at: datetime  # by the database's clock
    rows: Mapping[WorkspaceId, Workspace]
    archive_operations: Mapping[ArchiveKey, datetime]
    epoch: int


@dataclass
class MemoryDatabase:
    """Implements Records, IdleRecords and ArchiveRecords, and what the service layer writes."""

    clock: Callable[[], datetime]
    rows: dict[WorkspaceId, Workspace] = field(default_factory=dict)
    epoch: int = 0
    history: list[HistoryEntry] = field(default_factory=list)
    is_out: bool = False
    losses_accepted: dict[Place, Word] = field(default_factory=dict)  # what an administrator says
    archive_operations: dict[ArchiveKey, datetime] = field(default_factory=dict)  # begun, and when
    watchers: list[Watcher] = field(default_factory=list)  # told of each row that was written, at once
    on_decided: Callable[[Workspace, Status], None] = lambda _was, _now: None  # … by a decision made from `_was`
    on_expired: Watcher = lambda _before, _row: None  # … and by a TTL
    _ids: list[WorkspaceId] = field(default_factory=list)
    _needing: list[WorkspaceId] = field(default_factory=list)  # but for the pauses of an outage

    # -- the controller's --------------------------------------------------------------------------------------------

    async def read(self, asked: Asked) -> Reading:
        self._answer()
        now = self.clock()
        named = sorted({identity for identity in asked.ids if identity in self.rows})
        return Reading(
            now,
            self._needing_work(now, asked),
            self._sweep(asked.sweep_after, asked.sweep_limit),
            [self.rows[identity] for identity in named],
        )

    def _needing_work(self, now: datetime, asked: Asked) -> list[Workspace]:
        found: list[Workspace] = []
        but = frozenset(asked.but)
        for identity in self._needing[_start(self._needing, asked.after) :]:
            if len(found) == asked.limit:
                break
            row = self.rows[identity]
            if identity in but:
                continue
            if _is_error_to_answer(row) or not _pauses(row, now):
                found.append(row)
        return found

    def _sweep(self, after: WorkspaceId | None, limit: int) -> list[Workspace]:
        found: list[Workspace] = []
        for identity in self._ids[_start(self._ids, after) :]:
            if len(found) == limit:
                break
            if self.rows[identity].status.phase is not Phase.DELETED:
                found.append(self.rows[identity])
        return found

    async def commit(
        self, epoch: int, changes: Sequence[StatusChange], history: Iterable[HistoryEntry]
    ) -> set[WorkspaceId]:
        self._answer()
        ids = [change.was.id for change in changes]
        if len(set(ids)) != len(ids):
            raise ValueError("a workspace can be changed only once in a write")
        if epoch != self.epoch:
            raise StaleLeader(f"Leadership {epoch} has ended; another coordinator leads now.")
        written: set[WorkspaceId] = set()
        for change in sorted(changes, key=lambda change: change.was.id):
            row = self.rows.get(change.was.id)
            if row is not None and _still_applies(row, change):
                self.on_decided(change.was, change.now)
                self._write(replace(row, status=change.now))
                written.add(row.id)
        self.history += [entry for entry in history if entry.workspace_id in written]
        return written

    async def in_store_alone(
        self, retention: timedelta, after: WorkspaceId | None, limit: int
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        self._answer()
        found: dict[WorkspaceId, ArchiveKey] = {}
        for identity in self._ids[_start(self._ids, after) :]:
            if len(found) < limit and (key := self._in_store_alone(identity, retention)) is not None:
                found[identity] = key
        return found

    async def in_store_alone_of(
        self, retention: timedelta, ids: Collection[WorkspaceId]
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        self._answer()
        found = {identity: self._in_store_alone(identity, retention) for identity in ids}
        return {identity: key for identity, key in found.items() if key is not None}

    def _in_store_alone(self, identity: WorkspaceId, retention: timedelta) -> ArchiveKey | None:
        row = self.rows.get(identity)
        if row is None or row.status.archive_key is None:
            return None
        deleted_at = row.wish.deleted_at
        if deleted_at is None:
            return row.status.archive_key if row.status.phase is Phase.ARCHIVED else None
        lost = row.status.conditions.archive_ready.reason in TERMINAL_ARCHIVE_REASONS
        gone = row.status.phase is Phase.DELETED or row.wish.purged_at is not None or lost
        return None if gone or self.clock() - deleted_at > retention else row.status.archive_key

    async def accepted_losses(self) -> Mapping[Place, Word]:
        self._answer()
        return dict(self.losses_accepted)

    async def note_losses(self, epoch: int, place: Place, word: Word) -> None:
        self._answer()
        if epoch == self.epoch and self.losses_accepted[place].at == word.at:
            self.losses_accepted[place] = word

    async def finish_deletions(self, ids: Collection[WorkspaceId]) -> int:
        self._answer()
        ready = [self.rows[identity] for identity in sorted(ids) if identity in self.rows]
        ready = [row for row in ready if is_ready_to_delete(row)]
        for row in ready:
            self._write(replace(row, wish=replace(row.wish, deleted_at=self.clock())))
        return len(ready)

    def begin_leadership(self) -> int:
        """A new leader raises the epoch before it does anything: to the time, unless that is behind."""
        self._answer()
        self.epoch = max(self.epoch + 1, int(self.clock().timestamp() * 1000))
        return self.epoch

    # -- the TTL runner's ---------------------------------------------------------------------------------------------

    async def due(self, limit: int) -> Sequence[Expiration]:
        self._answer()
        now = self.clock()
        idle = [
            Expiration(row, transition)
            for row in self.rows.values()
            if row.status.phase in (Phase.RUNNING, Phase.STANDBY)
            and row.status.phase_changed_at < now - _SHORTEST
            and (transition := ttl.due(row, now)) is not None
        ]
        return sorted(idle, key=lambda each: each.was.status.phase_changed_at)[:limit]

    async def expire(self, expirations: Sequence[Expiration]) -> int:
        self._answer()
        return sum(self._expire(each) for each in expirations)

    def _expire(self, expiration: Expiration) -> bool:
        was, row = expiration.was, self.rows.get(expiration.was.id)
        if row is None or not _is_unchanged(row, was) or _pushed_back(row) != _pushed_back(was):
            return False
        transition = expiration.transition
        wish = replace(row.wish, desired_state=transition.to, asked_by=f"ttl: {transition.because}")
        self._write(replace(row, wish=wish))
        self.on_expired(row, self.rows[row.id])
        return True

    async def restart_idle_times(self, jump: timedelta) -> int:
        self._answer()
        now = self.clock()
        running = [
            row
            for _, row in sorted(self.rows.items())
            if row.wish.desired_state is Desired.RUNNING and row.wish.deleted_at is None
        ]
        for row in running:
            awake = row.wish.keep_awake_until
            if awake is not None and awake > now - jump:
                awake += jump
            self._write(replace(row, wish=replace(row.wish, last_access_at=now, keep_awake_until=awake)))
        return len(running)

    async def touch(self, ages: Mapping[WorkspaceId, float]) -> int:
        self._answer()
        touched = 0
        for identity in sorted(ages):
            row, at = self.rows.get(identity), self.clock() - timedelta(seconds=ages[identity])
            if row is not None and (row.wish.last_access_at is None or row.wish.last_access_at < at):
                self._write(replace(row, wish=replace(row.wish, last_access_at=at)))
                touched += 1
        return touched

    # -- GC's ---------------------------------------------------------------------------------------------------------

    async def now(self) -> datetime:
        self._answer()
        return self.clock()

    async def known(self, after: WorkspaceId | None, limit: int) -> Sequence[KnownWorkspace]:
        self._answer()
        start = _start(self._ids, after)
        return [_known(self.rows[identity]) for identity in self._ids[start : start + limit]]

    async def known_of(self, ids: Collection[WorkspaceId], keys: Collection[str]) -> Sequence[KnownWorkspace]:
        self._answer()
        wanted, sources = set(ids), set(keys)
        return [
            _known(self.rows[identity])
            for identity in self._ids
            if identity in wanted
            or (self.rows[identity].source_archive in sources and self.rows[identity].wish.deleted_at is None)
        ]

    async def remembers_since(self) -> datetime:
        self._answer()
        return datetime.min.replace(tzinfo=UTC)  # there never was a database that did not

    async def remembered(self, keys: Collection[ArchiveKey]) -> Collection[ArchiveKey]:
        self._answer()
        return {key for key in keys if key in self.archive_operations}

    async def old_operations(self, after: ArchiveKey | None, limit: int) -> Sequence[ArchiveKey]:
        self._answer()
        before = self.clock() - _OLD
        return [
            key
            for key, begun_at in sorted(self.archive_operations.items())
            if (after is None or key > after) and begun_at < before and not self._is_in_use(key)
        ][:limit]

    async def forget(self, keys: Collection[ArchiveKey]) -> None:
        self._answer()
        for key in keys:
            if not self._is_in_use(key):
                self.archive_operations.pop(key, None)

    def _is_in_use(self, key: ArchiveKey) -> bool:
        name = parse_archive_key(key)
        row = self.rows.get(name.workspace_id)
        return (
            row is not None
            and row.wish.deleted_at is None
            and (row.status.op_id == name.op_id or row.status.archive_key == key)
        )

    # -- the service layer's ------------------------------------------------------------------------------------------

    def insert(self, row: Workspace) -> None:
        self._answer()
        insort(self._ids, row.id)
        self._write(row)

    def adopt(self, row: Workspace) -> None:
        """Have exactly this row, and tell nobody."""
        watchers, self.watchers = self.watchers, []
        self._write(row)
        self.watchers = watchers

    def set_desired(self, desired: Desired, *, was: Workspace) -> bool:
        self._answer()
        row = self.rows.get(was.id)
        if row is not None and _is_unchanged(row, was):
            self._write(replace(row, wish=self._wishing(row.wish, desired)))
            return True
        return False

    def set_wish(self, wish: Wish, *, was: Workspace) -> bool:
        """Everything else that people ask for, compare-and-set on what it was decided from."""
        self._answer()
        row = self.rows.get(was.id)
        if row is not None and _is_unchanged(row, was) and row.wish == was.wish:
            self._write(replace(row, wish=wish))
            return True
        return False

    def _wishing(self, wish: Wish, desired: Desired) -> Wish:
        accessed = wish.last_access_at
        if desired is Desired.RUNNING:
            accessed = max(accessed or self.clock(), self.clock())
        return replace(wish, desired_state=desired, last_access_at=accessed, asked_by="")

    # -- backups and failovers ----------------------------------------------------------------------------------------

    def moment(self) -> "Moment":
        return Moment(self.clock(), dict(self.rows), dict(self.archive_operations), self.epoch)

    def go_back(self, moment: "Moment") -> None:
        """Exactly what there was then, and nobody is told."""
        self.epoch, self.archive_operations = moment.epoch, dict(moment.archive_operations)
        self.losses_accepted.clear()
        self.rows.clear()  # others hold on to this very dictionary
        self.rows.update(moment.rows)
        self._ids[:] = sorted(self.rows)
        self._needing[:] = [identity for identity in self._ids if _needs_work(self.rows[identity])]

    # -- inside -------------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        if self.is_out:
            raise Unavailable("The database did not answer in time.", "Try again in a moment.")

    def _write(self, row: Workspace) -> None:
        before = self.rows.get(row.id)
        self.rows[row.id] = row
        self._remember(before, row)
        needed, needs = before is not None and _needs_work(before), _needs_work(row)
        if needs and not needed:
            insort(self._needing, row.id)
        elif needed and not needs:
            del self._needing[bisect_right(self._needing, row.id) - 1]
        for watcher in self.watchers:
            watcher(before, row)

    def _remember(self, before: Workspace | None, row: Workspace) -> None:
        """The triggers of revision 0022."""
        now = row.status
        if before is not None:
            was = before.status
            if (was.archive_key, was.operation, was.op_id) == (now.archive_key, now.operation, now.op_id):
                return
        if now.op_id is not None and now.operation in (Operation.ARCHIVING, Operation.CREATE_EMPTY_ARCHIVE):
            self.archive_operations.setdefault(archive_key(row.id, now.op_id), self.clock())
        if now.archive_key is not None and archive_owner(now.archive_key) == str(row.id):
            self.archive_operations.setdefault(now.archive_key, self.clock())


def _start(ids: Sequence[WorkspaceId], after: WorkspaceId | None) -> int:
    return 0 if after is None else bisect_right(ids, after)


def _needs_work(row: Workspace) -> bool:
    """reads.NEEDING_WORK, but for the pauses of an outage."""
    wish, status = row.wish, row.status
    if wish.deleted_at is not None:
        conditions = status.conditions
        gone = conditions.volume_ready.reason == c.VOLUME_NOT_FOUND
        gone = gone and conditions.container_ready.reason == c.CONTAINER_NOT_FOUND
        waits = status.phase is Phase.DELETING and status.operation is Operation.NONE and gone
        return status.phase is not Phase.DELETED and not waits
    if status.phase is Phase.ERROR:
        return _is_error_to_answer(row)
    return status.phase.value != wish.desired_state.value or status.operation is not Operation.NONE


def _is_error_to_answer(row: Workspace) -> bool:
    request = row.wish.recover_request
    in_error = row.wish.deleted_at is None and row.status.phase is Phase.ERROR
    return in_error and request is not None and request.id != row.status.recover_handled_id


def _pauses(row: Workspace, now: datetime) -> bool:
    status = row.status
    kept_out = is_put_off(status) and status.phase is Phase.STANDBY and row.wish.desired_state not in WANTED_AGAIN
    kept_out = kept_out and row.wish.deleted_at is None
    return (kept_out or status.error_reason is ErrorReason.UNREACHABLE) and is_waiting(status, now)


def _still_applies(row: Workspace, change: StatusChange) -> bool:
    """The comparison of statuses.WRITE."""
    was, now = change.was.status, row.status
    same = (now.operation, now.op_id, now.phase) == (was.operation, was.op_id, was.phase)
    if change.relies_on_wish:
        same = same and row.wish.desired_state is change.was.wish.desired_state
        same = same and row.wish.deleted_at == change.was.wish.deleted_at
    return same


def _is_unchanged(row: Workspace, was: Workspace) -> bool:
    """The comparison of wishes.SET_DESIRED."""
    return _compared(row) == _compared(was)


def _compared(row: Workspace) -> tuple[object, ...]:
    return row.wish.desired_state, row.status.operation, row.status.phase, row.wish.deleted_at


def _pushed_back(row: Workspace) -> tuple[object, ...]:
    """What else wishes.EXPIRE compares."""
    wish = row.wish
    ttls = (wish.standby_ttl_seconds, wish.archive_ttl_seconds)
    return wish.last_access_at, wish.keep_awake_until, row.status.phase_changed_at, ttls


def _known(row: Workspace) -> KnownWorkspace:
    return KnownWorkspace(
        id=row.id,
        archive_key=row.status.archive_key,
        op_id=row.status.op_id,
        deleted_at=row.wish.deleted_at,
        purged_at=row.wish.purged_at,
        source_archive=row.source_archive,
    )
