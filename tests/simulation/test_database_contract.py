"""The database in memory means what PostgreSQL means: the same random histories on both, compared after each step."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from codehub.coordinator.ports import Asked, Expiration, Reading
from codehub.coordinator.records import DatabaseRecords
from codehub.db import leadership
from codehub.db.pool import Connection
from codehub.db.statuses import HistoryEntry, StatusChange
from codehub.errors import StaleLeader
from codehub.model.names import archive_key, parse_archive_key
from codehub.model.ttl import Transition
from codehub.model.workspace import Desired, OpId, Workspace, WorkspaceId
from tests.db.wishing import set_desired
from tests.simulation import random_rows
from tests.simulation.database import MemoryDatabase
from tests.support import first_of

ROWS, STEPS = 40, 60
_NEAR = timedelta(seconds=60)  # what both call "now"


@dataclass
class Both:
    """Does everything twice, and compares."""

    rng: Random
    owner: Connection
    real: DatabaseRecords
    now: datetime
    memory: MemoryDatabase = field(init=False)

    def __post_init__(self) -> None:
        self.memory = MemoryDatabase(lambda: self.now)

    async def step(self) -> None:
        self.now = await self.real.now()
        steps = (
            self._read, self._read, self._commit, self._commit, self._commit, self._finish, self._expire, self._touch,
            self._known, self._lead, self._wish, self._remembered, self._forget,
        )  # fmt: skip
        await self.rng.choice(steps)()
        await self._compare()

    def _ids(self, most: int = 8) -> list[WorkspaceId]:
        ids = sorted(self.memory.rows)
        return [*self.rng.sample(ids, self.rng.randint(0, most)), WorkspaceId(random_rows.uuid(self.rng))]

    def _after(self) -> WorkspaceId | None:
        return self.rng.choice([None, *sorted(self.memory.rows)])

    async def _read(self) -> None:
        asked = Asked(
            limit=self.rng.choice((0, 1, 5, 100)),
            after=self._after(),
            but=self._ids(),
            sweep_limit=self.rng.choice((0, 1, 5, 100)),
            sweep_after=self._after(),
            ids=self._ids(),
        )
        real, memory = await self.real.read(asked), await self.memory.read(asked)
        assert _ids(real) == _ids(memory)

    async def _commit(self) -> None:
        """Some decided from what is there, some from what was."""
        changes = []
        for identity in self._ids():
            was = self.memory.rows.get(identity) or random_rows.row(self.rng, self.now)
            made = random_rows.status(self.rng, was.id, self.now)
            if self.rng.random() < 0.3:
                was = replace(was, status=random_rows.status(self.rng, was.id, self.now))
            if self.rng.random() < 0.2:
                was = replace(was, wish=replace(was.wish, desired_state=self.rng.choice(list(Desired))))
            if self.rng.random() < 0.2:
                was = replace(was, wish=replace(was.wish, deleted_at=self.now - timedelta(hours=1)))
            changes.append(StatusChange(was, made))
        history = [
            HistoryEntry(workspace_id=each.was.id, at=self.now, phase=each.now.phase, operation=each.now.operation)
            for each in changes
        ]
        epoch = self.memory.epoch - self.rng.choice((0, 0, 0, 1))
        assert await _answer(self.real.commit(epoch, changes, history)) == await _answer(
            self.memory.commit(epoch, changes, history)
        )

    async def _finish(self) -> None:
        ids = self._ids(40)
        assert await self.real.finish_deletions(ids) == await self.memory.finish_deletions(ids)

    async def _expire(self) -> None:
        limit = self.rng.choice((1, 3, 100))
        real, memory = await self.real.due(limit), await self.memory.due(limit)
        assert [(each.was.id, each.transition) for each in real] == [(each.was.id, each.transition) for each in memory]
        some = [each for each in memory if self.rng.random() < 0.7]
        for identity in self._ids(3):
            if identity in self.memory.rows and identity not in {each.was.id for each in some}:
                transition = Transition(self.rng.choice((Desired.STANDBY, Desired.ARCHIVED)), self.now, "a test")
                some.append(Expiration(self._perhaps_older(self.memory.rows[identity]), transition))
        assert await self.real.expire(some) == await self.memory.expire(some)

    def _perhaps_older(self, row: Workspace) -> Workspace:
        changed: dict[str, Any] = self.rng.choice(
            ({}, {"last_access_at": None}, {"keep_awake_until": self.now}, {"standby_ttl_seconds": 61})
        )
        return replace(row, wish=replace(row.wish, **changed))

    async def _touch(self) -> None:
        near = {identity: random_rows.time_near(self.rng, self.now) for identity in self._ids()}
        ages = {identity: max(0.0, (self.now - at).total_seconds()) for identity, at in near.items()}
        assert await self.real.touch(ages) == await self.memory.touch(ages)

    async def _known(self) -> None:
        after, limit = self._after(), self.rng.choice((1, 7, 100))
        assert list(await self.real.known(after, limit)) == list(await self.memory.known(after, limit))
        sources = {row.source_archive for row in self.memory.rows.values() if row.source_archive is not None}
        keys = sorted(key for key in sources if self.rng.random() < 0.5)
        ids = self._ids()
        real, memory = await self.real.known_of(ids, keys), await self.memory.known_of(ids, keys)
        assert sorted(real, key=lambda known: known.id) == sorted(memory, key=lambda known: known.id)

    async def _remembered(self) -> None:
        keys = [key for key in sorted(self.memory.archive_operations) if self.rng.random() < 0.5]
        keys.append(archive_key(WorkspaceId(random_rows.uuid(self.rng)), OpId(random_rows.uuid(self.rng))))
        assert await self.real.remembered(keys) == await self.memory.remembered(keys)
        assert await self.real.remembers_since() <= self.now

    async def _forget(self) -> None:
        """All of a sudden most of them are old; what workspaces have or do stays."""
        long_ago = timedelta(days=8)
        for key in [key for key in sorted(self.memory.archive_operations) if self.rng.random() < 0.7]:
            name = parse_archive_key(key)
            self.memory.archive_operations[key] -= long_ago
            await self.owner.execute(
                "UPDATE archive_operations SET begun_at = begun_at - %s WHERE workspace_id = %s AND op_id = %s",
                [long_ago, name.workspace_id, name.op_id],
            )
        after, limit = None, self.rng.choice((3, 100))
        while page := list(await self.real.old_operations(after, limit)):
            assert page == list(await self.memory.old_operations(after, limit))
            after = page[-1]
        some = [key for key in sorted(self.memory.archive_operations) if self.rng.random() < 0.5]
        await self.real.forget(some)
        await self.memory.forget(some)

    async def _lead(self) -> None:
        self.memory.epoch = await leadership.bump_epoch(self.owner, "a test")

    async def _wish(self) -> None:
        row = self._perhaps_older(self.memory.rows[self.rng.choice(sorted(self.memory.rows))])
        if self.rng.random() < 0.3:
            row = replace(row, wish=replace(row.wish, desired_state=self.rng.choice(list(Desired))))
        desired = self.rng.choice(list(Desired))
        real = await set_desired(self.owner, desired, was=row, asked_by="")
        assert real == self.memory.set_desired(desired, was=row)

    async def _compare(self) -> None:
        """Every row is the same, but for what each called now; from then on both go by PostgreSQL's."""
        ids = sorted(self.memory.rows)
        reading = await self.real.read(Asked(limit=0, ids=ids))
        assert [row.id for row in reading.named] == ids
        for row in reading.named:
            mine = self.memory.rows[row.id]
            times = {
                name: (getattr(mine.wish, name), getattr(row.wish, name)) for name in ("deleted_at", "last_access_at")
            }
            for name, (here, there) in times.items():
                if here is not None and there is not None and abs(here - there) < _NEAR:
                    mine = replace(mine, wish=replace(mine.wish, **{name: there}))
            assert row == mine
            self.memory.adopt(row)
        kept = await (await self.owner.execute("SELECT workspace_id, op_id FROM archive_operations")).fetchall()
        assert {archive_key(*ids) for ids in kept} == set(self.memory.archive_operations)


def _ids(reading: Reading) -> tuple[list[WorkspaceId], ...]:
    return tuple([row.id for row in rows] for rows in (reading.needing, reading.swept, reading.named))


async def _answer(asked: Any) -> Any:
    try:
        return await asked
    except StaleLeader:
        return "stale"


@pytest.mark.parametrize("seed", first_of(range(4)))
async def test_memory_and_postgresql_agree(seed: int, records: DatabaseRecords, owner: Connection) -> None:
    rng = Random(f"{seed}/contract")
    both = Both(rng, owner, records, await records.now())
    for _ in range(ROWS):
        row = random_rows.row(rng, both.now)
        await random_rows.put(owner, row)
        both.memory.insert(row)
    for _ in range(STEPS):
        await both.step()
    written = await (await owner.execute("SELECT count(*) FROM workspace_history")).fetchone()
    assert written == (len(both.memory.history),)
