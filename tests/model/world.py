"""A small world that obeys and breaks: one workspace's row, and the infrastructure it is about.

The world knows what the user last wrote (`newest`) and where each copy is. It plays drivers that are slow, fail, lie,
land late or cannot be looked at, a coordinator that dies between commit and action, and an old leader that wakes up
and finishes what it had decided. `check` states what must hold after every event, whatever happened.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from codehub.model import actions as a
from codehub.model.failure import Fault, Rules, after_failure, is_put_off
from codehub.model.invariants import violations
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen, InstanceSeen, JobSeen, JobState, Life, Seen, VolumeSeen
from codehub.model.tick import Decision, decide
from codehub.model.wishes import Refusal, delete, is_ready_to_delete, request_state, undelete
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    Incarnation,
    Operation,
    OpId,
    Phase,
    RecoverFrom,
    RecoverRequest,
    VolumeRef,
    VolumeState,
    Wish,
    Workspace,
)
from tests.model import builders as b

RETENTION = timedelta(days=7)


@dataclass
class Volume:
    incarnation: Incarnation
    uid: str  # drawn by the driver at each creation
    content: int | None = 0  # the version in it; None while only part of it is there
    restored_by: OpId | None = None
    marked: bool = False


@dataclass
class Instance:
    op_id: OpId
    life: Life
    volume: Volume  # what it has mounted


@dataclass
class Job:
    op_id: OpId
    kind: str
    volume: Volume  # what it has mounted
    key: ArchiveKey
    state: JobState = JobState.RUNNING
    error: ErrorReason = ErrorReason.ACTION_FAILED


@dataclass
class Archive:
    content: int
    damaged: bool = False


class World:
    """One workspace, its surroundings, and the ghost of what its user expects to find."""

    def __init__(self, desired: Desired = Desired.RUNNING, source: bool = False) -> None:
        self.now: datetime = b.NOW
        self.ops = 1000
        self.archives: dict[ArchiveKey, Archive] = {}
        source_key = archive_key(b.OTHER, b.op(9)) if source else None
        if source_key is not None:
            self.archives[source_key] = Archive(content=0)
        self.row: Workspace = b.workspace(desired_state=desired, source_archive=source_key)
        self.volume: Volume | None = None
        self.instance: Instance | None = None
        self.jobs: dict[OpId, Job] = {}
        self.newest = 0
        self.damaged = False  # something outside took data away: it may be missing, but never silently
        self.given_up = False  # a person decided to lose the newest copy
        self.late: list[a.Action] = []  # calls that hang and land later
        self.paused: list[tuple[Workspace, Decision]] = []  # an old leader's, committed or not
        self.out: set[str] = set()
        self.silent: set[ArchiveKey] = set()  # archives that alone cannot be looked at
        self.unreadable = False  # a file that no archive job can read: each one fails
        self.deadline_from: datetime = self.now
        self.rules = Rules()
        self.problems: list[str] = []
        self.acted = False  # whether the last tick asked a driver for anything

    # -- looking ------------------------------------------------------------------------------------------------

    def look(self) -> Seen:
        status = self.row.status
        driver_out, store_out = "driver" in self.out, "store" in self.out
        op_key = archive_key(self.row.id, status.op_id) if status.op_id else None
        return Seen(
            instance=None if driver_out else self._see_instance(),
            volume=None if driver_out else self._see_volume(),
            jobs=None if driver_out else tuple(self._see_job(job) for job in self.jobs.values()),
            archive=self._see_archive(status.archive_key, store_out),
            op_archive=self._see_archive(op_key, store_out),
            store_out=store_out,
            deadline_from=self.deadline_from,
        )

    def _see_instance(self) -> InstanceSeen:
        if self.instance is None:
            return b.ABSENT
        return InstanceSeen(self.instance.life, self.instance.op_id, "10.0.0.1:8080")

    def _see_volume(self) -> VolumeSeen:
        if self.volume is None or "listing" in self.out:
            return VolumeSeen(False, confirmed="listing" not in self.out)
        return VolumeSeen(True, self.volume.incarnation, self.volume.uid, whole=self.volume.marked)

    def _see_job(self, job: Job) -> JobSeen:
        restored = job.kind == "restore" and job.state is JobState.SUCCEEDED
        marker = job.key if restored else None
        return JobSeen(job.op_id, job.state, job.volume.uid, marker, job.error, "it failed", self.now)

    def _see_archive(self, key: ArchiveKey | None, store_out: bool) -> ArchiveSeen | None:
        if key is None:
            return None
        if store_out or key in self.silent:
            return ArchiveSeen.UNREACHABLE
        archive = self.archives.get(key)
        if archive is None:
            return ArchiveSeen.MISSING
        return ArchiveSeen.CORRUPTED if archive.damaged else ArchiveSeen.VERIFIED

    # -- the coordinator ----------------------------------------------------------------------------------------

    def tick(self, how: str = "well") -> None:
        """One tick: look, decide, commit, act. `how` names where it goes wrong."""
        self.now += timedelta(seconds=2)
        self.deadline_from = self.now if self.out else self.deadline_from
        if is_ready_to_delete(self.row):
            self._set_wish(delete(self.row, self.now, confirmed=True))
        seen = self.look()
        before = self.row
        self.ops += 1
        decision = decide(before, seen, now=self.now, fresh_op_id=b.op(self.ops), rules=self.rules)
        self.problems += violations(before, seen, decision)
        self.acted = decision.action is not None
        if how == "dies before commit":
            return
        if how == "pauses before commit":
            self.paused.append((before, decision))
            return
        if self._commit(before, decision):
            self._when_honoured(before)
        if how == "dies before action" or decision.action is None:
            return
        if how == "pauses before action":
            self.paused.append((self.row, replace(decision, status=self.row.status)))
        elif how == "action fails":
            self._failed(ErrorReason.ACTION_FAILED)
        elif how == "action hangs":
            self.late.append(decision.action)
        elif how == "action lands but fails":
            self.perform(decision.action)
            self._failed(ErrorReason.ACTION_FAILED)
        elif self.out and how == "well":
            self._failed(ErrorReason.UNREACHABLE)
        else:
            self.perform(decision.action)

    def _commit(self, before: Workspace, decision: Decision) -> bool:
        """The compare-and-set of db.write_statuses."""
        was, is_ = before.status, self.row.status
        same = (was.operation, was.op_id, was.phase) == (is_.operation, is_.op_id, is_.phase)
        if decision.starts_operation(before):
            same = same and before.wish.desired_state is self.row.wish.desired_state
            same = same and before.wish.deleted_at == self.row.wish.deleted_at
        if same:
            self.row = replace(self.row, status=decision.status)
        return same

    def _failed(self, reason: ErrorReason) -> None:
        self.row = replace(self.row, status=after_failure(self.row, Fault(reason, "it failed"), self.now))

    def wake_paused(self) -> None:
        """An old leader goes on where it was: its commit is refused by its epoch, its call to the driver is not."""
        if self.paused:
            _, decision = self.paused.pop(0)
            if decision.action is not None:
                self.perform(decision.action)

    def land_late(self) -> None:
        if self.late:
            self.perform(self.late.pop(0))

    # -- the drivers --------------------------------------------------------------------------------------------

    def perform(self, action: a.Action) -> None:  # noqa: C901 - one line per kind of action
        match action:
            case a.CreateVolume(incarnation):
                if self.volume is None:
                    self.ops += 1
                    self.volume = Volume(incarnation, uid=f"uid-{self.ops}")
            case a.DeleteVolume(ref):
                self._delete_volume(ref)
            case a.MarkWhole(ref):
                self._mark_whole(ref)
            case a.StartInstance(op_id, _, ref, _):
                self._start(op_id, ref)
            case a.RemoveInstance():
                self.instance = None
            case a.StartArchiveJob(op_id, ref):
                if self._is(ref) and not self.jobs and self.volume is not None:
                    self.jobs[op_id] = Job(op_id, "archive", self.volume, archive_key(self.row.id, op_id))
            case a.StartRestoreJob(op_id, key, ref):
                if self._is(ref) and not self.jobs and self.volume is not None:
                    self.jobs[op_id] = Job(op_id, "restore", self.volume, key)
            case a.RemoveJob(op_id):
                self.jobs.pop(op_id, None)
            case a.MakeArchive(op_id, source):
                content = self.archives[source].content if source is not None else 0
                self.archives.setdefault(archive_key(self.row.id, op_id), Archive(content))

    def _mark_whole(self, ref: VolumeRef) -> None:
        if not self._is(ref) or self.volume is None:
            return
        if self.volume.content is None:
            self.problems.append("half a home was marked as whole")
        self.volume.marked = True

    def _is(self, ref: VolumeRef) -> bool:
        """What every driver checks before it touches a volume."""
        return self.volume is not None and (self.volume.incarnation, self.volume.uid) == (ref.incarnation, ref.uid)

    def _start(self, op_id: OpId, ref: VolumeRef) -> None:
        if not self._is(ref) or self.volume is None:
            return
        if self.instance is None or self.instance.life is Life.DEAD:
            self.instance = Instance(op_id, Life.READY, self.volume)

    def _delete_volume(self, ref: VolumeRef) -> None:
        if not self._is(ref) or self.volume is None:
            return
        if self.instance is not None or self.jobs:
            return  # every engine refuses to remove a volume that is in use
        if self.volume.content == self.newest and not self._saved() and not self.given_up and not self.damaged:
            self.problems.append("the only copy of the data was deleted")
        self.volume = None

    def _saved(self) -> bool:
        """Whether the newest version is in an archive that the row will find."""
        key = self.row.status.archive_key
        archive = self.archives.get(key) if key is not None else None
        return (archive is not None and not archive.damaged and archive.content == self.newest) or self.newest == 0

    def run_jobs(self, how: str = "well") -> None:
        for job in self.jobs.values():
            if job.state is not JobState.RUNNING:
                continue
            cannot_read = self.unreadable and job.kind == "archive"
            if how == "fails" or cannot_read or job.volume is not self.volume:
                job.state = JobState.FAILED
            elif job.kind == "archive":
                self._run_archive(job, how)
            else:
                self._run_restore(job, how)

    def _run_archive(self, job: Job, how: str) -> None:
        if job.volume.content is None:
            self.problems.append("half a home was archived")
        elif job.key not in self.archives:
            self.archives[job.key] = Archive(job.volume.content, damaged=how == "damages")
        job.state = JobState.SUCCEEDED

    def _run_restore(self, job: Job, how: str) -> None:
        archive = self.archives.get(job.key)
        if job.volume.restored_by == job.op_id:
            job.state = JobState.SUCCEEDED  # it finds its own mark and does nothing
            return
        job.volume.content = None  # emptied, then filled
        if "store" in self.out:
            job.state, job.error = JobState.FAILED, ErrorReason.UNREACHABLE
        elif archive is None or archive.damaged:
            job.state, job.error = JobState.FAILED, ErrorReason.ARCHIVE_CORRUPTED
        elif how != "stops half way":
            job.volume.content, job.volume.restored_by = archive.content, job.op_id
            job.state = JobState.SUCCEEDED
        else:
            job.state = JobState.FAILED

    # -- people and accidents -----------------------------------------------------------------------------------

    def _set_wish(self, answer: Wish | Refusal) -> None:
        if isinstance(answer, Wish):
            self.row = replace(self.row, wish=answer)

    def ask(self, desired: Desired) -> None:
        self._set_wish(request_state(self.row, desired, self.now))

    def ask_delete(self, purge: bool = False) -> None:
        answer = delete(self.row, self.now, purge=purge, confirmed=True)
        self._set_wish(answer)
        unarchivable = self.row.status.phase is Phase.ERROR or is_put_off(self.row.status)
        if isinstance(answer, Wish) and (purge or unarchivable):
            self.given_up = True  # whoever asks is told that nothing is archived

    def ask_undelete(self) -> None:
        answer = undelete(self.row, self.now, RETENTION)
        self._set_wish(answer)
        if isinstance(answer, Wish) and self.given_up and self.row.status.archive_key in self.archives:
            self._expect_the_archive()

    def ask_recover(self, source: RecoverFrom, forced: bool = False) -> None:
        if self.row.status.phase is not Phase.ERROR or self.row.wish.deleted_at is not None:
            return
        self.ops += 1
        request = RecoverRequest(b.op(self.ops), source, self.row.status.error_reason, forced)
        self.row = replace(self.row, wish=replace(self.row.wish, recover_request=request))
        self.tick()

    def _when_honoured(self, before: Workspace) -> None:
        """A recovery was honoured, now or when an outage ended: what the user expects to find is what they chose."""
        request, status = self.row.wish.recover_request, self.row.status
        if request is None or before.wish.deleted_at or status.recover_handled_id == before.status.recover_handled_id:
            return
        if (status.home_ctx, status.archive_key) == (before.status.home_ctx, before.status.archive_key):
            return  # refused, or only cleared
        match request.source:
            case RecoverFrom.VOLUME:
                assert self.volume is not None
                assert self.volume.content is not None, "half a home was made live"
                self.newest = self.volume.content
            case RecoverFrom.ARCHIVE:
                self._expect_the_archive()
            case RecoverFrom.BLANK:
                self.newest = 0
                self.given_up = True
            case RecoverFrom.AS_IS:
                pass

    def _expect_the_archive(self) -> None:
        key = self.row.status.archive_key
        archive = self.archives.get(key) if key is not None else None
        self.newest = archive.content if archive is not None else 0
        self.given_up = False

    def write(self) -> None:
        """The user types, if the proxy would let them: it reaches what the instance has mounted."""
        if self.row.status.endpoint is None or self.row.wish.deleted_at is not None:
            return
        if self.instance is None or self.instance.life is not Life.READY:
            return
        if self.instance.volume is self.volume:
            self.newest += 1
            self.instance.volume.content = self.newest
            self.given_up = False

    def instance_dies(self) -> None:
        if self.instance is not None:
            self.instance.life = Life.DEAD

    def lose_volume(self) -> None:
        if self.volume is not None:
            self.volume = None
            self.damaged = True

    def damage_archive(self) -> None:
        key = self.row.status.archive_key
        if key is not None and key in self.archives:
            self.archives[key].damaged = True
            self.damaged = True

    # -- what must hold -----------------------------------------------------------------------------------------

    def check(self) -> None:
        assert not self.problems, self.problems
        status = self.row.status
        home = status.home_ctx
        own = self.volume is not None and self.volume.uid == home.uid
        if status.endpoint is not None and self.instance is not None:
            shown = self.instance.volume.content
            assert shown == self.newest or self.volume is None, "the user was shown an old or half home"
        if status.phase in (Phase.STANDBY, Phase.RUNNING) and own and home.volume is VolumeState.LIVE:
            assert self.volume is not None
            assert self.volume.content == self.newest, "the user was shown an old or half home"
        if not self.damaged and not self.given_up and self.newest > 0:
            in_volume = own and home.volume is VolumeState.LIVE and self.volume and self.volume.content == self.newest
            assert in_volume or self._saved(), "the newest version is nowhere the row will find it"

    def settle(self) -> int:
        """Every fault ends; tick until nothing changes any more. Returns the number of ticks it took."""
        self.out.clear()
        self.unreadable = False
        while self.late:
            self.land_late()
        while self.paused:
            self.wake_paused()
        for count in range(1, 200):
            before = (self.row.status.operation, self.row.status.phase, self.row.status.op_id, self.row.status.home_ctx)
            self.tick()
            self.run_jobs()
            self.check()
            self.now += timedelta(seconds=5)
            status = self.row.status
            if is_put_off(status) and status.retry_at is not None:
                self.now = max(self.now, status.retry_at)  # hours may pass until the next attempt
            idle = status.operation is Operation.NONE and not self.acted and not self._is_waiting()
            idle = idle and not is_put_off(status)
            if idle and before == (status.operation, status.phase, status.op_id, status.home_ctx):
                return count
        raise AssertionError(f"it does not settle: {self.row.status}")

    def _is_waiting(self) -> bool:
        return self.row.status.retry_at is not None and self.now < self.row.status.retry_at
