"""The GC runner while things change or fail: nothing is deleted that is needed by then, and nothing is forgotten."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from uuid import uuid4

import pytest

from codehub.coordinator.collect import Collector
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
from codehub.drivers.memory import Misbehaviour
from codehub.errors import Unavailable, Unreachable
from codehub.model.gc import FoundArchive
from codehub.model.workspace import ArchiveKey, OpId
from codehub.signals.connect import Redis, open_redis
from codehub.signals.timers import RedisTimers
from tests.coordinator.collecting import LONG_AGO, RULES, Store, Watched, nobody_objects, owner_of
from tests.db.support import add_workspace, change


@pytest.fixture
def store(owner: Connection, records: DatabaseRecords, redis: Redis) -> Store:
    return Store(owner, redis, Watched(records))


async def test_what_is_needed_again_at_the_last_look_stays(store: Store) -> None:
    """Undeleted, or chosen as a source, after the rows were read."""
    gone = {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": LONG_AGO}
    undeleted, key = await store.add(**gone)
    _, source = await store.add(**gone)
    _, orphan = await store.add(**gone)
    await store.waited(key, source, orphan)

    async def meanwhile() -> None:
        await change(store.owner, undeleted, deleted_at=None, desired_state="ARCHIVED")
        await add_workspace(store.owner, source_archive=source)

    store.records.after_known = meanwhile
    report = await store.collector.collect()
    assert (report.deleted, report.spared) == (1, 2)
    assert set(store.world.stored) == {key, source}
    assert await store.timers.all() == {}, "what was spared waits anew, should it ever be an orphan again"


async def test_an_archive_made_between_listing_and_reading_is_no_orphan(store: Store) -> None:
    identity, old = await store.add(phase="STANDBY", desired_state="STANDBY")
    archives = store.world.archives
    made: list[ArchiveKey] = []

    class Slow:
        """The operation begins, uploads and ends while the store is being listed."""

        async def found(self) -> AsyncIterator[Sequence[FoundArchive]]:
            op_id = OpId(uuid4())
            await change(store.owner, identity, op_id=op_id, operation="ARCHIVING")
            made.append(store.put(identity, op_id=op_id))
            store.world.stored[made[0]].modified_at -= timedelta(days=1)  # so that being the newest does not save it
            async for page in archives.found():
                yield page
            await change(store.owner, identity, operation="NONE", archive_key=made[0])

    collector = Collector(
        store.records,
        Slow(),  # type: ignore[arg-type]  # nothing else of it is used
        store.timers,
        store.leader,
        RULES,
        on_change=store.changed.extend,
        refusal=nobody_objects,
    )
    assert (await collector.collect()).orphans == 0
    assert await store.timers.all() == {}
    assert set(store.world.stored) == {old, made[0]}


async def test_lost_leadership_ends_the_deleting(store: Store) -> None:
    olds = [(await store.superseded())[0] for _ in range(3)]
    store.leader.sure = 1
    report = await store.collector.collect()
    assert report.deleted == 1
    assert report.stopped is not None
    assert "Leadership" in report.stopped
    assert len([key for key in olds if key in store.world.stored]) == 2
    assert len(store.changed) == 1
    store.leader.sure = None
    assert (await store.collector.collect()).deleted == 2


async def test_many_are_deleted_in_batches_each_with_its_own_look(store: Store) -> None:
    await store.add_crowd(150)
    olds = [(await store.superseded())[0] for _ in range(45)]
    report = await store.collector.collect()
    assert (report.deleted, report.stopped) == (45, None)
    assert not set(olds) & set(store.world.stored)
    assert [len(keys) for _, keys in store.records.asked] == [20, 20, 5]


async def test_a_failed_deletion_is_tried_again_next_time(store: Store) -> None:
    first, _ = await store.superseded()
    second, _ = await store.superseded()
    store.world.misbehave("archives.delete", Misbehaviour.FLAKY, workspace_id=owner_of(first), times=1)
    report = await store.collector.collect()
    assert (report.deleted, report.failed) == (1, 1)
    assert store.changed == [owner_of(second)]
    assert set(await store.timers.all()) == {first}
    assert (await store.collector.collect()).deleted == 1


async def test_a_store_that_goes_away_ends_the_cycle(store: Store) -> None:
    """For all batches, even if it is back a moment later."""
    await store.add_crowd(100)
    for _ in range(25):
        await store.superseded()
    store.world.misbehave("archives.delete", Misbehaviour.UNREACHABLE, times=1)
    report = await store.collector.collect()
    assert report.deleted == 0
    assert report.stopped is not None
    assert len(store.records.asked) == 1
    report = await store.collector.collect()
    assert (report.deleted, report.stopped) == (25, None)


@pytest.mark.parametrize("what", ["found", "known", "now", "known_of", "remembers_since", "remembered"])
async def test_what_cannot_be_read_skips_the_cycle(store: Store, what: str) -> None:
    await store.superseded()
    everything = set(store.world.stored)
    if what == "found":
        store.world.misbehave("archives.found", Misbehaviour.UNREACHABLE)
    store.records.away = {what}
    with pytest.raises((Unavailable, Unreachable)):
        await store.collector.run_once()
    assert set(store.world.stored) == everything
    assert store.collector.last is None


async def test_without_timers_nothing_is_deleted(store: Store) -> None:
    await store.superseded()
    async with open_redis("redis://127.0.0.1:1/0") as nowhere:
        collector = Collector(
            store.records,
            store.world.archives,
            RedisTimers(nowhere),
            store.leader,
            RULES,
            on_change=lambda _: None,
            refusal=nobody_objects,
        )
        with pytest.raises(Unavailable):
            await collector.collect()
    assert len(store.world.stored) == 2


async def test_rows_whose_archive_the_listing_lacks_are_to_be_looked_at(store: Store) -> None:
    present, _ = await store.add()
    lost, key = await store.add()
    half, half_key = await store.add()
    del store.world.stored[key]
    store.world.lose_archive(half_key, "meta")
    gone, gone_key = await store.add(phase="DELETED", desired_state="DELETED", deleted_at=LONG_AGO)
    del store.world.stored[gone_key]
    report = await store.collector.collect()
    assert set(report.missing) == {lost, half}
    assert set(store.changed) == {lost, half}
    assert present not in store.changed
    assert gone not in store.changed


async def test_every_page_of_rows_is_read(store: Store) -> None:
    await store.add_crowd(5)
    collector = Collector(
        store.records,
        store.world.archives,
        store.timers,
        store.leader,
        RULES,
        on_change=store.changed.extend,
        refusal=nobody_objects,
        page=2,
    )
    report = await collector.collect()
    assert (report.known, report.foreign, report.orphans) == (5, (), 0)
