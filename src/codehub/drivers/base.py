"""What every driver promises, whatever it drives: containers, pods or processes; engine volumes, claims or folders.

All verbs may be repeated: done already means nothing to do. None knows the database. Each returns only when what it
asked for was accepted, and raises a DriverError otherwise: Unreachable (nothing is known), ActionFailed (try again),
TerminalError (trying again will not help), Refused (another thing is there than was named). Every call has a time
limit of its own.

Looking never lies: a listing holds everything there is or raises Unreachable; "could not look" is never "not there".
What a listing shows is labelled by whoever made it (workspace, op_id, incarnation, uid), so that any process can adopt
what an earlier one began.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from codehub.model.disk import Scarce
from codehub.model.gc import FoundArchive
from codehub.model.observation import ArchiveSeen, InstanceSeen, JobSeen, VolumeSeen
from codehub.model.store_owner import StoreMarker
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, VolumeRef, WorkspaceId


@dataclass(frozen=True, slots=True)
class Resources:
    """What an instance may use at most; None is no limit."""

    cpus: float | None = 2.0
    memory_bytes: int | None = 4 << 30
    pids: int | None = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSpec:
    """What to start."""

    op_id: OpId
    image_ref: str
    volume: VolumeRef
    resources: Resources = Resources()
    safe_mode: bool = False  # with the home in its place, but no settings and no start-up files read from it


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceUsage:
    """What an instance uses now; None is what cannot be measured there."""

    cpu_seconds: float | None = None  # since it started; it grows
    cpus: float | None = None  # where the engine tells only how many it uses at the moment
    memory_bytes: int | None = None  # what the system could not take back without it noticing
    ports: tuple[int, ...] | None = None  # what its programs listen on and a visitor can open


class Instances(Protocol):
    """What a workspace runs in: `ws-{workspace_id}`, at most one per workspace.

    The endpoint of an instance that has ended is not given to the next one: whoever still holds it reaches nobody,
    rather than somebody else's workspace.

    A port inside the instance is reached beside its endpoint: `HOST:PORT` at the same host, `unix:FOLDER/ide` by
    `unix:FOLDER/ports`, where one says the port's number and a newline before anything else. Where there is no such
    socket, ports are not forwarded. A port that nobody serves, or that is not for visitors, ends the connection.
    """

    async def observe(self) -> Mapping[WorkspaceId, InstanceSeen]:
        """Every instance there is, in one listing; a workspace that is not in it has none."""
        ...

    async def look(self, workspace_id: WorkspaceId) -> InstanceSeen:
        """One instance, looked at directly."""
        ...

    async def start(self, workspace_id: WorkspaceId, spec: InstanceSpec) -> None:
        """Return once it takes traffic.

        A dead instance is removed and made again; a living one is left alone, whatever its op_id. Refused without the
        named volume (nothing ever creates a volume by mounting it) and while a job runs on it. TerminalError
        ImagePullFailed for an image that is not in the allow-list or cannot be had.
        """
        ...

    async def remove(self, workspace_id: WorkspaceId) -> None:
        """Kill it with everything it started, and remove it. Returns when no process of it is left."""
        ...

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        """The last lines it wrote; empty when there is no instance."""
        ...

    async def usage(self) -> Mapping[WorkspaceId, InstanceUsage]:
        """What each living instance uses. One that cannot be measured, or ends meanwhile, is left out."""
        ...

    def events(self) -> AsyncIterator[None]:
        """Yields when something may have changed. A hint: it may yield too often, and may miss things.

        It outlives the engine: it neither ends nor raises while that is out, connects again by itself with growing
        pauses, and yields once it has, since whatever happened meanwhile was missed.
        """
        ...


class Volumes(Protocol):
    """Homes: `ws-{workspace_id}-home`, at most one per workspace, each with an incarnation and a uid on it."""

    async def observe(self) -> Mapping[WorkspaceId, VolumeSeen]:
        """Every volume there is, in one listing, one that is being removed included."""
        ...

    async def look(self, workspace_id: WorkspaceId) -> VolumeSeen:
        """One volume, looked at directly: an absence seen here is confirmed."""
        ...

    async def create(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> None:
        """Make an empty volume under a new uid. Nothing to do if one of this incarnation is there; else Refused."""
        ...

    async def mark_whole(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        """Note beside exactly this volume, not in it, that it holds a whole home; listings and looks show that.

        Refused if another one is there, or none. The mark goes with the volume, before or together with it.
        """
        ...

    async def delete(self, workspace_id: WorkspaceId, volume: VolumeRef, *, archived: OpId | None = None) -> None:
        """Remove exactly this volume. Nothing to do if there is none; Refused if it is another, or in use.

        Unreachable while it cannot be proven that nothing writes there any more: it is kept, and waited for. If it is
        `archived` by this operation, a driver that can tell leaves it untouched when it is newer than that archive or
        somebody else has it open: Refused, and said by VolumeSeen.kept from then on.
        """
        ...


class Jobs(Protocol):
    """Storage jobs: `ws-job-{op_id}`, where the volume is; they survive our death and are adopted by name.

    While a job runs it is the volume's only user: a job is Refused while another one runs on its volume or while the
    workspace has an instance, dead or alive. Of two callers at once at most one gets the volume, and maybe neither.
    """

    async def observe(self) -> Mapping[WorkspaceId, Sequence[JobSeen]]:
        """Every job there is, running or ended, with its progress or its result."""
        ...

    async def archive(self, workspace_id: WorkspaceId, op_id: OpId, volume: VolumeRef) -> None:
        """Start a job that archives the volume under the op_id's key. Nothing to do if that job exists."""
        ...

    async def restore(self, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef) -> None:
        """Start a job that makes the volume exactly what the archive holds. Nothing to do if that job exists."""
        ...

    async def remove(self, workspace_id: WorkspaceId, op_id: OpId) -> None:
        """Kill it if it runs, and remove it. Returns when no process of it is left."""
        ...


@dataclass(frozen=True, slots=True)
class DiskPressure:
    """How close a disk is to its reserve."""

    scarce: Scarce | None = None  # what there is, or soon will be, too little of
    shortage: str | None = None  # one sentence for people while less is free than is kept free


class Disk(Protocol):
    """The disk that homes share with others, where there is one machine whose disk is ours to look at."""

    async def pressure(self) -> DiskPressure:
        """While there is a shortage, nothing is started either."""
        ...

    async def home_sizes(
        self, ids: Collection[WorkspaceId], scarce: Scarce, *, gently: bool = False
    ) -> Mapping[WorkspaceId, int | None]:
        """What these homes take, with what their workspaces hold open without a name: bytes, or files.

        None: it could not be measured in time. One whose turn did not come is left out. `gently`: one after the
        other, and behind whatever else wants the disk or a processor.
        """
        ...


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """An archive as bytes; `mark` tells it from any other that ever has its key, where the store can tell."""

    size: int
    sha256: str
    mark: str


class Archives(Protocol):
    """The archive store. An archive counts only with its meta beside it, which is written last."""

    async def look(self, key: ArchiveKey) -> ArchiveSeen:
        """LISTED or what is wrong; never raises for an outage, which is UNREACHABLE or TIMEOUT."""
        ...

    async def verify(self, key: ArchiveKey, moved: Callable[[int], None] = lambda _: None) -> ArchiveSeen:
        """VERIFIED if size and checksum agree with the meta, by reading it back, telling `moved` how far.

        It is read once: later looks rely on that while the store shows that the object is still the same.
        """
        ...

    def found(self, whose: WorkspaceId | None = None) -> AsyncIterator[Sequence[FoundArchive]]:
        """Everything under the prefix, or one workspace's, page by page; raises Unreachable rather than stop early."""
        ...

    async def describe(self, key: ArchiveKey) -> ArchiveFile:
        """What its meta says of it. ActionFailed or TerminalError for one that is not whole."""
        ...

    async def part(self, key: ArchiveKey, file: ArchiveFile, start: int, size: int) -> bytes:
        """These bytes of exactly this archive; Unreachable if another one has its key by now."""
        ...

    async def make_empty(self, key: ArchiveKey) -> None:
        """Put the archive of an empty home there."""
        ...

    async def copy(self, source: ArchiveKey, key: ArchiveKey) -> None:
        """Copy an archive inside the store, meta last. TerminalError ArchiveCorrupted if the source is not complete."""
        ...

    async def marker(self) -> StoreMarker | None:
        """Whose store this is; None if nobody has said so yet. Raises Unreachable when it does not answer."""
        ...

    async def leave_marker(self, marker: StoreMarker) -> None:
        """Put it in place of the one that is there."""
        ...

    async def delete(self, key: ArchiveKey) -> None:
        """Remove the archive: its meta first, so that a half-removed one does not count."""
        ...


@dataclass(frozen=True, slots=True)
class Backend:
    """One kind of infrastructure: where instances, volumes and jobs are looked after together."""

    instances: Instances
    volumes: Volumes
    jobs: Jobs
    disk: Disk | None = None
    node: str = ""  # the one machine that all of it is on; "": there may be several
    at_once: int = 16  # starts, and other calls that change something, that are under way at the same time
