"""What a driver's owner supplies so that the one contract suite can be run against it.

A driver called NAME is in the suite when tests/contract/harness_NAME.py exists and has `open_harness`, an asynchronous
context manager of the type `Opener`. It is opened once per store and closed at the end of the run; every test works on
workspaces of its own (random ids), so tests share it without seeing each other. Where the machine lacks what the
driver needs, `open_harness` calls tests.support.missing.

A harness acts from outside, behind the driver's back: it never goes through the driver it is for.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Protocol

from codehub.drivers.archives import ArchiveStore
from codehub.drivers.base import Archives, Backend
from codehub.model.workspace import WorkspaceId


class Skill(Enum):
    """What a harness may be unable to do; a test that needs it is then skipped, with the reason shown."""

    OUTAGE = auto()  # make the engine unreachable, and reachable again
    CLUTTER = auto()  # leave things lying around that are not ours
    PROCESSES = auto()  # count the living processes of an instance
    LONG_JOBS = auto()  # make a job that runs until it is removed, or at least for many seconds
    USAGE = auto()  # the engine measures what an instance uses
    EVENTS = auto()  # the driver has an event stream that shows changes


@dataclass(frozen=True)
class Images:
    """References that the driver under test was told about."""

    quick: str  # a tiny workspace that answers HTTP within a second and has a child process or two
    missing: str  # in the allow-list, and cannot be had
    forbidden: str = "not-in-the-allow-list"


class Harness(Protocol):
    """One backend on this machine, with one store that its jobs use."""

    @property
    def name(self) -> str: ...

    @property
    def backend(self) -> Backend:
        """The driver under test; the same object every time."""
        ...

    @property
    def archives(self) -> Archives:
        """The store its jobs write to."""
        ...

    @property
    def images(self) -> Images: ...

    @property
    def skills(self) -> frozenset[Skill]: ...

    def another(self) -> Backend:
        """A second driver over the same infrastructure that remembers nothing: a new process's point of view."""
        ...

    async def write_home(self, workspace_id: WorkspaceId, files: Mapping[str, bytes]) -> None:
        """Put these files (relative paths, folders are made) in the volume that is there now."""
        ...

    async def read_home(self, workspace_id: WorkspaceId) -> Mapping[str, bytes]:
        """Every regular file of the home by its relative path, whatever wrote it; {} for an empty one."""
        ...

    async def kill_instance(self, workspace_id: WorkspaceId) -> None:
        """SIGKILL what the instance runs, and leave everything else about it as it then is."""
        ...

    async def lose_volume(self, workspace_id: WorkspaceId) -> None:
        """Take the volume away with all that is in it, as an accident would."""
        ...

    async def instance_processes(self, workspace_id: WorkspaceId) -> int:
        """How many living processes belong to its instance, children that left its session included. PROCESSES."""
        ...

    async def make_jobs_long(self, workspace_id: WorkspaceId) -> None:
        """From now on an archive job of this workspace does not end by itself for many seconds. LONG_JOBS."""
        ...

    async def clutter(self) -> None:
        """Leave things there that look a bit like ours and are not: bad ids, no labels, files. CLUTTER."""
        ...

    async def break_engine(self) -> None:
        """Nothing of the engine answers, for the driver under test and for another(). OUTAGE."""
        ...

    async def mend_engine(self) -> None:
        """It answers again; nothing was lost meanwhile."""
        ...


Opener = Callable[[Path, ArchiveStore], AbstractAsyncContextManager[Harness]]
"""Takes an empty folder of its own (mode 0755, short enough for sockets) and the store that its jobs are to use.

The store is handed to jobs by `store.job_urls(key)`; see codehub.drivers.archives.
"""
