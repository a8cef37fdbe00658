"""Two installations on one archive store: neither deletes what may be the other one's home."""

from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from codehub.coordinator.lost_commits import CommitWatch
from codehub.coordinator.records import DatabaseRecords
from codehub.coordinator.store_owner import AGAIN_SECONDS, PERIOD_SECONDS, StoreOwner
from codehub.db import archive_operations, store_owner
from codehub.db.diagnosis import diagnose
from codehub.db.pool import Connection, connection
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.faults import Misbehaviour
from codehub.errors import Unreachable
from codehub.model.store_owner import StoreMarker
from codehub.model.workspace import Operation, OpId, WorkspaceId
from codehub.signals.commit_notes import RedisCommitNotes
from codehub.signals.connect import Redis
from tests.coordinator.collecting import Store, Watched
from tests.coordinator.installation import Installation


async def tokens_of(owner: Connection) -> list[UUID]:
    row = await (await owner.execute("SELECT store_tokens FROM leadership")).fetchone()
    assert row is not None
    return list(row[0])


async def have_tokens(owner: Connection, tokens: list[UUID]) -> None:
    await owner.execute("UPDATE leadership SET store_tokens = %s", [tokens])


async def leads(site: Installation, redis: Redis) -> StoreOwner:
    """As a new leader does it."""
    leadership = await site.leadership()
    commits = CommitWatch(site.records, RedisCommitNotes(redis), leadership.epoch)
    await commits.begin()
    owner = StoreOwner(site.records, site.world.archives, leadership, commits, holder="here:1")
    await owner.begin()
    return owner


async def marker_of(world: MemoryWorld) -> StoreMarker:
    assert world.store_marker is not None
    return world.store_marker


async def told(site: Installation) -> str | None:
    async with connection(site.api) as conn:
        return (await diagnose(conn, stuck_after_seconds=60)).store_trouble


async def test_the_first_leader_marks_the_store_and_every_later_one_renews_it(site: Installation, redis: Redis) -> None:
    seen = set()
    for _ in range(3):
        owner = await leads(site, redis)
        assert await owner.refusal() is None
        seen.add((await marker_of(site.world)).token)
    assert len(seen) == 3
    assert seen == set(await tokens_of(site.owner))
    assert await told(site) is None
    assert (await marker_of(site.world)).holder == "here:1"


async def test_a_clone_and_its_original_both_refuse_once_one_of_them_met_the_other(
    site: Installation, redis: Redis
) -> None:
    """The same database twice: a cloned machine, or a clone of the disk that it is on."""
    await leads(site, redis)
    at_the_clone = await tokens_of(site.owner)
    await leads(site, redis)
    of_the_original = await tokens_of(site.owner)

    await have_tokens(site.owner, at_the_clone)
    clone = await leads(site, redis)
    assert "here:1" in (await clone.refusal() or "")
    assert "codehub take-over" in (await told(site) or "")

    await have_tokens(site.owner, of_the_original)
    original = await leads(site, redis)
    assert "Two installations" in (await original.refusal() or "")
    assert await tokens_of(site.owner) == of_the_original, "a disputed marker is not renewed"

    async with site.owner.transaction():
        claim = await store_owner.take_over(site.owner, token := uuid4(), None)
    now = datetime.now(UTC)
    site.world.store_marker = StoreMarker(
        token=token, database=claim.database, holder="an administrator", commits=0, written_at=now
    )
    assert await original.refusal() is None
    assert await told(site) is None


async def test_a_clone_that_began_before_its_original_wrote_again_is_met_by_that_one(
    site: Installation, redis: Redis
) -> None:
    original = await leads(site, redis)
    before = await tokens_of(site.owner)
    clone = await leads(site, redis)
    assert await clone.refusal() is None, "it cannot know yet"
    at_the_clone = await tokens_of(site.owner)
    await have_tokens(site.owner, before)
    await original.run_once()
    assert await original.refusal() is not None
    await have_tokens(site.owner, at_the_clone)
    assert await clone.refusal() is not None


@pytest.mark.parametrize("knows", ["another database", "nothing"])
async def test_a_newcomer_deletes_nothing_and_stops_nobody_else(site: Installation, redis: Redis, knows: str) -> None:
    """A backup restored on a second machine; an installation that was given somebody else's store."""
    await leads(site, redis)
    marker = await marker_of(site.world)
    if knows == "nothing":
        await have_tokens(site.owner, [])
    else:
        site.world.store_marker = marker = StoreMarker(
            token=marker.token, database="1/2", holder="there:1", commits=5, written_at=marker.written_at
        )
    newcomer = await leads(site, redis)
    assert await newcomer.refusal() is not None
    assert await marker_of(site.world) == marker


async def test_a_store_that_is_out_is_no_trouble_of_this_and_nothing_is_deleted(
    site: Installation, redis: Redis
) -> None:
    fault = site.world.misbehave("archives.marker", Misbehaviour.UNREACHABLE)
    owner = await leads(site, redis)
    assert owner.trouble is None
    with pytest.raises(Unreachable):
        await owner.refusal()
    assert owner.period() == AGAIN_SECONDS
    fault.end()
    await owner.run_once()
    assert owner.period() == PERIOD_SECONDS
    assert await owner.refusal() is None
    assert site.world.store_marker is not None


@pytest.mark.parametrize("leaders", ["one", "many"])
async def test_a_store_that_refuses_writes_for_long_stays_ours(site: Installation, redis: Redis, leaders: str) -> None:
    """Its marker is still the one that was written last, whoever tried to renew it, and however often."""
    owner = await leads(site, redis)
    marker = await marker_of(site.world)
    fault = site.world.misbehave("archives.leave_marker", Misbehaviour.UNREACHABLE)
    for _ in range(20):
        if leaders == "many":
            owner = await leads(site, redis)
        await owner.run_once()
    assert marker.token in await tokens_of(site.owner)
    fault.end()
    await owner.run_once()
    assert await owner.refusal() is None
    renewed = await marker_of(site.world)
    assert renewed.token != marker.token
    assert not renewed.is_disputed
    await owner.run_once()
    assert (await marker_of(site.world)).token != renewed.token


async def test_a_take_over_that_cannot_write_forgets_no_marker_and_adopts_none(
    site: Installation, redis: Redis
) -> None:
    await leads(site, redis)
    marker, strange = await marker_of(site.world), uuid4()
    for _ in range(20):
        async with site.owner.transaction():
            await store_owner.take_over(site.owner, uuid4(), marker.token)
    assert marker.token in await tokens_of(site.owner)
    async with site.owner.transaction():
        await store_owner.take_over(site.owner, uuid4(), strange)
    assert strange not in await tokens_of(site.owner)
    assert len(await tokens_of(site.owner)) == 16


async def test_whoever_was_replaced_marks_nothing(site: Installation, redis: Redis) -> None:
    old = await leads(site, redis)
    await leads(site, redis)
    marker = await marker_of(site.world)
    await old.run_once()
    assert await marker_of(site.world) == marker


@pytest.fixture
def store(owner: Connection, records: DatabaseRecords, redis: Redis) -> Store:
    return Store(owner, redis, Watched(records))


async def test_gc_asks_before_it_deletes(store: Store) -> None:
    old, _ = await store.superseded()
    await store.add_crowd(9)
    store.objection = "it is another's"
    report = await store.collector.collect()
    assert (report.due, report.deleted, report.stopped) == ((old,), 0, "it is another's")
    assert old in store.world.stored
    store.objection = None
    assert (await store.collector.collect()).deleted == 1


# -- commits that a snapshot of both servers lost ---------------------------------------------------------------------


async def test_the_marker_tells_of_commits_that_the_database_and_redis_have_both_lost(
    site: Installation, redis: Redis
) -> None:
    records = site.records
    leadership = await site.leadership()
    commits = CommitWatch(records, RedisCommitNotes(redis), leadership.epoch)
    await commits.begin()
    for _ in range(7):
        await records.commit(leadership.epoch, [], [])
    await StoreOwner(records, site.world.archives, leadership, commits, holder="here:1").begin()
    assert (await marker_of(site.world)).commits == 7
    await site.owner.execute("UPDATE leadership SET commits = commits - 4")
    await redis.flushall()

    leadership = await site.leadership()
    watch = CommitWatch(site.records, RedisCommitNotes(redis), leadership.epoch)
    await watch.begin()
    assert watch.trouble is None
    await StoreOwner(site.records, site.world.archives, leadership, watch, holder="here:1").begin()
    assert watch.lost is not None
    assert watch.lost.count == 4


async def test_its_own_first_marker_is_no_news_to_a_leader(site: Installation, redis: Redis) -> None:
    """The store was out when it began, and much was committed before its marker could be written."""
    fault = site.world.misbehave("archives.marker", Misbehaviour.UNREACHABLE)
    records, leadership = site.records, await site.leadership()
    commits = CommitWatch(records, RedisCommitNotes(redis), leadership.epoch)
    await commits.begin()
    owner = StoreOwner(records, site.world.archives, leadership, commits, holder="here:1")
    await owner.begin()
    for _ in range(5):
        await records.commit(leadership.epoch, [], [])
    fault.end()
    await owner.run_once()
    assert (await marker_of(site.world)).commits == 5
    await owner.run_once()
    assert commits.lost is None


async def test_another_databases_marker_says_nothing_of_ours(site: Installation, redis: Redis) -> None:
    site.world.store_marker = StoreMarker(
        token=uuid4(), database="1/2", holder="there:1", commits=1000, written_at=datetime.now(UTC)
    )
    leadership = await site.leadership()
    watch = CommitWatch(site.records, RedisCommitNotes(redis), leadership.epoch)
    await watch.begin()
    await watch.hear(site.world.store_marker)
    assert watch.lost is None


async def found_lost(site: Installation, records: DatabaseRecords, times: int = 1) -> None:
    leadership = await site.leadership()
    for _ in range(times):
        assert await records.note_lost_commits(leadership.epoch, 3) is not None


ENDED = [Operation.ARCHIVING, Operation.STARTING, Operation.STOPPING]


@pytest.mark.parametrize("operation", [*ENDED, Operation.RESTORING])
async def test_an_operation_of_a_database_that_lost_commits_does_not_go_on_under_its_old_op_id(
    site: Installation, operation: Operation
) -> None:
    """But a restore: the mark of its volume tells whether that is a home by now."""
    phase = {Operation.STOPPING: "RUNNING", Operation.RESTORING: "ARCHIVED"}.get(operation, "STANDBY")
    op_id = OpId(uuid4())
    home = {"volume": "live", "incarnation": "i", "uid": "u", "instance_op": str(op_id)}
    identity = await site.add(
        phase=phase,
        operation=operation.value,
        op_id=op_id,
        op_started_at=datetime.now(UTC) - timedelta(minutes=1),
        home_ctx=home,
        archive_key="x" if operation is Operation.RESTORING else None,
    )
    await found_lost(site, site.records)
    status = (await site.row(identity)).status
    anew = operation in ENDED
    assert (status.operation is Operation.NONE, status.op_id != op_id) == (anew, anew)
    assert (status.home_ctx.incarnation, status.home_ctx.uid) == ("i", "u")
    assert (status.home_ctx.instance_op is None) == anew
    remembered = await (await site.owner.execute("SELECT op_id FROM archive_operations")).fetchall()
    assert remembered == [], "what it was making may have become the home since"


async def test_that_is_done_once(site: Installation) -> None:
    await found_lost(site, site.records)
    op_id = OpId(uuid4())
    identity = await site.add(
        phase="STANDBY", operation="ARCHIVING", op_id=op_id, op_started_at=datetime.now(UTC), desired_state="ARCHIVED"
    )
    await found_lost(site, site.records, times=2)
    assert (await site.row(identity)).status.op_id == op_id


async def test_an_archive_that_was_committed_stays_remembered(site: Installation) -> None:
    op_id, identity = OpId(uuid4()), WorkspaceId(uuid4())
    key = f"{identity}/{op_id}/home.tar.zst"
    condemned = {"volume": "condemned", "incarnation": "i", "uid": "u"}
    await site.add(
        id=identity, phase="ARCHIVED", operation="ARCHIVING", op_id=op_id, archive_key=key, home_ctx=condemned
    )
    await found_lost(site, site.records)
    status = (await site.row(identity)).status
    assert (status.operation, status.home_ctx.volume.value) == (Operation.NONE, "condemned")
    async with connection(site.api) as conn:
        assert await archive_operations.all_of_them(conn) == {key}
