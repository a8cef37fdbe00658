"""The controller's bulk write: one statement, compare-and-set per row, fenced by the epoch."""

import asyncio
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.db import leadership, reads, wishes
from codehub.db.pool import Connection, Role
from codehub.db.rows import home_context_of
from codehub.db.statuses import HistoryEntry, StatusChange, prune_history, record_history, write_statuses
from codehub.errors import StaleLeader
from codehub.model.conditions import Condition, Conditions
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    OpId,
    Phase,
    Status,
    VolumeState,
    Workspace,
)
from tests.db.conftest import connect_as
from tests.db.support import add_workspace, change, is_waiting_for_lock, read
from tests.db.wishing import set_desired
from tests.support import eventually_async

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
OP = OpId(UUID(int=100))

FULL = Status(
    conditions=Conditions(
        Condition(True, "VolumeProvisioned", "ready", NOW),
        Condition(False, "NoArchive", "", NOW),
        Condition(True, "ContainerRunning", "runs; 100% {fine}, 'quoted' \"twice\"", NOW),
        Condition(True, "AllConditionsMet", "", NOW),
        {"more.key": {"status": True}},
    ),
    phase=Phase.RUNNING,
    phase_changed_at=NOW,
    observed_at=NOW + timedelta(seconds=1),
    operation=Operation.STOPPING,
    op_started_at=NOW + timedelta(seconds=2),
    op_id=OP,
    archive_key=ArchiveKey("w/o/home.tar.zst"),
    home_ctx=HomeContext(
        volume=VolumeState.LIVE,
        incarnation=Incarnation("i"),
        uid="u",
        restore_marker=ArchiveKey("m"),
        retired=(Incarnation(""), Incarnation("b")),
        instance_op=OpId(UUID(int=9)),
        removal_asked=True,
        blank=True,
    ),
    endpoint="10.0.0.1:8080",
    error_reason=ErrorReason.ACTION_FAILED,
    error_count=2,
    retry_at=NOW + timedelta(seconds=3),
    recover_handled_id=UUID(int=5),
)


def started(workspace: Workspace, operation: Operation = Operation.PROVISIONING) -> StatusChange:
    return StatusChange(
        workspace, replace(workspace.status, operation=operation, op_id=OpId(uuid4()), op_started_at=NOW)
    )


def moved(workspace: Workspace, phase: Phase) -> StatusChange:
    return StatusChange(workspace, replace(workspace.status, phase=phase, phase_changed_at=NOW))


async def test_a_whole_status_survives_the_round_trip(owner: Connection, controller: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    for status in (FULL, was.status):
        was = await read(owner, was.id)
        assert (await write_statuses(controller, 0, [StatusChange(was, status)])).ids == {was.id}
        assert (await read(owner, was.id)).status == status


def test_an_older_version_may_have_asked_for_the_removal_of_what_it_condemned() -> None:
    for volume in VolumeState:
        stored = {"volume": volume.value, "incarnation": "i"}
        assert home_context_of(stored).removal_asked is (volume is VolumeState.CONDEMNED)


def test_the_full_status_leaves_no_field_out() -> None:
    """So that the round trip above notices a field that the mapping forgot."""
    for full, empty in ((FULL, Status(phase_changed_at=NOW - timedelta(1))), (FULL.home_ctx, HomeContext())):
        for field in fields(empty):
            assert getattr(full, field.name) != getattr(empty, field.name), field.name


async def test_nothing_to_write_is_fine(controller: Connection) -> None:
    assert (await write_statuses(controller, 0, [])).ids == set()


async def test_a_message_may_contain_anything(owner: Connection, controller: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    message = "exit\0 code \ud800 1 \\u0000 é 😀"
    healthy = Condition(False, "Odd", message, NOW)
    status = replace(was.status, conditions=Conditions(healthy=healthy))
    assert (await write_statuses(controller, 0, [StatusChange(was, status)])).ids == {was.id}
    entry = HistoryEntry(workspace_id=was.id, at=NOW, phase=Phase.PENDING, operation=Operation.NONE, reason=message)
    await record_history(controller, [entry])
    assert (await read(owner, was.id)).status.conditions.healthy.message == "exit code ? 1 \\u0000 é 😀"


async def test_a_workspace_twice_is_a_mistake(owner: Connection, controller: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    with pytest.raises(ValueError, match="only once"):
        await write_statuses(controller, 0, [started(was), started(was)])


async def test_a_thousand_changes_are_one_statement(owner: Connection, controller: Connection, tmp_path: Path) -> None:
    for _ in range(1000):
        await add_workspace(owner)
    found = await reads.needing_work(controller, NOW, 2000)
    with (tmp_path / "trace").open("w+") as trace:
        controller.pgconn.trace(trace.fileno())
        written = await write_statuses(controller, 0, [started(workspace) for workspace in found])
        controller.pgconn.untrace()
        trace.seek(0)
        messages = [line.split("\t")[3].strip() for line in trace if line.count("\t") >= 3]
    assert len(written.ids) == 1000
    assert messages.count("CommandComplete") == 1
    assert {each.status.operation for each in await reads.sweep(controller, None, 2000)} == {Operation.PROVISIONING}


# what a competitor changes, and whether it makes a change that starts an operation, or one that does not, lose
RACES: list[tuple[dict[str, Any], bool, bool]] = [
    ({"operation": "STARTING"}, True, True),
    ({"op_id": UUID(int=5)}, True, True),
    ({"phase": "ARCHIVED"}, True, True),
    ({"desired_state": "ARCHIVED"}, True, False),
    ({"deleted_at": NOW}, True, False),
    ({"memo": "anything else"}, False, False),
    ({"last_access_at": NOW}, False, False),
    ({"recover_request": {"id": str(UUID(int=6))}}, False, False),
]


@pytest.mark.parametrize(("competing", "start_loses", "other_loses"), RACES)
async def test_a_row_that_changed_is_left_alone(
    owner: Connection, controller: Connection, competing: dict[str, Any], start_loses: bool, other_loses: bool
) -> None:
    starting, observed, untouched = [await read(owner, await add_workspace(owner)) for _ in range(3)]
    for workspace in (starting, observed):
        await change(owner, workspace.id, **competing)
    written = await write_statuses(
        controller, 0, [started(starting), moved(observed, Phase.STANDBY), started(untouched)]
    )
    expected = {untouched.id}
    expected |= set() if start_loses else {starting.id}
    expected |= set() if other_loses else {observed.id}
    assert written.ids == expected
    assert ((await read(owner, starting.id)).status.op_started_at is None) == start_loses
    assert ((await read(owner, observed.id)).status.phase is Phase.STANDBY) != other_loses


async def test_no_error_is_written_over_a_deletion(owner: Connection, controller: Connection) -> None:
    """Whoever deletes from ERROR was told what goes with it; this one was told nothing."""
    failed, deleted = [await read(owner, await add_workspace(owner)) for _ in range(2)]
    await change(owner, deleted.id, deleted_at=NOW, desired_state="DELETED")
    changes = [moved(each, Phase.ERROR) for each in (failed, deleted)]
    assert (await write_statuses(controller, 0, changes)).ids == {failed.id}


async def test_a_row_that_changes_while_the_write_waits_for_it_is_left_alone(
    database: str, owner: Connection, controller: Connection
) -> None:
    """The competitor holds the row lock when the write begins, and commits while it waits."""
    contested, free = [await read(owner, await add_workspace(owner)) for _ in range(2)]
    async with await connect_as(database, Role.API) as competitor:
        async with competitor.transaction():
            assert await set_desired(competitor, Desired.ARCHIVED, was=contested, asked_by="")
            writing = asyncio.create_task(write_statuses(controller, 0, [started(contested), started(free)]))
            await eventually_async(lambda: is_waiting_for_lock(owner, controller), "the write waits")
        assert (await writing).ids == {free.id}
    assert (await read(owner, contested.id)).status.operation is Operation.NONE


async def test_of_two_writers_one_wins_each_row(database: str, owner: Connection) -> None:
    found = [await read(owner, await add_workspace(owner)) for _ in range(50)]
    async with (
        await connect_as(database, Role.CONTROLLER) as first,
        await connect_as(database, Role.CONTROLLER) as second,
    ):
        one, other = await asyncio.gather(
            write_statuses(first, 0, [started(each) for each in found]),
            write_statuses(second, 0, [started(each) for each in reversed(found)]),
        )
    assert not one.ids & other.ids
    assert len(one.ids) + len(other.ids) == 50
    assert {one.commit, other.commit} == {1, 2}


async def test_bulk_writes_of_both_roles_never_deadlock(database: str, owner: Connection) -> None:
    found = [await read(owner, await add_workspace(owner)) for _ in range(200)]
    async with (
        await connect_as(database, Role.CONTROLLER) as controller,
        await connect_as(database, Role.API) as api,
    ):

        async def observe() -> None:
            for round_ in range(20):
                seen = [replace(each.status, observed_at=NOW + timedelta(seconds=round_)) for each in found]
                changes = [StatusChange(each, status) for each, status in zip(found, seen, strict=True)]
                assert len((await write_statuses(controller, 0, changes)).ids) == 200

        async def touch() -> None:
            for round_ in range(20):
                ages = {each.id: 100.0 - round_ for each in reversed(found)}
                assert await wishes.touch_access(api, ages) == 200

        await asyncio.gather(observe(), touch())


async def test_a_replaced_leader_writes_nothing(owner: Connection, controller: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    old = await leadership.bump_epoch(controller, "old")
    new = await leadership.bump_epoch(controller, "new")
    assert old < new
    for stale in (old, 0, new + 1):
        with pytest.raises(StaleLeader):
            await write_statuses(controller, stale, [started(was)])
    assert await read(owner, was.id) == was
    assert (await write_statuses(controller, new, [started(was)])).ids == {was.id}


async def test_no_leader_is_given_the_epoch_of_one_whose_commits_were_lost(
    owner: Connection, controller: Connection
) -> None:
    """A replica is promoted that never heard of the last leader, who may still believe to lead."""
    was = await read(owner, await add_workspace(owner))
    lost = await leadership.bump_epoch(controller, "lost")
    await owner.execute("UPDATE leadership SET epoch = 0")
    await owner.execute("SELECT pg_sleep(0.002)")  # no failover is quicker than the millisecond that an epoch is
    new = await leadership.bump_epoch(controller, "new")
    with pytest.raises(StaleLeader):
        await write_statuses(controller, lost, [started(was)])
    assert (await write_statuses(controller, new, [started(was)])).ids == {was.id}


async def test_a_new_leader_waits_for_a_write_under_way(database: str, owner: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    async with (
        await connect_as(database, Role.CONTROLLER) as old,
        await connect_as(database, Role.CONTROLLER) as new,
    ):
        async with old.transaction():
            assert (await write_statuses(old, 0, [started(was)])).ids == {was.id}
            bumping = asyncio.create_task(leadership.bump_epoch(new, "new"))
            await eventually_async(lambda: is_waiting_for_lock(owner, new), "the new leader waits")
            entry = HistoryEntry(workspace_id=was.id, at=NOW, phase=Phase.PENDING, operation=Operation.PROVISIONING)
            await record_history(old, [entry])
        assert await bumping > 0
        # What the old leader wrote is there for the new one to see; more it cannot write.
        seen = await read(new, was.id)
        assert seen.status.operation is Operation.PROVISIONING
        with pytest.raises(StaleLeader):
            await write_statuses(old, 0, [moved(seen, Phase.STANDBY)])


async def test_a_write_that_waits_for_a_new_leader_is_refused(database: str, owner: Connection) -> None:
    was = await read(owner, await add_workspace(owner))
    async with (
        await connect_as(database, Role.CONTROLLER) as old,
        await connect_as(database, Role.CONTROLLER) as new,
    ):
        async with new.transaction():
            await leadership.bump_epoch(new, "new")
            writing = asyncio.create_task(write_statuses(old, 0, [started(was)]))
            await eventually_async(lambda: is_waiting_for_lock(owner, old), "the old leader's write waits")
        with pytest.raises(StaleLeader):
            await writing
    assert await read(owner, was.id) == was


async def test_history(owner: Connection, controller: Connection) -> None:
    identity = await add_workspace(owner)
    entries = [
        HistoryEntry(
            workspace_id=identity,
            at=NOW + timedelta(days=day),
            phase=Phase.ERROR,
            operation=Operation.NONE,
            op_id=OP,
            error_reason=ErrorReason.TIMEOUT,
            reason="it took too long",
            cause="ada",
            duration_ms=day,
        )
        for day in range(5)
    ]
    await record_history(controller, entries)
    await record_history(controller, [])
    rows = await owner.execute(
        """SELECT workspace_id, at, phase, operation, op_id, error_reason, reason, cause, duration_ms
           FROM workspace_history ORDER BY id"""
    )
    expected = (identity, NOW, "ERROR", "NONE", OP, "Timeout", "it took too long", "ada", 0)
    assert (await rows.fetchall())[0] == expected
    assert await prune_history(controller, NOW + timedelta(days=4), 3) == 3
    assert await prune_history(controller, NOW + timedelta(days=4), 3) == 1
    assert await prune_history(controller, NOW + timedelta(days=4), 3) == 0
