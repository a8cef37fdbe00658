"""What the driver contract tests share: one workspace with its volume, and waiting for what its jobs do."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from codehub.drivers.base import Backend, InstanceSpec, Resources
from codehub.errors import DriverError
from codehub.model.names import archive_key
from codehub.model.observation import InstanceSeen, JobSeen, JobState, VolumeSeen
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, VolumeRef, WorkspaceId
from tests.contract.harness import Harness
from tests.support import eventually_async

HOME: Mapping[str, bytes] = {
    "notes.txt": b"hello",
    "src/main.py": b"print(1)\n" * 500,
    "empty": b"",
    ".hidden/x": b"\0",
}


def new_op() -> OpId:
    return OpId(uuid4())


def new_incarnation() -> Incarnation:
    return Incarnation(str(uuid4()))


@dataclass
class Case:
    """One workspace of one test. Its verbs go to the driver under test unless another backend is given."""

    harness: Harness
    id: WorkspaceId = field(default_factory=lambda: WorkspaceId(uuid4()))

    @property
    def backend(self) -> Backend:
        return self.harness.backend

    async def volume(self) -> VolumeRef:
        """A new volume, under a new incarnation."""
        await self.backend.volumes.create(self.id, new_incarnation())
        seen = await self.seen_volume()
        assert seen.exists
        return seen.ref

    async def replaced_volume(self) -> tuple[VolumeRef, VolumeRef]:
        """The reference to a volume that is gone, and the one to what took its place."""
        old = await self.volume()
        await self.backend.volumes.delete(self.id, old)
        return old, await self.volume()

    async def seen_volume(self) -> VolumeSeen:
        return await self.backend.volumes.look(self.id)

    async def seen_instance(self) -> InstanceSeen:
        return await self.backend.instances.look(self.id)

    async def start(self, volume: VolumeRef, op_id: OpId | None = None, image: str | None = None) -> OpId:
        op_id = op_id or new_op()
        # Small limits, so that several instances fit on a small machine.
        resources = Resources(cpus=1.0, memory_bytes=512 << 20, pids=256)
        spec = InstanceSpec(
            op_id=op_id, image_ref=image or self.harness.images.quick, volume=volume, resources=resources
        )
        await self.backend.instances.start(self.id, spec)
        return op_id

    async def jobs(self, backend: Backend | None = None) -> Sequence[JobSeen]:
        return (await (backend or self.backend).jobs.observe()).get(self.id, ())

    async def job(self, op_id: OpId, backend: Backend | None = None) -> JobSeen | None:
        return next((job for job in await self.jobs(backend) if job.op_id == op_id), None)

    async def ended(self, op_id: OpId, backend: Backend | None = None) -> JobSeen:
        """The job's result, once it has one."""
        last: list[JobSeen | None] = []

        async def has_ended() -> bool:
            last[:] = [await self.job(op_id, backend)]
            return last[0] is not None and last[0].state is not JobState.RUNNING

        await eventually_async(has_ended, "the job ends", seconds=60)
        assert last[0] is not None
        return last[0]

    async def archived(self, volume: VolumeRef) -> ArchiveKey:
        """Archive it with a job that is removed afterwards; the key of the archive."""
        op_id = new_op()
        await self.backend.jobs.archive(self.id, op_id, volume)
        result = await self.ended(op_id)
        assert result.state is JobState.SUCCEEDED, result.message
        await self.backend.jobs.remove(self.id, op_id)
        return archive_key(self.id, op_id)

    async def clean_up(self) -> None:
        """Leave nothing, whatever the test did."""
        for job in await self.jobs():
            await self.backend.jobs.remove(self.id, job.op_id)
        await self.backend.instances.remove(self.id)
        volume = await self.seen_volume()
        if volume.exists:
            await self.backend.volumes.delete(self.id, volume.ref)


async def failure(call: Awaitable[object]) -> DriverError | None:
    """What an awaitable fails with, if it does."""
    try:
        await call
    except DriverError as error:
        return error
    return None
