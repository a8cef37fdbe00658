"""Keeps a reserve free on the disk of the homes: stops what grows fastest and archives what stands by (model/disk.py).

That nothing is started meanwhile is the driver's part: it looks at the disk before each start. The rest is asked for
here as TTLs ask, by compare-and-set, so whatever happened since a row was read wins.
"""

from collections.abc import Mapping

import structlog

from codehub.coordinator.ports import Expiration, ReserveRecords
from codehub.drivers.base import Backend
from codehub.model.disk import relief
from codehub.model.workspace import InstanceBackend, Phase, WorkspaceId

log = structlog.get_logger(__name__)

LOOK_SECONDS = 10.0


class DiskReserve:
    """One run: look at each disk, and relieve those whose reserve is touched."""

    def __init__(self, records: ReserveRecords, backends: Mapping[InstanceBackend, Backend]) -> None:
        self._records = records
        self._backends = {name: backend for name, backend in backends.items() if backend.disk is not None}
        self._sizes: dict[InstanceBackend, Mapping[WorkspaceId, int]] = {}
        self.shortages: dict[InstanceBackend, str] = {}

    async def run_once(self) -> bool:
        for name, backend in self._backends.items():
            assert backend.disk is not None
            shortage = await backend.disk.shortage()
            if shortage is None:
                if self.shortages.pop(name, None) is not None:
                    log.info("the disk has room again", backend=name)
                self._sizes.pop(name, None)
                continue
            if name not in self.shortages:
                log.warning("the disk is almost full; nothing is started", backend=name, cause=shortage)
            self.shortages[name] = shortage
            await self._relieve(name, backend)
        return False

    async def _relieve(self, name: InstanceBackend, backend: Backend) -> None:
        assert backend.disk is not None
        workspaces = await self._records.settled_on(name)
        running = [each.id for each in workspaces if each.status.phase is Phase.RUNNING]
        sizes = await backend.disk.home_sizes(running)
        before = self._sizes.get(name, {})
        self._sizes[name] = sizes
        growth = {each: size - before[each] for each, size in sizes.items() if each in before}
        asked = relief(workspaces, growth, await self._records.now())
        if asked and (written := await self._records.expire([Expiration(*each) for each in asked])):
            log.warning("workspaces step down because the disk is almost full", backend=name, count=written)
