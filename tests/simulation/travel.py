"""The database goes back in time: a backup is restored, a snapshot is put back, or a failover loses the last commits.

A backup is restored as `codehub restore` does it: with the product's own code where it asks drivers and stores, and
with the meaning of its SQL (db/replacing.py, db/adopting.py) where it changes rows. A snapshot that is put back, and a
replica that is promoted, change nothing: the database is just older than the world.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime
from random import Random

from codehub.backup import adopting, standing
from codehub.db.adopting import Adoption
from codehub.db.replacing import EPOCHS_PER_RESTORE
from codehub.model.conditions import archive_adopted, stored
from codehub.model.gc import Memory
from codehub.model.names import archive_key
from codehub.model.workspace import Desired, HomeContext, Operation, OpId, Phase, VolumeState, Workspace
from tests.simulation.database import Moment
from tests.simulation.ledger import Ledger
from tests.simulation.process import Process, Shared

_RECENT_SECONDS = 60  # of commits that a failover may lose
_BACKUP_EVERY = 120  # seconds


@dataclass
class TimeMachine:
    shared: Shared
    ledger: Ledger
    rng: Random
    processes: list[Process]
    left_to_administrators: bool = False  # nobody ran `codehub restore`: what rows do not name is adopted by hand
    _recent: deque[Moment] = field(default_factory=lambda: deque(maxlen=_RECENT_SECONDS))
    _backups: list[Moment] = field(default_factory=list)
    _restoring: set[asyncio.Task[None]] = field(default_factory=set)

    async def remember(self) -> None:
        """For ever: a moment each second, and a backup each few minutes."""
        while True:
            for _ in range(_BACKUP_EVERY):
                self._recent.append(self.shared.database.moment())
                await asyncio.sleep(1.0)
            self._backups.append(self.shared.database.moment())

    async def settled(self) -> None:
        """Until no restore is under way."""
        while self._restoring:
            await asyncio.wait(self._restoring)

    def lose_commits(self) -> None:
        """An asynchronous replica is promoted."""
        if self._recent and not self._restoring:
            lost = self.rng.randint(1, len(self._recent))
            self.left_to_administrators = True
            self._go_back("commits lost", self._recent[-lost])
            self._gone_for(self.rng.uniform(5.0, 60.0))

    def put_back(self) -> None:
        """A snapshot of the database's disk; who is connected finds out by an error."""
        if self._backups and not self._restoring:
            self.left_to_administrators = True
            self._go_back("snapshot put back", self.rng.choice(self._backups))
            self._gone_for(self.rng.uniform(5.0, 60.0))

    def restore(self) -> None:
        """Everything is stopped, and `codehub restore` runs."""
        if self._backups and not self._restoring:
            task = asyncio.get_running_loop().create_task(self._restore(self.rng.choice(self._backups)))
            self._restoring.add(task)
            task.add_done_callback(self._restored)

    def _restored(self, task: asyncio.Task[None]) -> None:
        self._restoring.discard(task)
        if not task.cancelled():
            task.result()

    def _gone_for(self, seconds: float) -> None:
        self.shared.database.is_out = True
        self.shared.release(None)
        asyncio.get_running_loop().call_later(seconds, lambda: setattr(self.shared.database, "is_out", False))

    def _go_back(self, kind: str, moment: Moment) -> None:
        now = self.shared.database.clock()
        self.ledger.trace.fault(kind, None, f"{(now - moment.at).total_seconds():.0f} s")
        before = dict(self.shared.database.rows)
        self.shared.database.go_back(moment)
        self._recent.clear()
        self._backups = [backup for backup in self._backups if backup.at <= moment.at]
        rows = self.shared.database.rows
        self.shared.ids[:] = [identity for identity, row in rows.items() if row.status.phase is not Phase.DELETED]
        self.ledger.kept.went_back(before)

    # -- codehub restore ---------------------------------------------------------------------------------------------

    async def _restore(self, moment: Moment) -> None:
        for process in self.processes:
            process.gate.die()
        self.shared.is_restoring = self.shared.database.is_out = True
        self.shared.release(None)
        await self._answer()
        epoch = self.shared.database.epoch
        self._go_back("backup restored", moment)
        self._settle(epoch)
        try:
            await self._adopt(moment.at)
        finally:
            await asyncio.sleep(self.rng.uniform(1.0, 60.0))
            self.shared.is_restoring = self.shared.database.is_out = False

    async def _answer(self) -> None:
        """Whoever restores sees to it that engines and store answer: the report says so. What was asked has landed."""
        for world in self.shared.surroundings.everything:
            world.behave()
            world.land()
        await asyncio.sleep(1.0)  # so has what was slow
        for world in self.shared.surroundings.everything:
            world.behave()

    def _settle(self, epoch: int) -> None:
        """db/replacing.py: _FORGET and _SETTLE."""
        database, now = self.shared.database, self.shared.database.clock()
        database.epoch = max(database.epoch, epoch) + EPOCHS_PER_RESTORE
        for row in list(database.rows.values()):
            own = archive_key(row.id, row.status.op_id) if row.status.op_id is not None else None
            if own is not None and own != row.status.archive_key:
                database.archive_operations.pop(own, None)
            database.adopt(self._settled(row, now))

    def _settled(self, row: Workspace, now: datetime) -> Workspace:
        wish, status = row.wish, row.status
        if wish.deleted_at is not None and wish.purged_at is None:
            wish = replace(wish, deleted_at=now)
        if wish.deleted_at is None and wish.desired_state is Desired.RUNNING:
            wish = replace(wish, last_access_at=now)
        request = wish.recover_request
        if request is not None and request.id != status.recover_handled_id:
            wish = replace(wish, recover_request=None)
        if status.operation is not Operation.NONE:
            status = replace(
                status,
                operation=Operation.NONE,
                op_id=self._new_op_id(),
                home_ctx=replace(status.home_ctx, instance_op=None),
                op_started_at=None,
                retry_at=None,
                error_count=0,
                error_reason=status.error_reason if status.phase is Phase.ERROR else None,
            )
        if wish.deleted_at is None and status.home_ctx.volume is not VolumeState.LIVE:
            status = replace(status, home_ctx=_forgotten(status.home_ctx))
        return replace(row, wish=wish, status=status)

    def _new_op_id(self) -> OpId:
        return self.shared.new_op_id()

    async def _adopt(self, made_at: datetime) -> None:
        """cli/restored.py, backup/adopting.py and db/adopting.py."""
        database, archives = self.shared.database, self.shared.surroundings.store.archives
        self.shared.surroundings.bring_archives_back()
        database.is_out = False  # the restore itself is connected
        known = await database.known(None, len(database.rows) + 1)
        memory = Memory(set(database.archive_operations), await database.remembers_since())
        database.is_out = True
        found = await standing.compare(known, archives, made_at, memory)
        if found.trouble:
            self.ledger.trace.note(None, "the restore could not ask the store")
        contexts = {who: database.rows[who].status.home_ctx for who in found.adoptable}
        homes = await adopting.look_for_homes(self.shared.surroundings.backends(), contexts)
        wanted = {who: better for who, better in found.adoptable.items() if who not in homes.live}
        chosen = await adopting.choose(wanted, archives)
        for one in chosen.adoptions:
            row = database.rows[one.workspace]
            same = row.status.archive_key == one.old and row.status.operation is Operation.NONE
            if same and row.wish.purged_at is None:
                self.ledger.trace.note(row.id, f"it is given its newest archive {one.new[37:45]}")
                database.adopt(self._adopted(row, one, made_at, on_no_whole_volume=row.id in homes.absent))
                if database.rows[row.id].status.home_ctx.volume is VolumeState.LIVE:
                    database.archive_operations.pop(one.new, None)
        self.ledger.kept.adopted({one.workspace for one in chosen.adoptions})

    def _adopted(self, row: Workspace, one: Adoption, made_at: datetime, *, on_no_whole_volume: bool) -> Workspace:
        key, told = archive_adopted(one.archived_at, made_at, self.shared.database.clock())
        conditions = row.status.conditions
        status = replace(
            row.status,
            archive_key=one.new,
            conditions=replace(conditions, others={**conditions.others, key: stored(told)}),
        )
        if on_no_whole_volume and row.wish.deleted_at is None:
            status = replace(status, home_ctx=_forgotten(status.home_ctx))
        return replace(row, status=status)


def _forgotten(home: HomeContext) -> HomeContext:
    return replace(home, volume=VolumeState.NONE, incarnation=None, uid=None, restore_marker=None)
