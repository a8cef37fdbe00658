"""Workspaces as local processes, for machines without a container engine: folders as homes, bubblewrap as sandbox.

`ProcessDriver.open` finds out what the machine allows; `isolation()` says it in plain words, for start-up output and
/readyz. Everything that runs outlives us and is adopted from the records below the driver's folder (layout.py).
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from codehub.drivers.base import Backend
from codehub.drivers.ide import AllowList
from codehub.drivers.process.disk import Disk
from codehub.drivers.process.home_processes import HomeProcesses
from codehub.drivers.process.homes import Homes
from codehub.drivers.process.instances import Instances, remove_unnamed_sockets
from codehub.drivers.process.jobs import Jobs, Urls
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.machine import Machine, Options
from codehub.drivers.process.notes import Notes
from codehub.drivers.process.old_scripts import remove_old_scripts
from codehub.drivers.process.threads import Threads
from codehub.drivers.process.volumes import Volumes
from codehub.errors import Unreachable
from codehub.model.workspace import ArchiveKey

__all__ = ["Options", "ProcessDriver"]


class ProcessDriver:
    """Instances, volumes and jobs of one installation. Any number of processes may have one open on the same folder."""

    def __init__(self, machine: Machine, allowed: AllowList, ides: Path, urls: Callable[[ArchiveKey], Urls]) -> None:
        self._machine = machine
        self._threads = Threads()
        homes = Homes(machine.layout, machine.users, machine.quotas)
        self.disk = Disk(machine.reserve, homes, Notes(machine.layout), self._threads)
        self.instances = Instances(machine, homes, allowed, ides, self._threads)
        processes = HomeProcesses(machine)
        self.volumes = Volumes(machine.layout, homes, machine.reserve, processes, self._threads)
        self.jobs = Jobs(machine, homes, processes, urls, self._threads)

    @classmethod
    def open(
        cls, options: Options, allowed: AllowList, ides: Path, urls: Callable[[ArchiveKey], Urls]
    ) -> "ProcessDriver":
        """`ides`: where IDEs are installed; `urls`: ArchiveStore.job_urls. Raises StartError where nothing can run."""
        layout = Layout(options.root)
        layout.prepare()
        machine = Machine(options, layout)
        machine.find_out()
        threading.Thread(target=_tidy, args=(layout, machine.copies), name="tidy", daemon=True).start()
        return cls(machine, allowed, ides, urls)

    @property
    def backend(self) -> Backend:
        return Backend(self.instances, self.volumes, self.jobs, self.disk)

    def isolation(self) -> list[str]:
        """What keeps workspaces apart on this machine, and what does not."""
        return self._machine.isolation()

    def close(self) -> None:
        """What runs goes on running."""
        self._threads.close()
        self._machine.close()


def _tidy(layout: Layout, copies: Sequence[Path]) -> None:
    """What earlier processes have left behind; nobody waits for it, and the next start tries again."""
    with suppress(OSError):
        layout.empty_trash()
    with suppress(Unreachable):
        remove_unnamed_sockets(layout)
    with suppress(Unreachable, OSError):
        remove_old_scripts(layout, *copies)
