"""The restore drill: archives, chosen at random, are restored as a real restore would do it, and thrown away again.

It uses the backend's own volumes and storage jobs under ids that belong to no workspace, so that no row and no home is
touched, whatever goes wrong. The job believes an archive only when size and checksum agree with its meta.
"""

import asyncio
import random
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from codehub.drills.figures import percentile
from codehub.drivers.base import Archives, Backend
from codehub.errors import CodeHubError, StartError
from codehub.model.gc import FoundArchive
from codehub.model.names import archive_owner
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, VolumeRef, WorkspaceId

STALLED_SECONDS = 300.0
LIST_SECONDS = 600.0
_LOOK_SECONDS = 0.1
_LEAST_BYTES = 10_000_000  # of a home; below that the time is the job's own start, and says nothing about a GB
_GB = 1_000_000_000
_UNPACKED = 4  # a home is about so many times as large as its archive
_SCRATCH = 0x0D2111  # the first three bytes of every scratch id, by which leftovers are known


@dataclass(frozen=True, slots=True)
class Trial:
    """One archive that was restored, or not: `trouble` says why."""

    key: str
    seconds: float
    bytes: int
    files: int
    trouble: str = ""

    @property
    def seconds_per_gb(self) -> float | None:
        return None if self.trouble or self.bytes < _LEAST_BYTES else self.seconds / (self.bytes / _GB)


@dataclass(frozen=True, slots=True)
class Report:
    archives: int  # that could have been chosen
    trials: Sequence[Trial]

    @property
    def failed(self) -> int:
        return sum(bool(one.trouble) for one in self.trials)

    def figures(self) -> dict[str, float | None]:
        seconds = [one.seconds for one in self.trials if not one.trouble]
        rates = [one.seconds_per_gb for one in self.trials if one.seconds_per_gb is not None]
        return {
            "seconds_p50": percentile(seconds, 0.5),
            "seconds_p95": percentile(seconds, 0.95),
            "seconds_per_gb_p50": percentile(rates, 0.5),
            "seconds_per_gb_p95": percentile(rates, 0.95),
        }


def is_scratch(identity: WorkspaceId) -> bool:
    return identity.int >> 104 == _SCRATCH


def scratch_id() -> WorkspaceId:
    return WorkspaceId(UUID(int=(_SCRATCH << 104) | secrets.randbits(104)))


def choose(found: Iterable[FoundArchive], sample: int, rng: random.Random) -> tuple[int, list[FoundArchive]]:
    """How many there are to choose from, and those chosen: the newest complete archives of different workspaces."""
    newest: dict[str, FoundArchive] = {}
    for archive in found:
        owner = archive_owner(archive.key)
        if owner is None or not archive.complete:
            continue
        if owner not in newest or archive.modified_at > newest[owner].modified_at:
            newest[owner] = archive
    there = sorted(newest.values(), key=lambda archive: archive.key)
    return len(there), rng.sample(there, min(sample, len(there)))


def check_room(chosen: Sequence[FoundArchive], free_bytes: int) -> None:
    """Raises StartError where the largest of the homes would hardly fit: people's homes are on the same disk."""
    needed = max((archive.size for archive in chosen), default=0) * _UNPACKED
    if free_bytes < needed:
        raise StartError(
            f"The largest home may take {needed >> 20} MiB, and {free_bytes >> 20} MiB are free.",
            "Make room, or try a smaller sample.",
        )


async def drill(
    archives: Archives,
    backend: Backend,
    sample: int,
    *,
    say: Callable[[str], None],
    rng: random.Random | None = None,
    stalled_seconds: float = STALLED_SECONDS,
    list_seconds: float = LIST_SECONDS,
    free_bytes: int | None = None,
) -> Report:
    """Restore so many archives, one after the other. Raises DriverError or StartError when the store cannot be listed.

    `free_bytes`: where homes are, if that is known; StartError when they would hardly do.
    """
    try:
        async with asyncio.timeout(list_seconds):
            found = [archive async for page in archives.found() for archive in page]
    except TimeoutError:
        raise StartError(
            f"The archive store was not listed within {list_seconds:.0f} s.", "See: codehub doctor"
        ) from None
    # A home that is being restored or archived in earnest has its archive to itself.
    busy = {str(identity) for identity in await backend.jobs.observe()}
    quiet = [archive for archive in found if archive_owner(archive.key) not in busy]
    count, chosen = choose(quiet, sample, rng or random.SystemRandom())
    if free_bytes is not None:
        check_room(chosen, free_bytes)
    trials = []
    for number, key in enumerate((ArchiveKey(archive.key) for archive in chosen), 1):
        say(f"{number} of {len(chosen)}: {key}")
        trials.append(await _try(backend, key, stalled_seconds))
    return Report(count, trials)


async def _try(backend: Backend, key: ArchiveKey, stalled_seconds: float) -> Trial:
    identity, op_id, volume = scratch_id(), OpId(uuid4()), VolumeRef(Incarnation(str(uuid4())), None)
    loop = asyncio.get_running_loop()
    began = loop.time()
    seen: JobSeen | None = None
    trouble = ""
    try:
        await backend.volumes.create(identity, volume.incarnation)
        await backend.jobs.restore(identity, op_id, key, volume)
        seen = await _ended(backend, identity, op_id, stalled_seconds)
        if seen.state is not JobState.SUCCEEDED or seen.restore_marker != key:
            trouble = seen.message or "The job failed."
    except (CodeHubError, TimeoutError) as error:
        trouble = str(error) or f"It made no progress for {stalled_seconds:.0f} s."
    finally:
        seconds = loop.time() - began
        left = await _clear(backend, identity, op_id, volume)
    done = (seen.bytes_done, seen.files_done) if seen is not None else (0, 0)
    return Trial(key, seconds, *done, trouble=" ".join(filter(None, (trouble, left))))


async def _ended(backend: Backend, identity: WorkspaceId, op_id: OpId, stalled_seconds: float) -> JobSeen:
    """The job once it has ended; TimeoutError when it stands still."""
    loop = asyncio.get_running_loop()
    moved_at, last = loop.time(), (-1, -1)
    while True:
        jobs = (await backend.jobs.observe()).get(identity, ())
        seen = next((job for job in jobs if job.op_id == op_id), None)
        if seen is not None and seen.state is not JobState.RUNNING:
            return seen
        now = (seen.bytes_done, seen.files_done) if seen is not None else (-1, -1)
        if now != last:
            moved_at, last = loop.time(), now
        elif loop.time() - moved_at > stalled_seconds:
            raise TimeoutError
        await asyncio.sleep(_LOOK_SECONDS)


async def _clear(backend: Backend, identity: WorkspaceId, op_id: OpId, volume: VolumeRef) -> str:
    """Remove the scratch; what is left, in words."""
    try:
        await backend.jobs.remove(identity, op_id)
        await backend.volumes.delete(identity, volume)
    except (CodeHubError, TimeoutError) as error:
        return f"The scratch volume of {identity} is left: {error}"
    return ""


async def clear_leftovers(backend: Backend) -> int:
    """Remove what interrupted drills left; not while one runs."""
    for identity, jobs in (await backend.jobs.observe()).items():
        for job in jobs if is_scratch(identity) else ():
            await backend.jobs.remove(identity, job.op_id)
    count = 0
    for identity, seen in (await backend.volumes.observe()).items():
        if is_scratch(identity):
            await backend.volumes.delete(identity, seen.ref)
            count += 1
    return count
