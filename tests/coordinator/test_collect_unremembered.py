"""What the database does not remember is kept until an administrator decides, and what it remembers does not grow."""

import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.coordinator.collect import Collector
from codehub.coordinator.records import DatabaseRecords
from codehub.db import archive_operations
from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.errors import Conflict, NotAllowed, NotFound
from codehub.model.gc import GcRules
from codehub.model.names import archive_key, parse_archive_key
from codehub.model.workspace import OpId, WorkspaceId
from codehub.services import administering
from codehub.services.actors import Actor, ActorKind, UserRole
from codehub.signals.connect import Redis
from tests.coordinator.collecting import LONG_AGO, Store, Watched, nobody_objects
from tests.db.support import OWNER, change

ADMIN = Actor(user_id=OWNER, username="admin", role=UserRole.ADMIN, kind=ActorKind.USER, credential_id="a test")


@pytest.fixture
def store(owner: Connection, records: DatabaseRecords, redis: Redis) -> Store:
    return Store(owner, redis, Watched(records))


@pytest.fixture
async def api_pool(database: str) -> AsyncIterator[Pool]:
    async with open_pool(database, Role.API, max_size=2) as pool:
        yield pool


async def remembered(conn: Connection) -> set[tuple[UUID, UUID]]:
    rows = await (await conn.execute("SELECT workspace_id, op_id FROM archive_operations")).fetchall()
    return set(rows)


async def grow_old(conn: Connection) -> None:
    await conn.execute("UPDATE archive_operations SET begun_at = now() - interval '8 days'")


async def test_what_is_not_remembered_stays_and_is_told(store: Store) -> None:
    identity, present = await store.add()
    lost = store.put(identity)
    store.world.stored[present].modified_at += timedelta(seconds=1)
    await store.waited(lost)
    report = await store.collector.collect()
    assert (report.unremembered, report.orphans, report.deleted, report.stopped) == ((lost,), 0, 0, None)
    assert set(store.world.stored) == {present, lost}
    assert await store.timers.all() == {}
    assert (await store.collector.collect(override=True, unknown_too=True)).deleted == 0


async def test_a_database_that_went_back_in_time_after_the_look_deletes_nothing(store: Store) -> None:
    old, _ = await store.superseded()

    async def failover() -> None:
        await store.owner.execute("DELETE FROM archive_operations")

    store.records.after_remembered = failover
    report = await store.collector.collect()
    assert (report.due, report.deleted, report.spared) == ((old,), 0, 1)
    assert old in store.world.stored


async def test_what_was_discarded_goes_after_the_ordinary_delay(store: Store, api_pool: Pool) -> None:
    identity, present = await store.add()
    lost = store.put(identity)
    store.world.stored[present].modified_at += timedelta(seconds=1)
    await store.waited(lost)
    await store.collector.collect()
    await administering.discard_archives(api_pool, ADMIN, [lost])
    await administering.discard_archives(api_pool, ADMIN, [lost])
    report = await store.collector.collect()
    assert (report.unremembered, report.orphans, report.deleted) == ((), 1, 0)
    await store.timers.clear([lost])
    await store.waited(lost)
    assert (await store.collector.collect()).deleted == 1
    assert set(store.world.stored) == {present}
    row = await (
        await store.owner.execute("SELECT workspace_id, details FROM audit_log WHERE action = 'gc.discard' LIMIT 1")
    ).fetchone()
    assert row == (identity, {"archive": lost})


async def test_a_workspaces_archive_and_a_strangers_are_not_discarded(store: Store, api_pool: Pool) -> None:
    identity, present = await store.add()
    with pytest.raises(Conflict):
        await administering.discard_archives(api_pool, ADMIN, [store.put(identity), present])
    unknown = archive_key(WorkspaceId(uuid4()), OpId(uuid4()))
    with pytest.raises(NotFound, match="knows no workspace"):
        await administering.discard_archives(api_pool, ADMIN, [unknown])
    user = Actor(user_id=OWNER, username="u", role=UserRole.USER, kind=ActorKind.USER, credential_id="a test")
    with pytest.raises(NotAllowed):
        await administering.discard_archives(api_pool, user, [store.put(identity)])
    assert len(await remembered(store.owner)) == 1


async def test_what_was_deleted_is_forgotten(store: Store) -> None:
    old, present = await store.superseded()
    assert len(await remembered(store.owner)) == 2
    assert (await store.collector.collect()).deleted == 1
    kept = parse_archive_key(present)
    assert await remembered(store.owner) == {(kept.workspace_id, kept.op_id)}
    assert old not in store.world.stored


async def test_what_left_no_archive_is_forgotten_after_days_but_never_what_a_row_is_doing(store: Store) -> None:
    identity, present = await store.add()
    making, failed = OpId(uuid4()), OpId(uuid4())
    await archive_operations.add(store.owner, [archive_key(identity, failed)])
    await change(store.owner, identity, operation="ARCHIVING", op_id=making, phase="STANDBY")
    orphan = await store.put_remembered(identity)
    expected = {(identity, op_id) for op_id in (parse_archive_key(present).op_id, making, failed)}
    expected.add((identity, parse_archive_key(orphan).op_id))
    await store.collector.collect()
    assert await remembered(store.owner) == expected, "not at once: an upload may take long"
    await grow_old(store.owner)
    await store.collector.collect(dry_run=True)
    assert await remembered(store.owner) == expected
    await store.collector.collect()
    assert await remembered(store.owner) == expected - {(identity, failed)}


async def test_nothing_is_forgotten_while_the_store_looks_empty(store: Store) -> None:
    for _ in range(12):
        await store.superseded()
    before = await remembered(store.owner)
    await grow_old(store.owner)
    store.world.stored.clear()
    await store.collector.collect()
    assert await remembered(store.owner) == before


@dataclass(frozen=True)
class Watching(GcRules):
    """Rules that note which threads ask them."""

    asked_in: set[int] = field(default_factory=set)

    def __getattribute__(self, name: str) -> Any:
        if name in ("trash_retention", "orphan_delay", "implausible_count"):
            object.__getattribute__(self, "asked_in").add(threading.get_ident())
        return object.__getattribute__(self, name)


async def test_a_whole_store_is_sorted_beside_the_loop(store: Store) -> None:
    """The leader's tick goes on meanwhile."""
    await store.superseded()
    _, expired = await store.add(phase="DELETING", desired_state="DELETED", deleted_at=LONG_AGO)
    await store.waited(expired)
    rules = Watching()
    collector = Collector(
        store.records,
        store.world.archives,
        store.timers,
        store.leader,
        rules,
        on_change=store.changed.extend,
        refusal=nobody_objects,
    )
    report = await collector.collect(dry_run=True)
    assert len(report.due) == 2
    assert rules.asked_in
    assert threading.get_ident() not in rules.asked_in
