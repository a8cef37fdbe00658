"""The controller on a real database: the life of a workspace, and what happens when its surroundings misbehave."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from codehub.coordinator.controller import Controller
from codehub.coordinator.pace import Pace
from codehub.drivers.memory import Fault, Misbehaviour
from codehub.drivers.memory.things import Volume
from codehub.errors import StaleLeader
from codehub.model.failure import Rules
from codehub.model.workspace import (
    Desired,
    ErrorReason,
    Incarnation,
    Operation,
    Phase,
    Workspace,
    WorkspaceId,
)
from tests.coordinator.installation import Installation, is_at, running, ticks

RARE_SWEEP = Pace(sweep_rate=0.001)


async def ticked_until_it_strikes(controller: Controller, fault: Fault) -> None:
    """Without waiting for errands: this one hangs."""
    async with asyncio.timeout(20):
        while not fault.struck:
            await controller.tick()
            await asyncio.sleep(0)


async def archived(site: Installation, controller: Controller) -> WorkspaceId:
    it = await running(site, controller)
    await site.wish(it, Desired.ARCHIVED)
    await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
    return it


async def test_the_whole_life_of_a_workspace(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        site.world.home(it)["notes"] = b"what the user wrote"

        await site.wish(it, Desired.STANDBY)
        await site.ticked_until(controller, it, is_at(Phase.STANDBY))
        assert it not in site.world.instances

        await site.wish(it, Desired.ARCHIVED)
        row = await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
        assert it not in site.world.volumes
        assert row.status.archive_key in site.world.stored

        await site.wish(it, Desired.RUNNING)
        row = await site.ticked_until(controller, it, is_at(Phase.RUNNING))
        assert site.world.home(it) == {"notes": b"what the user wrote"}
        assert row.status.endpoint == site.world.instances[it].endpoint

        await site.wish(it, Desired.DELETED)
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.DELETING)
        assert row.wish.deleted_at is not None
        assert it not in site.world.volumes


async def test_the_history_says_what_happened_who_asked_and_how_long_it_took(site: Installation) -> None:
    async with site.controller() as controller:
        await running(site, controller, asked_by="user alice")
        found = await site.owner.execute(
            "SELECT phase, operation, cause, duration_ms IS NOT NULL, reason FROM workspace_history ORDER BY id"
        )
        lines = [(*line[:4], bool(line[4])) for line in await found.fetchall()]
    assert lines == [
        ("PENDING", "PROVISIONING", "user alice", False, True),
        ("STANDBY", "NONE", "user alice", True, True),
        ("STANDBY", "STARTING", "user alice", False, True),
        ("RUNNING", "NONE", "user alice", True, True),
    ]


async def test_what_needs_nothing_is_not_written(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        version = await _version(site, it)
        await ticks(controller, 5)
        assert await _version(site, it) == version


async def _version(site: Installation, it: WorkspaceId) -> object:
    return await (await site.owner.execute("SELECT xmin::text FROM workspaces WHERE id = %s", [it])).fetchone()


async def test_a_failing_action_is_retried_with_pauses_and_then_left_to_a_person(site: Installation) -> None:
    async with site.controller() as controller:
        site.world.misbehave("instances.start", Misbehaviour.FLAKY)
        it = await site.add()
        row = await site.ticked_until(controller, it, lambda row: row.status.error_count == 1)
        assert row.status.retry_at is not None
        assert row.status.error_reason is ErrorReason.ACTION_FAILED
        row = await without_pauses(site, controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert row.status.error_reason is ErrorReason.RETRY_EXCEEDED
        assert "as it was told to" in row.status.conditions.healthy.message


async def without_pauses(
    site: Installation, controller: Controller, it: WorkspaceId, condition: Callable[[Workspace], bool]
) -> Workspace:
    """As if the pauses were over: what they are is the model's, and tested there."""
    row = await site.row(it)
    for _ in range(60):
        if condition(row):
            return row
        await site.owner.execute("UPDATE workspaces SET retry_at = now() WHERE id = %s AND retry_at > now()", [it])
        await ticks(controller, 1)
        row = await site.row(it)
    raise AssertionError(f"never: {row.status}")


async def test_a_terminal_failure_is_not_retried(site: Installation) -> None:
    async with site.controller() as controller:
        site.world.misbehave("instances.start", Misbehaviour.IMAGE_MISSING)
        it = await site.add()
        row = await without_pauses(site, controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert row.status.error_reason is ErrorReason.IMAGE_PULL_FAILED
        assert it not in site.world.instances


async def test_a_slow_start_holds_nobody_up_and_is_made_once(site: Installation) -> None:
    async with site.controller() as controller:
        slow = await site.add()
        fault = site.world.misbehave("instances.start", Misbehaviour.SLOW, workspace_id=slow)
        await ticked_until_it_strikes(controller, fault)
        other = await site.add()
        async with asyncio.timeout(20):
            while not is_at(Phase.RUNNING)(await site.row(other)):
                await controller.tick()
                await asyncio.sleep(0)
        assert fault.struck == 1
        assert controller.errands == 1
        fault.end()
        await site.ticked_until(controller, slow, is_at(Phase.RUNNING))


async def test_a_time_limit_holds_while_a_driver_call_hangs(site: Installation) -> None:
    """The call never returns; the operation ends at its limit all the same, and what lands late is removed."""
    rules = Rules(time_limits={**Rules().time_limits, Operation.STARTING: timedelta(seconds=0.5)})
    async with site.controller(rules=rules) as controller:
        it = await site.add()
        fault = site.world.misbehave("instances.start", Misbehaviour.SLOW)
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert row.status.error_reason is ErrorReason.TIMEOUT
        assert "STARTING made no progress for" in row.status.conditions.healthy.message
        assert fault.struck == 1
        assert controller.errands == 0


async def test_of_a_deleted_workspace_a_call_that_hangs_is_tried_again(site: Installation) -> None:
    rules = Rules(time_limits={**Rules().time_limits, Operation.DELETING: timedelta(seconds=0.2)})
    async with site.controller(rules=rules) as controller:
        it = await running(site, controller)
        await site.wish(it, Desired.STANDBY)
        await site.ticked_until(controller, it, is_at(Phase.STANDBY))
        await site.owner.execute("UPDATE workspaces SET deleted_at = now(), desired_state = 'DELETED'")
        fault = site.world.misbehave("volumes.delete", Misbehaviour.SLOW, times=1)
        await site.ticked_until(controller, it, lambda row: row.status.error_count == 1)
        assert fault.struck == 1
        await site.ticked_until(controller, it, is_at(Phase.DELETED))


async def test_an_instance_that_died_is_noticed_without_the_sweep(site: Installation) -> None:
    async with site.controller(pace=RARE_SWEEP) as controller:
        it = await running(site, controller)
        await ticks(controller, 2)
        assert not controller.is_catching_up
        site.world.kill_instance(it)
        await controller.tick()
        row = await site.row(it)
        assert row.status.phase is not Phase.RUNNING or row.status.operation is not Operation.NONE


async def test_what_happened_before_this_leader_is_noticed_by_its_first_pass(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
    del site.world.instances[it]
    async with site.controller(pace=RARE_SWEEP) as controller:
        await controller.tick()
        assert (await site.row(it)).status.phase is Phase.STANDBY


async def test_a_dead_leaders_half_done_work_is_finished(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        site.world.home(it)["notes"] = b"kept"
        site.world.held.add(it)
        await site.wish(it, Desired.ARCHIVED)
        await site.ticked_until(controller, it, lambda _: bool(site.world.jobs))
    (job,) = site.world.jobs
    site.world.held.clear()
    async with site.controller() as controller:
        row = await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
    assert row.status.op_id == job
    assert [stored.home for stored in site.world.stored.values()] == [{"notes": b"kept"}]


async def test_a_leader_that_was_replaced_writes_nothing(site: Installation) -> None:
    async with site.controller() as old:
        it = await site.add()
        await site.leadership()
        with pytest.raises(StaleLeader):
            await old.tick()
    assert (await site.row(it)).status.operation is Operation.NONE


async def test_nothing_is_destroyed_without_fresh_leadership(site: Installation) -> None:
    leadership = await site.leadership()
    async with site.controller(leadership=leadership) as controller:
        it = await running(site, controller)
        leadership.fresh = False
        await site.wish(it, Desired.STANDBY)
        await ticks(controller, 4)
        assert it in site.world.instances
        leadership.fresh = True
        await site.ticked_until(controller, it, is_at(Phase.STANDBY))


async def test_a_volume_of_no_workspace_is_reported_and_left_alone(site: Installation) -> None:
    nobodys = WorkspaceId(uuid4())
    site.world.volumes[nobodys] = Volume(Incarnation("x"), "u")
    async with site.controller() as controller:
        await ticks(controller, 3)
        assert controller.unknown == {nobodys}
        assert nobodys in site.world.volumes
        del site.world.volumes[nobodys]
        await ticks(controller, 1)
        assert not controller.unknown


async def test_the_trash_is_empty_once_its_archive_is_gone(site: Installation) -> None:
    async with site.controller() as controller:
        await archived(site, controller)  # in the same store, so that the store is the right one
        it = await archived(site, controller)
        await site.wish(it, Desired.DELETED)
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.DELETING)
        assert row.status.archive_key is not None
        await ticks(controller, 2)
        site.world.lose_archive(row.status.archive_key, "object")
        site.world.lose_archive(row.status.archive_key, "meta")
        site.world.stored.pop(row.status.archive_key, None)
        controller.suspect_archives([it])
        await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.DELETED)


async def test_a_row_of_a_backend_that_is_not_here_is_left_alone(site: Installation) -> None:
    async with site.controller() as controller:
        it = await site.add(instance_backend="k8s", storage_backend="k8s-pvc")
        await ticks(controller, 3)
        assert (await site.row(it)).status.phase is Phase.PENDING


async def test_a_thousand_at_once_are_read_page_by_page(site: Installation) -> None:
    async with site.controller() as controller:
        for number in range(1500):
            await site.add(id=WorkspaceId(UUID(int=number + 1)))
        async with asyncio.timeout(120):
            while not await _all_running(site):
                await ticks(controller, 1)
        assert len(site.world.instances) == 1500


async def test_who_asked_first_is_started_first(site: Installation) -> None:
    began = datetime.now(UTC)
    async with site.controller() as controller:
        asked = [WorkspaceId(UUID(int=number)) for number in (3, 1, 4, 5, 2)]
        for number, it in enumerate(asked):
            await site.add(id=it, last_access_at=began + timedelta(milliseconds=number))
        async with asyncio.timeout(60):
            while not await _all_running(site):
                await ticks(controller, 1)
    assert list(site.world.instances) == asked


async def _all_running(site: Installation) -> bool:
    found = await site.owner.execute("SELECT bool_and(phase = 'RUNNING' AND operation = 'NONE') FROM workspaces")
    return (await found.fetchone()) == (True,)


async def test_the_trash_is_not_polled(site: Installation) -> None:
    async with site.controller() as controller:
        it = await archived(site, controller)
        await site.wish(it, Desired.DELETED)
        await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.DELETING)
        await ticks(controller, 3)
        looks = site.world.misbehave("archives.look", Misbehaviour.SLOW, workspace_id=it)
        await ticks(controller, 20)
        assert looks.struck == 0


async def test_a_home_at_rest_that_cannot_be_marked_keeps_nobody_waiting_and_writes_nothing(site: Installation) -> None:
    """It was made by a version that knew no marks; the next look tries again."""
    async with site.controller() as controller:
        it = await running(site, controller)
        await site.owner.execute(
            "UPDATE workspaces SET phase_changed_at = now() - interval '1 day' WHERE id = %s", [it]
        )
        site.world.volumes[it].marked = False
        before = (await site.row(it)).status
        fault = site.world.misbehave("volumes.mark_whole", Misbehaviour.UNREACHABLE)
        await ticks(controller, 10)
        assert fault.struck
        assert (await site.row(it)).status == before
        await site.wish(it, Desired.STANDBY)
        await site.ticked_until(controller, it, is_at(Phase.STANDBY))
        site.world.behave()
        await site.ticked_until(controller, it, lambda _: site.world.volumes[it].marked)
