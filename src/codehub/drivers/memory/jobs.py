"""Storage jobs of the fake. Each takes two steps, so that there is a half-way at which it can be killed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from codehub.drivers.memory.faults import Misbehaviour
from codehub.drivers.memory.things import Job, JobKind, Stored
from codehub.errors import Refused
from codehub.model.names import archive_key
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import ArchiveKey, ErrorReason, OpId, VolumeRef, WorkspaceId

if TYPE_CHECKING:
    from codehub.drivers.memory.world import MemoryWorld

OUT = (Misbehaviour.UNREACHABLE, Misbehaviour.TIMES_OUT)


class MemoryJobs:
    """Implements drivers.base.Jobs."""

    def __init__(self, world: "MemoryWorld") -> None:
        self._world = world

    async def observe(self) -> Mapping[WorkspaceId, Sequence[JobSeen]]:
        def effect() -> Mapping[WorkspaceId, Sequence[JobSeen]]:
            hidden = self._world.faults.hides("jobs.observe")
            seen: dict[WorkspaceId, list[JobSeen]] = {}
            for job in self._world.jobs.values():
                if not hidden(job.workspace_id):
                    seen.setdefault(job.workspace_id, []).append(_seen(job))
            if self._world.auto_jobs:
                self._world.run_jobs()  # after looking: a job is seen to run at least once
            return seen

        return await self._world.faults.call("jobs.observe", None, effect, {})

    async def archive(self, workspace_id: WorkspaceId, op_id: OpId, volume: VolumeRef) -> None:
        key = archive_key(workspace_id, op_id)
        await self._begin("jobs.archive", JobKind.ARCHIVE, workspace_id, op_id, key, volume)

    async def restore(self, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef) -> None:
        await self._begin("jobs.restore", JobKind.RESTORE, workspace_id, op_id, key, volume)

    async def _begin(  # noqa: PLR0917 - private, and each of another type
        self, verb: str, kind: JobKind, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, ref: VolumeRef
    ) -> None:
        def effect() -> None:
            if op_id in self._world.jobs:
                return
            volume = self._world.volume(workspace_id, ref)
            if any(job.volume is volume for job in self._world.jobs.values()):
                raise Refused(f"Another job has the volume of {workspace_id}.")
            if workspace_id in self._world.instances:
                raise Refused(f"An instance has the volume of {workspace_id}.")
            self._world.jobs[op_id] = Job(op_id, workspace_id, kind, volume, key, self._world.clock())
            self._world.changed()

        await self._world.faults.call(verb, workspace_id, effect, None)

    async def remove(self, workspace_id: WorkspaceId, op_id: OpId) -> None:
        def effect() -> None:
            job = self._world.jobs.get(op_id)
            if job is not None and job.workspace_id == workspace_id:
                del self._world.jobs[op_id]
                self._world.changed()

        await self._world.faults.call("jobs.remove", workspace_id, effect, None)


def advance(world: "MemoryWorld", job: Job) -> None:
    """One step further: half of the work, then the rest."""
    job.steps += 1
    job.progress_at = world.clock()
    verb = f"jobs.{job.kind.name.lower()}"
    if job.steps > 1 and world.faults.strikes(verb, job.workspace_id, Misbehaviour.HALF) is not None:
        _fail(job, ErrorReason.ACTION_FAILED, "It stopped half way, as it was told to.")
    elif job.steps > 1 and world.faults.strikes(verb, job.workspace_id, Misbehaviour.EVICTED) is not None:
        _fail(job, ErrorReason.UNREACHABLE, "What it ran on ended it, to save itself.")
    elif world.faults.strikes(f"archives.{verb}", job.workspace_id, *OUT) is not None:
        _fail(job, ErrorReason.UNREACHABLE, "The archive store cannot be reached.")
    elif job.kind is JobKind.ARCHIVE:
        _archive(world, job)
    else:
        _restore(world, job)
    if job.state is not JobState.RUNNING:
        world.changed()


def _archive(world: "MemoryWorld", job: Job) -> None:
    stored = world.stored.get(job.key)
    if stored is not None and stored.has_object and stored.has_meta:
        job.state = JobState.SUCCEEDED  # made by an earlier run of this very job
        return
    home = dict(job.volume.home)
    _count(job, home)
    if job.steps == 1:
        world.stored[job.key] = Stored(home, world.clock(), has_meta=False)
        return
    if world.faults.strikes("archives.jobs.archive", job.workspace_id, Misbehaviour.FULL) is not None:
        _fail(job, ErrorReason.UNREACHABLE, "The archive store is full.")
        return
    damaged = world.faults.strikes("jobs.archive", job.workspace_id, Misbehaviour.DAMAGES) is not None
    world.stored[job.key] = Stored(home, world.clock(), damaged=damaged)
    job.state = JobState.SUCCEEDED


def _restore(world: "MemoryWorld", job: Job) -> None:
    if job.volume.restored_by == job.op_id:
        job.state = JobState.SUCCEEDED  # it finds its own mark and does nothing
        return
    stored = world.stored.get(job.key)
    job.volume.whole, job.volume.home = False, {}
    if stored is None or not stored.has_object or not stored.has_meta or stored.expired:
        _fail(job, ErrorReason.ACTION_FAILED, f"The archive {job.key} is not there.")
        return
    names = sorted(stored.home)
    some = names[: len(names) // 2] if job.steps == 1 else names
    job.volume.home = {name: stored.home[name] for name in some}
    _count(job, job.volume.home)
    if job.steps == 1:
        return
    if stored.damaged:
        _fail(job, ErrorReason.ARCHIVE_CORRUPTED, f"The archive {job.key} does not have its checksum.")
        return
    job.volume.whole, job.volume.restored_by = True, job.op_id
    job.state = JobState.SUCCEEDED


def _count(job: Job, home: Mapping[str, bytes]) -> None:
    job.files_done, job.bytes_done = len(home), sum(map(len, home.values()))


def _fail(job: Job, error: ErrorReason, message: str) -> None:
    job.state, job.error, job.message = JobState.FAILED, error, message


def _seen(job: Job) -> JobSeen:
    restored = job.kind is JobKind.RESTORE and job.state is JobState.SUCCEEDED
    return JobSeen(
        job.op_id,
        job.state,
        job.volume.uid,
        job.key if restored else None,
        job.error,
        job.message,
        job.progress_at,
        job.bytes_done,
        job.files_done,
    )
