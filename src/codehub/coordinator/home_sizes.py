"""Measures homes on disk, rarely, and leaves their sizes for whoever shows them (signals/usage.py).

One that runs is measured every few minutes, one that stands by once: nobody writes there. To measure is to read every
folder of a home, so it is done gently, and what it takes decides when the next may be measured. Where no disk is
ours to look at (drivers.base.Backend.disk), sizes are not known.
"""

import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from codehub.coordinator.ports import HomeSizeKeeper, SettledRecords
from codehub.drivers.base import Backend, Disk
from codehub.errors import DriverError
from codehub.model.disk import Scarce
from codehub.model.workspace import InstanceBackend, Phase, Workspace, WorkspaceId
from codehub.signals.usage import HomeSize

log = structlog.get_logger(__name__)

LOOK_SECONDS = 15.0
_AGAIN_SECONDS = 300.0
_REST = 20  # times what the last measuring took
_AT_MOST = 20  # homes in one go


class HomeSizes:
    """One look each time it is asked to."""

    def __init__(
        self,
        records: SettledRecords,
        backends: Mapping[InstanceBackend, Backend],
        keeper: HomeSizeKeeper,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._disks = {name: backend.disk for name, backend in backends.items() if backend.disk is not None}
        self._keeper = keeper
        self._clock = clock
        # When each was measured, and whether it ran then.
        self._measured: dict[InstanceBackend, dict[WorkspaceId, tuple[float, bool]]] = {
            each: {} for each in self._disks
        }
        self._rest_until = dict.fromkeys(self._disks, 0.0)

    async def measure(self) -> None:
        for name, disk in self._disks.items():
            if self._clock() >= self._rest_until[name]:
                await self._look(name, disk)

    async def _look(self, name: InstanceBackend, disk: Disk) -> None:
        due = self._due(name, await self._records.settled_on(name))
        if not due:
            return
        now, began = await self._records.now(), self._clock()
        try:
            sizes = await disk.home_sizes(due.keys(), Scarce.BYTES, gently=True)
        except DriverError as error:
            log.debug("homes not measured", backend=name, cause=str(error))
            return
        ended = self._clock()
        self._rest_until[name] = ended + _REST * (ended - began)
        self._measured[name] |= {each: (began, due[each]) for each in sizes}
        if sizes:
            await self._keeper.leave_homes({each: HomeSize(now, size) for each, size in sizes.items()})

    def _due(self, name: InstanceBackend, settled: Sequence[Workspace]) -> Mapping[WorkspaceId, bool]:
        """Whether each of them runs; those that wait for it longest come first."""
        runs = {each.id: each.status.phase is Phase.RUNNING for each in settled}
        measured = self._measured[name] = {each: was for each, was in self._measured[name].items() if each in runs}
        late = self._clock() - _AGAIN_SECONDS

        def is_due(each: WorkspaceId) -> bool:
            if each not in measured:
                return True
            at, ran = measured[each]
            return at <= late if runs[each] else ran

        due = sorted(filter(is_due, runs), key=lambda each: measured[each][0] if each in measured else float("-inf"))
        return {each: runs[each] for each in due[:_AT_MOST]}
