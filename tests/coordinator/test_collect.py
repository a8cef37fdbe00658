"""The GC runner: what somebody needs is never deleted, and the rest only when its time has come."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
from codehub.model.names import archive_key
from codehub.model.workspace import OpId, WorkspaceId
from codehub.signals.connect import Redis
from tests.coordinator.collecting import LONG_AGO, Store, Watched, owner_of
from tests.db.support import add_workspace, change


@pytest.fixture
def store(owner: Connection, records: DatabaseRecords, redis: Redis) -> Store:
    return Store(owner, redis, Watched(records))


async def test_an_orphan_waits_and_then_goes_with_its_meta(store: Store) -> None:
    identity, kept = await store.add()
    orphan, half = await store.put_remembered(identity), await store.put_remembered(identity, complete=False)
    store.world.stored[kept].modified_at += timedelta(seconds=1)
    report = await store.collector.collect()
    assert (report.found, report.known, report.orphans, report.due, report.deleted) == (3, 1, 2, (), 0)
    assert set(await store.timers.all()) == {orphan, half}
    assert set(store.world.stored) == {kept, orphan, half}
    assert store.changed == []

    await store.timers.clear([orphan])
    await store.waited(orphan)
    report = await store.collector.collect()
    assert (report.due, report.deleted, report.failed, report.spared) == ((orphan,), 1, 0, 0)
    assert set(store.world.stored) == {kept, half}
    assert store.changed == [identity]
    assert set(await store.timers.all()) == {half}
    assert store.collector.last == report


# What protects: each row is a workspace whose only archive is there, and whether GC may take it.
CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "archive_key": ({}, False),
    "archive_key in ERROR": ({"phase": "ERROR", "error_reason": "Timeout"}, False),
    "stepping down for its deletion": ({"desired_state": "DELETED"}, False),
    "in the trash": (
        {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": datetime.now(UTC) - timedelta(days=6)},
        False,
    ),
    "past the retention": (
        {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": datetime.now(UTC) - timedelta(days=8)},
        True,
    ),
    "purged": (
        {
            "phase": "DELETING",
            "desired_state": "DELETED",
            "deleted_at": datetime.now(UTC) - timedelta(hours=3),
            "purged_at": datetime.now(UTC) - timedelta(hours=3),
        },
        True,
    ),
    "the newest complete archive of a living workspace, though no column names it": (
        {"phase": "PENDING", "archive_key": None, "op_id": None},
        False,
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_a_row_needs_stays(store: Store, case: str) -> None:
    columns, goes = CASES[case]
    identity, key = await store.add(**columns)
    await store.waited(key)
    report = await store.collector.collect()
    assert report.deleted == goes
    assert (key in store.world.stored) != goes
    assert store.changed == ([identity] if goes else [])
    assert await store.timers.all() == {}, "deleted, or protected again"


async def test_what_an_operation_is_making_stays(store: Store) -> None:
    identity, old = await store.add(operation="ARCHIVING", phase="STANDBY")
    making = OpId(uuid4())
    await change(store.owner, identity, op_id=making)
    key = store.put(identity, op_id=making, complete=False)
    await store.waited(key)
    assert (await store.collector.collect()).deleted == 0
    assert set(store.world.stored) == {old, key}


async def test_a_source_stays_until_it_was_copied(store: Store) -> None:
    gone = {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": LONG_AGO}
    _, source = await store.add(**gone)
    copy = await add_workspace(store.owner, source_archive=source)
    await store.waited(source)
    assert (await store.collector.collect()).deleted == 0
    await change(store.owner, copy, archive_key=archive_key(copy, OpId(uuid4())))
    await store.waited(source)
    assert (await store.collector.collect()).deleted == 1


async def test_strange_keys_are_reported_and_left_alone(store: Store) -> None:
    unknown = store.put(WorkspaceId(uuid4()))
    await store.waited(unknown)
    report = await store.collector.collect()
    assert (report.foreign, report.deleted) == ((unknown,), 0)
    assert unknown in store.world.stored
    assert unknown in await store.timers.all(), "an administrator's word keeps its timer"
    assert (await store.collector.collect(unknown_too=True)).deleted == 1
    assert store.world.stored == {}


async def test_an_administrators_word_about_unknown_keys_waits_for_the_delay(store: Store) -> None:
    unknown = store.put(WorkspaceId(uuid4()))
    assert (await store.collector.collect(unknown_too=True)).deleted == 0
    assert set(await store.timers.all()) == {unknown}


async def test_an_implausible_number_of_orphans_stops_it(store: Store) -> None:
    await store.add_crowd(5)
    identity, _ = await store.add()
    await change(store.owner, identity, archive_key=None)  # nothing took their place
    orphans = [await store.put_remembered(identity) for _ in range(12)]
    await store.waited(*orphans)
    with capture_logs() as logs:
        report = await store.collector.collect()
    assert report.stopped is not None
    assert "implausible" in report.stopped
    assert (report.due, report.deleted) == ((), 0)
    assert [entry["log_level"] for entry in logs] == ["error"]
    assert len(store.world.stored) == 18
    report = await store.collector.collect(override=True)
    # One of them may be the newest complete archive, which stays in any case.
    assert (report.stopped, report.deleted) == (None, report.orphans)
    assert report.deleted >= 11


async def test_a_dry_run_changes_nothing(store: Store) -> None:
    old, _ = await store.superseded()
    fresh = await store.put_remembered(owner_of(old), complete=False)
    lost, _ = await store.add(archive_key=archive_key(WorkspaceId(uuid4()), OpId(uuid4())))
    back = archive_key(WorkspaceId(uuid4()), OpId(uuid4()))
    await store.waited(back)
    before, timers = set(store.world.stored), await store.timers.all()
    report = await store.collector.collect(dry_run=True)
    assert (report.dry_run, report.due, report.orphans, report.missing) == (True, (old,), 2, (lost,))
    assert set(store.world.stored) == before
    assert await store.timers.all() == timers
    assert fresh not in timers
    assert store.changed == []


async def test_lost_timers_start_the_wait_anew(store: Store) -> None:
    old, _ = await store.superseded()
    await store.redis.flushall()
    assert (await store.collector.collect()).deleted == 0
    started = (await store.timers.all())[old]
    assert abs(started - await store.records.now()) < timedelta(minutes=1)
