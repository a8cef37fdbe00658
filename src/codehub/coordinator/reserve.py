"""Keeps a reserve free on the disk of the homes: stops whoever takes it and archives what stands by (model/disk.py).

That nothing is started meanwhile is the driver's part: it looks at the disk before each start. The rest is asked for
here as TTLs ask, by compare-and-set, so whatever happened since a row was read wins.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from codehub.coordinator.ports import Expiration, ReserveRecords
from codehub.drivers.base import Backend, Disk
from codehub.model.disk import PATIENCE, HomeUse, Scarce, relief
from codehub.model.workspace import Desired, InstanceBackend, Phase, Workspace, WorkspaceId

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
_NEAR_LOOKS = timedelta(minutes=1)  # homes are measured so rarely while it is merely near: that costs


@dataclass(slots=True)
class _State:
    """What is known of one disk from earlier looks."""

    scarce: Scarce | None = None  # what sizes are of
    before: Mapping[WorkspaceId, int] = field(default_factory=dict)  # sizes that growth is counted from
    measured: datetime | None = None
    since: datetime | None = None  # touched, or relieved of the largest


class DiskReserve:
    """One run: look at each disk, and relieve those whose reserve is touched."""

    def __init__(self, records: ReserveRecords, backends: Mapping[InstanceBackend, Backend]) -> None:
        self._records = records
        self._disks = {name: backend.disk for name, backend in backends.items() if backend.disk is not None}
        self._states = {name: _State() for name in self._disks}
        self.shortages: dict[InstanceBackend, str] = {}

    async def run_once(self) -> bool:
        for name, disk in self._disks.items():
            pressure = await disk.pressure()
            if pressure.shortage is None and self.shortages.pop(name, None) is not None:
                log.info("the disk has room again", backend=name)
                self._states[name] = _State()
            if pressure.shortage is not None:
                if name not in self.shortages:
                    log.warning("the disk is almost full; nothing is started", backend=name, cause=pressure.shortage)
                self.shortages[name] = pressure.shortage
            if pressure.scarce is None:
                self._states[name] = _State()
            else:
                await self._look(name, disk, pressure.scarce, is_short=pressure.shortage is not None)
        return False

    async def _look(self, name: InstanceBackend, disk: Disk, scarce: Scarce, *, is_short: bool) -> None:
        state, now = self._states[name], await self._records.now()
        if state.scarce is not scarce:
            state = self._states[name] = _State(scarce)
        if not is_short and state.measured is not None and now < state.measured + _NEAR_LOOKS:
            return
        workspaces = await self._records.settled_on(name)
        running = [each.id for each in workspaces if each.status.phase is Phase.RUNNING]
        sizes = await disk.home_sizes(running, scarce)
        known = {each: size for each, size in sizes.items() if size is not None}
        state.measured = now
        if not is_short:
            state.before = known
            return
        state.before = {**known, **state.before}
        uses = {each: _use(size, state.before.get(each, 0)) for each, size in sizes.items()}
        if await self._relieve(name, workspaces, uses, scarce, now):
            state.before = known

    async def _relieve(
        self,
        name: InstanceBackend,
        workspaces: Sequence[Workspace],
        uses: Mapping[WorkspaceId, HomeUse | None],
        scarce: Scarce,
        now: datetime,
    ) -> bool:
        """Whether one that runs is to stop."""
        state = self._states[name]
        state.since = state.since or now
        is_lasting = now >= state.since + PATIENCE
        asked = relief(workspaces, uses, scarce, now, is_lasting=is_lasting)
        is_stopping = any(transition.to is Desired.STANDBY for _, transition in asked)
        if is_lasting and is_stopping:
            state.since = now
        if asked and (written := await self._records.expire([Expiration(*each) for each in asked])):
            log.warning("workspaces step down because the disk is almost full", backend=name, count=written)
        return is_stopping


def _use(size: int | None, before: int) -> HomeUse | None:
    return HomeUse(size, size - before) if size is not None else None
