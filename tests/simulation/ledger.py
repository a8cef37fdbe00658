"""What must hold, whatever happens: the ghost of what each user expects to find, and the checks against it.

Each version of a home is a number that was never given before, written into two files so that half a home shows. The
ledger is told of every row that is written, every volume and archive that goes and every recovery that is honoured; it
reads the world and never changes it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import ClassVar, NoReturn

from codehub.coordinator.collect import GcReport
from codehub.drivers.memory.things import Home, Instance, Job, JobKind, Stored, Volume
from codehub.model.gc import GcRules
from codehub.model.invariants import violations
from codehub.model.names import archive_key, parse_archive_key
from codehub.model.observation import Life, Seen
from codehub.model.tick import Decision
from codehub.model.workspace import (
    ArchiveKey,
    Operation,
    OpId,
    Phase,
    RecoverFrom,
    Status,
    VolumeState,
    Workspace,
    WorkspaceId,
)
from tests.simulation import verdicts
from tests.simulation.database import DatabaseClock
from tests.simulation.kept import Kept
from tests.simulation.surroundings import Surroundings
from tests.simulation.trace import Trace

NOTHING = 0
_FILES = ("first", "second")


def home_of(version: int) -> Home:
    return {name: str(version).encode() for name in _FILES}


def version_of(home: Home) -> int | None:
    """None: it is not a whole home."""
    if not home:
        return NOTHING
    versions = {home.get(name) for name in _FILES}
    content = versions.pop()
    return int(content) if not versions and content is not None else None


@dataclass
class Expectation:
    """What one user expects to find."""

    newest: int = NOTHING
    damaged: bool = False  # something outside took data away: it may be missing, but never silently
    given_up: bool = False  # a person decided to lose the newest version
    travelled: bool = False  # the database went back in time: its row may show an older home, and the newest is kept
    lost_at: datetime | None = None  # the last accident
    visits: deque[datetime] = field(default_factory=lambda: deque(maxlen=100))


@dataclass
class Ledger:
    surroundings: Surroundings
    rows: dict[WorkspaceId, Workspace]
    trace: Trace
    clock: Callable[[], datetime]
    gc_rules: GcRules
    told: DatabaseClock  # what time the database tells, by which trash expires
    is_fair: bool = False
    redis_lost_at: datetime | None = None
    expected: dict[WorkspaceId, Expectation] = field(default_factory=dict)
    _archived: dict[ArchiveKey, int] = field(default_factory=dict)  # what each complete archive held when it was made
    _used: set[OpId] = field(default_factory=set)
    made_at: dict[str, datetime] = field(default_factory=dict)  # of instances, by their address
    _addresses: dict[str, WorkspaceId] = field(default_factory=dict)
    kept: Kept = field(init=False)
    nothing: ClassVar[int] = NOTHING
    version = staticmethod(version_of)
    _pointless: set[OpId] = field(default_factory=set)  # archive jobs that found their archive complete but damaged

    def __post_init__(self) -> None:
        self.kept = Kept(self)

    @property
    def retention(self) -> timedelta:
        return self.gc_rules.trash_retention

    def fail(self, what: str, workspace_id: WorkspaceId | None) -> NoReturn:
        self.trace.fail(what, workspace_id)

    # -- told by the database --------------------------------------------------------------------------------------

    def decided(self, was: Workspace, status: Status) -> None:
        """A decision that was made from `was` is written."""
        for broken in violations(was, Seen(), Decision(status, None, "")):
            self.fail(broken, was.id)
        if was.status.recover_handled_id != status.recover_handled_id and was.wish.deleted_at is None:
            self._recovered(was, status)

    def written(self, before: Workspace | None, row: Workspace) -> None:
        """A row was written."""
        if before is None:
            self._created(row)
        elif before.status is not row.status:
            self._judged(before, row)
        self.check(row)

    def _created(self, row: Workspace) -> None:
        expectation = self.expected[row.id] = Expectation()
        if row.source_archive is not None:
            expectation.newest = self._archived.get(row.source_archive, NOTHING)
            expectation.damaged = not self.is_saved(row)  # an accident took what was to be copied

    def _judged(self, before: Workspace, row: Workspace) -> None:
        """The controller changed the status."""
        verdicts.check(self, before, row)
        op_id = row.status.op_id
        if op_id is not None and op_id != before.status.op_id:
            if op_id in self._used:
                self.fail("an op_id was used for two operations", row.id)
            self._used.add(op_id)

    def _recovered(self, row: Workspace, now: Status) -> None:
        """A recovery was honoured: what the user expects to find is what they chose."""
        request, was = row.wish.recover_request, row.status
        expectation = self.expected[row.id]
        if request is None or (was.home_ctx, was.archive_key) == (now.home_ctx, now.archive_key):
            return  # refused, or only cleared
        match request.source:
            case RecoverFrom.VOLUME:
                volume = self.volume(row)
                if volume is None and expectation.damaged:
                    return  # it was lost since it was looked at
                version = version_of(volume.home) if volume is not None else None
                if version is None:
                    self.fail("half a home was made live by a recovery", row.id)
                else:
                    expectation.newest, expectation.damaged = version, False
                    self.kept.chosen(row.id, version)
            case RecoverFrom.ARCHIVE:
                self._expect_the_archive(replace(row, status=now))
            case RecoverFrom.BLANK:
                expectation.newest = NOTHING
            case RecoverFrom.AS_IS:
                pass
        if request.forced or request.source is RecoverFrom.BLANK:
            self.kept.given_up(row.id)

    def expired(self, before: Workspace | None, row: Workspace) -> None:
        assert before is not None
        verdicts.check_expired(self, before, row)

    def undeleted(self, row: Workspace) -> None:
        if self.expected[row.id].given_up:
            self._expect_the_archive(row)

    def _expect_the_archive(self, row: Workspace) -> None:
        key = row.status.archive_key
        expectation = self.expected[row.id]
        expectation.newest = self._archived.get(key, NOTHING) if key is not None else NOTHING
        expectation.given_up = False
        if expectation.newest != NOTHING and not self.is_saved(row):
            expectation.damaged = True  # an accident took what was chosen

    # -- told by the world -------------------------------------------------------------------------------------------

    def volume_going(self, workspace_id: WorkspaceId, volume: Volume) -> None:
        """A driver is about to remove this volume."""
        row, expectation = self.rows.get(workspace_id), self.expected[workspace_id]
        self.trace.note(workspace_id, f"volume {volume.uid} ({version_of(volume.home)}) is removed")
        if row is None:
            return  # of a future that the database lost: what is kept of it is looked at all the time
        world = self.surroundings.of(row)
        if workspace_id in world.instances and not expectation.damaged:
            self.fail("a volume was deleted before its instance was gone", workspace_id)
        if expectation.given_up or expectation.damaged:
            return
        home = row.status.home_ctx
        if home.volume is VolumeState.LIVE and home.uid == volume.uid:
            self.fail("a live home was deleted", workspace_id)
        only_copy = version_of(volume.home) == expectation.newest != NOTHING and not self.is_saved(row)
        if only_copy and not expectation.travelled:
            self.fail("the only copy was deleted before its archive was committed", workspace_id)

    def archive_put(self, key: ArchiveKey, stored: Stored) -> None:
        version = version_of(stored.home)
        if not stored.has_meta:
            return
        owner = parse_archive_key(key).workspace_id
        self.trace.note(owner, f"archive {key[37:45]} ({version}) is complete{' but damaged' * stored.damaged}")
        if version is None:
            self.fail("half a home was archived", owner)
        else:
            self._archived[key] = version

    def archive_going(self, key: ArchiveKey) -> None:
        """GC removes it."""
        owner = parse_archive_key(key).workspace_id
        row = self.rows.get(owner)
        self.trace.note(owner, f"archive {key[37:45]} is collected")
        if row is None:
            self.fail("GC deleted an archive of a workspace that the database does not know", owner)
        for other in self.rows.values():
            uncopied = other.source_archive == key and other.status.archive_key is None
            if uncopied and other.wish.deleted_at is None:
                self.fail("GC deleted the source of a copy", other.id)
        status, deleted_at = row.status, row.wish.deleted_at
        if deleted_at is None:
            if key == status.archive_key or (status.op_id is not None and key == archive_key(owner, status.op_id)):
                self.fail("GC deleted an archive that a row needs", owner)
            if key == self._newest_complete(owner) and not self.expected[owner].damaged:
                self.fail("GC deleted the newest archive of a workspace that is not deleted", owner)
        elif (
            key == status.archive_key and row.wish.purged_at is None and self.told.latest <= deleted_at + self.retention
        ):
            self.fail("GC deleted an archive in the trash", owner)

    def _newest_complete(self, owner: WorkspaceId) -> ArchiveKey | None:
        own = [
            (stored.modified_at, key)
            for key, stored in self.surroundings.stored.items()
            if parse_archive_key(key).workspace_id == owner and stored.has_object and stored.has_meta
        ]
        return max(own)[1] if own else None

    def instance_made(self, workspace_id: WorkspaceId, instance: Instance) -> None:
        self.trace.note(workspace_id, f"instance of {str(instance.op_id)[:8]} at {instance.endpoint}")
        self._addresses[instance.endpoint] = workspace_id
        self.made_at[instance.endpoint] = self.clock()

    def job_begun(self, job: Job) -> None:
        """A job starts; one that finds a complete archive has nothing to do."""
        stored = self.surroundings.stored.get(job.key)
        if job.kind is JobKind.ARCHIVE and stored is not None and stored.has_meta and stored.damaged:
            if job.workspace_id not in self.rows:
                return
            row = self.rows[job.workspace_id].status
            late = (row.operation, row.op_id) != (
                Operation.ARCHIVING,
                job.op_id,
            )  # a call sent before it ended
            if job.op_id in self._pointless and not late and not self.expected[job.workspace_id].damaged:
                self.fail("an archive that is damaged is made again under its old op_id", job.workspace_id)
            self._pointless.add(job.op_id)

    def lost(self, workspace_id: WorkspaceId) -> None:
        """An accident took something of this workspace away."""
        self.expected[workspace_id].damaged = True
        self.expected[workspace_id].lost_at = self.clock()
        self.kept.given_up(workspace_id)

    def collected(self, report: GcReport) -> None:
        """A cycle of GC has ended."""
        if report.stopped is None or "implausible" not in report.stopped:
            return
        odd, stored = len(self.unneeded(explained=False)), len(self.surroundings.stored)
        if odd <= self.gc_rules.implausible_count or odd <= stored * self.gc_rules.implausible_share:
            self.fail(f"GC was stopped by what rows explain: {odd} of {stored} are not; {report.stopped}", None)

    def unneeded(self, *, explained: bool = True) -> set[ArchiveKey]:
        """Archives that no row names; without those whose workspace is deleted, or has a newer archive."""
        found: set[ArchiveKey] = set()
        for key, stored in self.surroundings.stored.items():
            name = parse_archive_key(key)
            row = self.rows.get(name.workspace_id)
            if row is None or self._is_named(key, row, name.op_id):
                continue
            own = self.surroundings.stored.get(row.status.archive_key) if row.status.archive_key is not None else None
            replaced = own is not None and own.modified_at >= stored.modified_at
            if explained or (row.wish.deleted_at is None and not replaced):
                found.add(key)
        return found

    def _is_named(self, key: ArchiveKey, row: Workspace, op_id: OpId) -> bool:
        deleted_at = row.wish.deleted_at
        if any(each.source_archive == key and each.wish.deleted_at is None for each in self.rows.values()):
            return True
        if deleted_at is None:
            return key == row.status.archive_key or op_id == row.status.op_id or key == self._newest_complete(row.id)
        return key == row.status.archive_key and not self.is_forgotten(row)

    # -- told by the users --------------------------------------------------------------------------------------------

    def wrote(self, workspace_id: WorkspaceId, version: int, *, over: int | None) -> None:
        expectation = self.expected[workspace_id]
        expectation.newest = version
        expectation.given_up = expectation.damaged = expectation.travelled = False
        self.kept.overwritten(workspace_id, over)

    def given_up(self, workspace_id: WorkspaceId) -> None:
        """Somebody decided to lose the newest version, and was told so."""
        self.expected[workspace_id].given_up = True
        self.kept.given_up(workspace_id)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def volume(self, row: Workspace) -> Volume | None:
        return self.surroundings.of(row).volumes.get(row.id)

    def is_saved(self, row: Workspace) -> bool:
        """Whether the newest version is in an archive that the row will find."""
        key = row.status.archive_key
        if key is None and not row.status.home_ctx.blank:
            key = row.source_archive
        stored = self.surroundings.archive(key)
        if stored is None or not stored.has_object or not stored.has_meta or stored.damaged or stored.expired:
            return False
        return version_of(stored.home) == self.expected[row.id].newest

    def check(self, row: Workspace) -> None:
        """Everything that can be said of one row and its part of the world, now."""
        status, expectation = row.status, self.expected[row.id]
        home = status.home_ctx
        if status.phase is Phase.ERROR and status.operation is not Operation.NONE:
            self.fail("ERROR with an operation", row.id)
        if status.endpoint is not None and self._addresses.get(status.endpoint) != row.id:
            self.fail("an endpoint leads to the instance of another workspace", row.id)
        volume = self.volume(row)
        own = volume is not None and home.volume is VolumeState.LIVE and volume.uid == home.uid
        content = version_of(volume.home) if volume is not None else None
        if own and content != expectation.newest and not expectation.travelled:
            self.fail(f"an old or half home ({content} for {expectation.newest}) counts as live", row.id)
        if expectation.travelled:
            self.kept.check(row.id, content if own else None)
            return
        if status.endpoint is not None:
            self._check_shown(row, expectation)
        if expectation.newest == NOTHING or own or self.is_saved(row):
            expectation.damaged = expectation.damaged and not own
        elif not expectation.damaged and not expectation.given_up and not self.is_forgotten(row):
            self.fail("the newest version is nowhere the row will find it", row.id)

    def _check_shown(self, row: Workspace, expectation: Expectation) -> None:
        instance = self.surroundings.of(row).instances.get(row.id)
        if instance is None or instance.endpoint != row.status.endpoint or instance.life is Life.DEAD:
            return
        shown = version_of(instance.volume.home)
        if shown != expectation.newest and not expectation.damaged:
            self.fail(f"the user is shown an old or half home ({shown} for {expectation.newest})", row.id)

    def is_in_store_alone(self, row: Workspace) -> bool:
        """Whether its home is nowhere but in its archive, and still wanted."""
        kept = row.wish.deleted_at is not None and not self.is_forgotten(row)
        return row.status.archive_key is not None and (row.status.phase is Phase.ARCHIVED or kept)

    def is_forgotten(self, row: Workspace) -> bool:
        deleted_at = row.wish.deleted_at
        return deleted_at is not None and (
            row.wish.purged_at is not None or self.told.latest > deleted_at + self.retention
        )

    def check_all(self) -> None:
        for row in self.rows.values():
            self.check(row)
        self.kept.check_all()
        for world in self.surroundings.worlds.values():
            working: set[WorkspaceId] = set()
            for job in world.jobs.values():
                if job.workspace_id in working and not self.expected[job.workspace_id].damaged:
                    self.fail("two jobs of one workspace", job.workspace_id)
                working.add(job.workspace_id)
