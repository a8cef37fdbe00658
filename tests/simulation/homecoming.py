"""The end of every story: each owner gets into each workspace, with nobody's help.

They do what the page offers: take a deletion back, recover without force, ask for RUNNING. A blank home is what they
take, and force, only where nothing was there or an accident took it.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from codehub.errors import Unavailable
from codehub.model.names import parse_archive_key
from codehub.model.observation import Life
from codehub.model.workspace import Desired, Operation, Phase, RecoverFrom, Workspace, WorkspaceId
from tests.simulation.ledger import NOTHING, Ledger, version_of
from tests.simulation.people import People
from tests.simulation.process import Shared

BOUND_SECONDS = 1800.0  # a home is restored within minutes; its job may have to be made again
LOOK_SECONDS = 10.0
_WAYS = (RecoverFrom.AS_IS, RecoverFrom.VOLUME, RecoverFrom.ARCHIVE)


@dataclass
class Homecoming:
    shared: Shared
    ledger: Ledger
    people: People
    may_adopt: bool  # an administrator, of what rows do not name since the database went back by itself
    _home: set[WorkspaceId] = field(default_factory=set)
    _tried: dict[WorkspaceId, int] = field(default_factory=dict)

    async def run(self) -> None:
        waited = 0.0
        while left := [row for row in self.shared.database.rows.values() if not self._is_home(row)]:
            if self.may_adopt and waited >= BOUND_SECONDS / 2:
                left = [row for row in left if not self._adopted(row)]
            if left and waited >= BOUND_SECONDS:
                status = left[0].status
                self.ledger.fail(
                    f"stuck: {len(left)} owners cannot get in: {status.phase} {status.operation} {status.error_reason}",
                    left[0].id,
                )
            for row in left:
                with suppress(Unavailable):
                    await self._knock(self.shared.database.rows[row.id])
            await asyncio.sleep(LOOK_SECONDS)
            self.ledger.check_all()
            waited += LOOK_SECONDS

    def _is_home(self, row: Workspace) -> bool:
        if row.id in self._home or self._is_gone(row):
            return True
        instance = self.ledger.surroundings.of(row).instances.get(row.id)
        runs = row.status.phase is Phase.RUNNING and row.status.operation is Operation.NONE
        if not runs or instance is None or instance.life is not Life.READY:
            return False
        if instance.endpoint != row.status.endpoint:
            return False
        expectation, shown = self.ledger.expected[row.id], version_of(instance.volume.home)
        if shown != expectation.newest and not expectation.damaged and not expectation.travelled:
            self.ledger.fail(f"its owner comes home to {shown}, and {expectation.newest} is the newest", row.id)
        self._home.add(row.id)
        return True

    def _adopted(self, row: Workspace) -> bool:
        """`codehub adopt`: a new workspace from an archive of a future that this row knows nothing of."""
        newest = self.ledger.expected[row.id].newest
        for key, stored in self.ledger.surroundings.stored.items():
            mine = parse_archive_key(key).workspace_id == row.id and version_of(stored.home) == newest
            if mine and stored.has_meta and not stored.damaged and row.status.archive_key != key:
                self.ledger.trace.fault("adopted by an administrator", row.id, key[37:45])
                self.people.create(key)
                self._home.add(row.id)
                return True
        return False

    def _is_gone(self, row: Workspace) -> bool:
        """Whether it is deleted and cannot come back: whoever did that was told so."""
        wish, status = row.wish, row.status
        if wish.deleted_at is None:
            return False
        kept = wish.purged_at is None and self.shared.clock() <= wish.deleted_at + self.ledger.retention
        return status.phase is Phase.DELETED or not kept or status.archive_key is None

    async def _knock(self, row: Workspace) -> None:
        wish, status = row.wish, row.status
        if wish.desired_state is Desired.DELETED:
            await self.people.undelete(row)
        elif status.phase is Phase.ERROR:
            await self._recover(row)
        elif wish.desired_state is not Desired.RUNNING:
            await self.people.ask(row, Desired.RUNNING)

    async def _recover(self, row: Workspace) -> None:
        request = row.wish.recover_request
        if request is not None and request.id != row.status.recover_handled_id:
            return  # it is being answered
        expectation = self.ledger.expected[row.id]
        nothing_to_lose = expectation.newest == NOTHING or expectation.damaged or expectation.given_up
        ways = (*_WAYS, RecoverFrom.BLANK) if nothing_to_lose else _WAYS
        tried = self._tried[row.id] = self._tried.get(row.id, -1) + 1
        way = ways[tried % len(ways)]
        await self.people.recover(row, way, forced=way is RecoverFrom.BLANK)
