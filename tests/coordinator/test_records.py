"""The ports on PostgreSQL: what a call reads and writes, under which role, and what one bad row may cost."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from structlog.testing import capture_logs

from codehub.coordinator.ports import ArchiveRecords, Asked, Expiration, IdleRecords, Records
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection, Role, open_pool
from codehub.db.statuses import HistoryEntry, StatusChange
from codehub.errors import StaleLeader, Unavailable
from codehub.model.gc import KnownWorkspace
from codehub.model.workspace import ArchiveKey, Desired, Operation, OpId, Phase, Workspace, WorkspaceId
from tests.db.support import add_workspace, change, read

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REFUSED = "x" * 51  # longer than error_reason may be


def started(was: Workspace) -> StatusChange:
    return StatusChange(
        was, replace(was.status, operation=Operation.PROVISIONING, op_id=OpId(uuid4()), op_started_at=NOW)
    )


def line(identity: WorkspaceId, **fields: object) -> HistoryEntry:
    entry = HistoryEntry(workspace_id=identity, at=NOW, phase=Phase.PENDING, operation=Operation.PROVISIONING)
    return replace(entry, **fields)  # type: ignore[arg-type]  # what each test changes


async def history_of(conn: Connection) -> list[tuple[UUID, str]]:
    rows = await conn.execute("SELECT workspace_id, reason FROM workspace_history ORDER BY id")
    return [(identity, reason) for identity, reason in await rows.fetchall()]


def test_the_ports_are_kept() -> None:
    """For the type checker."""
    implementations: tuple[type[Records], type[IdleRecords], type[ArchiveRecords]] = (DatabaseRecords,) * 3
    assert implementations


async def test_a_read_brings_what_was_asked_for(records: DatabaseRecords, owner: Connection) -> None:
    new = sorted([await add_workspace(owner) for _ in range(3)])
    settled = sorted([await add_workspace(owner, phase="RUNNING") for _ in range(3)])
    reading = await records.read(Asked(limit=2))
    assert [each.id for each in reading.needing] == new[:2]
    assert (reading.swept, reading.named) == ((), ())
    assert abs(reading.now - datetime.now(UTC)) < timedelta(minutes=5)

    reading = await records.read(
        Asked(limit=2, after=new[1], sweep_limit=100, sweep_after=settled[0], ids=[settled[2]])
    )
    assert [each.id for each in reading.needing] == new[2:]
    assert [each.id for each in reading.swept] == sorted(each for each in new + settled if each > settled[0])
    assert [each.id for each in reading.named] == [settled[2]]
    assert (await records.read(Asked(limit=0))).needing == ()


async def test_a_commit_writes_rows_and_their_history(records: DatabaseRecords, owner: Connection) -> None:
    first, second = [await read(owner, await add_workspace(owner)) for _ in range(2)]
    await change(owner, second.id, desired_state="STANDBY")
    written = await records.commit(
        0, [started(first), started(second)], [line(first.id, reason="a"), line(second.id, reason="b")]
    )
    assert written == {first.id}
    assert (await read(owner, first.id)).status.operation is Operation.PROVISIONING
    assert (await read(owner, second.id)).status.operation is Operation.NONE
    assert await history_of(owner) == [(first.id, "a")]
    assert await records.commit(0, [], []) == set()


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_a_row_that_the_database_refuses_costs_only_itself(
    records: DatabaseRecords, owner: Connection, count: int
) -> None:
    rows = [await read(owner, await add_workspace(owner)) for _ in range(count)]
    bad = rows[count // 2]
    broken = StatusChange(bad, replace(bad.status, phase=Phase.ERROR, operation=Operation.STARTING))  # ERROR ⇒ NONE
    changes = [broken if row is bad else started(row) for row in rows]
    with capture_logs() as logs:
        written = await records.commit(0, changes, [line(row.id) for row in rows])
    others = {row.id for row in rows} - {bad.id}
    assert written == others
    assert {identity for identity, _ in await history_of(owner)} == others
    assert await read(owner, bad.id) == bad
    assert [entry["workspace_id"] for entry in logs if "workspace_id" in entry] == [str(bad.id)]
    assert all("constraint" in entry["cause"] for entry in logs)


async def test_a_value_that_does_not_fit_costs_only_its_row(records: DatabaseRecords, owner: Connection) -> None:
    rows = [await read(owner, await add_workspace(owner)) for _ in range(3)]
    changes = [started(row) for row in rows]
    changes[2] = replace(changes[2], now=replace(changes[2].now, error_reason=REFUSED))  # type: ignore[arg-type]  # that is the point
    assert await records.commit(0, changes, []) == {rows[0].id, rows[1].id}


async def test_a_line_of_history_that_is_refused_does_not_cost_the_status(
    records: DatabaseRecords, owner: Connection
) -> None:
    rows = [await read(owner, await add_workspace(owner)) for _ in range(3)]
    lines = [line(rows[0].id, reason="a"), line(rows[1].id, duration_ms=-1), line(rows[2].id, reason="c")]
    assert await records.commit(0, [started(row) for row in rows], lines) == {row.id for row in rows}
    assert await history_of(owner) == [(rows[0].id, "a"), (rows[2].id, "c")]


async def test_a_replaced_leader_learns_it_and_has_written_nothing(records: DatabaseRecords, owner: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    await owner.execute("UPDATE leadership SET epoch = 5")
    with pytest.raises(StaleLeader):
        await records.commit(4, [started(was)], [line(was.id)])
    assert await read(owner, was.id) == was
    assert await history_of(owner) == []


async def test_no_database_is_unavailable(records: DatabaseRecords) -> None:
    async with (
        open_pool("postgresql://127.0.0.1:1/none", Role.CONTROLLER) as nowhere,
        open_pool("postgresql://127.0.0.1:1/none", Role.API) as nowhere_too,
    ):
        nowhere.timeout = nowhere_too.timeout = 0.1
        absent = DatabaseRecords(nowhere, nowhere_too)
        for call in (
            absent.read(Asked(limit=1)),
            absent.commit(0, [], []),
            absent.due(1),
            absent.now(),
            absent.finish_deletions([WorkspaceId(UUID(int=1))]),
        ):
            with pytest.raises(Unavailable):
                await call


async def test_what_is_due_expires_unless_something_happened_since(records: DatabaseRecords, owner: Connection) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=1)
    idle, used = [
        await add_workspace(owner, phase="RUNNING", phase_changed_at=long_ago, standby_ttl_seconds=60) for _ in range(2)
    ]
    stopped = await add_workspace(owner, phase="STANDBY", desired_state="STANDBY", phase_changed_at=long_ago)
    await add_workspace(owner, phase="RUNNING", phase_changed_at=datetime.now(UTC))
    due = await records.due(100)
    assert {(each.was.id, each.transition.to) for each in due} == {
        (idle, Desired.STANDBY),
        (used, Desired.STANDBY),
        (stopped, Desired.ARCHIVED),
    }
    assert await records.touch({used: 0.0}) == 1
    assert await records.expire(due) == 2
    assert (await read(owner, idle)).wish.desired_state is Desired.STANDBY
    assert (await read(owner, idle)).wish.asked_by == "ttl: 60 s since it was started"
    assert (await read(owner, used)).wish.desired_state is Desired.RUNNING
    assert (await read(owner, stopped)).wish.desired_state is Desired.ARCHIVED
    nothing: list[Expiration] = []
    assert (await records.expire(nothing), await records.touch({})) == (0, 0)


async def test_a_visit_is_as_long_ago_as_it_is_said_to_be(records: DatabaseRecords, owner: Connection) -> None:
    identity = await add_workspace(owner)
    before = await records.now()
    assert await records.touch({identity: 5.0}) == 1
    accessed = (await read(owner, identity)).wish.last_access_at
    assert accessed is not None
    assert before <= accessed + timedelta(seconds=5) <= await records.now()


async def test_a_jump_of_the_clock_is_no_idle_time(records: DatabaseRecords, owner: Connection) -> None:
    now, day = await records.now(), timedelta(days=1)
    times = {"last_access_at": now - day, "keep_awake_until": now - timedelta(hours=23)}
    running = await add_workspace(owner, phase="RUNNING", **times)
    over = await add_workspace(owner, phase="RUNNING", keep_awake_until=now - 2 * day)
    stopped = await add_workspace(owner, phase="STANDBY", desired_state="STANDBY", last_access_at=now - day)
    assert await records.restart_idle_times(day) == 2
    wish = (await read(owner, running)).wish
    assert wish.last_access_at is not None
    assert wish.last_access_at >= now
    assert wish.keep_awake_until == now + timedelta(hours=1), "an hour was left of it"
    assert (await read(owner, over)).wish.keep_awake_until == now - 2 * day
    assert (await read(owner, stopped)).wish.last_access_at == now - day


async def test_deletions_are_finished(records: DatabaseRecords, owner: Connection) -> None:
    gone = {"storage.volume_ready": {"status": False, "reason": "VolumeNotFound"}}
    arrived = await add_workspace(owner, phase="ARCHIVED", desired_state="DELETED", conditions=gone)
    assert await records.finish_deletions([arrived]) == 1
    assert await records.finish_deletions([arrived]) == 0
    assert await records.finish_deletions([]) == 0


async def test_gc_knows_every_row_and_reads_some_again(records: DatabaseRecords, owner: Connection) -> None:
    plain = await add_workspace(owner, archive_key="k", op_id=UUID(int=7))
    trash = await add_workspace(owner, deleted_at=NOW, purged_at=NOW, desired_state="DELETED", phase="DELETED")
    copying = await add_workspace(owner, source_archive="k")
    given_up = await add_workspace(owner, source_archive="k", deleted_at=NOW, desired_state="DELETED")
    ids = sorted([plain, trash, copying, given_up])
    everything = {each.id: each for each in await records.known(None, 10)}
    assert list(everything) == ids
    assert everything[plain] == KnownWorkspace(id=plain, archive_key=ArchiveKey("k"), op_id=OpId(UUID(int=7)))
    assert (everything[trash].deleted_at, everything[trash].purged_at) == (NOW, NOW)
    assert everything[copying].source_archive == "k"
    assert [each.id for each in await records.known(None, 2)] == ids[:2]
    assert [each.id for each in await records.known(ids[1], 10)] == ids[2:]

    assert {each.id for each in await records.known_of([trash], ["k"])} == {trash, copying}
    assert list(await records.known_of([copying], ["k"])) == [everything[copying]]
    assert list(await records.known_of([], [])) == []


async def test_history_is_pruned_by_age_in_pieces(records: DatabaseRecords, owner: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    now = await records.now()
    ages = [timedelta(days=day) for day in (1, 3, 4, 5)]
    await records.commit(0, [started(was)], [line(was.id, at=now - age, reason=str(age.days)) for age in ages])
    assert await records.prune_history(timedelta(days=2), 2) == 2
    assert [reason for _, reason in await history_of(owner)] == ["1", "3"]
    assert await records.prune_history(timedelta(days=2), 2) == 1
    assert await records.prune_history(timedelta(days=2), 2) == 0
