"""The controller while it cannot see: backends and stores that are out, hang or answer nonsense, and what vanished."""

import asyncio
from uuid import uuid4

from codehub.coordinator.controller import Controller
from codehub.drivers.memory import MemoryWorld, Misbehaviour
from codehub.drivers.memory.things import Volume
from codehub.model import conditions as c
from codehub.model.workspace import (
    Desired,
    ErrorReason,
    Incarnation,
    InstanceBackend,
    Operation,
    Phase,
    WorkspaceId,
)
from tests.coordinator.installation import Installation, is_at, rest, running, ticks
from tests.coordinator.test_controller import archived, ticked_until_it_strikes, without_pauses


async def test_an_outage_of_the_backend_changes_nothing_and_ends_well(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        before = await site.row(it)
        site.world.engine_out()
        await site.wish(it, Desired.ARCHIVED)
        await ticks(controller, 5)
        assert (await site.row(it)).status == before.status
        assert "process" in controller.outages
        site.world.behave()
        await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
        assert not controller.outages


async def test_an_outage_of_the_store_is_waited_for(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        site.world.home(it)["notes"] = b"kept"
        fault = site.world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
        await site.wish(it, Desired.ARCHIVED)
        await ticks(controller, 10)
        row = await site.row(it)
        assert row.status.phase is Phase.STANDBY
        assert row.status.error_count == 0
        assert site.world.home(it) == {"notes": b"kept"}
        fault.end()
        await _until_archived(site, controller, it)


async def _until_archived(site: Installation, controller: Controller, it: WorkspaceId) -> None:
    """In real time: the store is asked again only after a second."""
    async with asyncio.timeout(30):
        while not is_at(Phase.ARCHIVED)(await site.row(it)):
            await ticks(controller, 1)
            await asyncio.sleep(0.05)


async def test_a_store_that_is_full_is_an_outage_that_is_told_and_waited_for(site: Installation) -> None:
    """It answers every look; only the jobs find out that it takes nothing."""
    async with site.controller() as controller:
        them = [await running(site, controller) for _ in range(3)]
        full = site.world.misbehave("archives.jobs.archive", Misbehaviour.UNREACHABLE)
        for it in them:
            await site.wish(it, Desired.ARCHIVED)
        await ticks(controller, 10)
        assert full.struck >= 3
        for it in them:
            row = await site.row(it)
            assert (row.status.phase, row.status.error_count) == (Phase.STANDBY, 0)
        assert "Workspaces that wait for it: 3." in controller.outages["archive store"]
        full.end()
        for it in them:
            await _until_archived(site, controller, it)
        assert not controller.outages


async def test_a_backend_that_hangs_does_not_hold_up_another(site: Installation) -> None:
    other = MemoryWorld()
    backends = {InstanceBackend.PROCESS: site.world.backend(), InstanceBackend.DOCKER: other.backend()}
    async with site.controller(backends=backends) as controller:
        hanging = other.misbehave("volumes.observe", Misbehaviour.SLOW)
        it = await running(site, controller)
        waiting = await site.add(instance_backend="docker", storage_backend="docker-volume")
        await ticks(controller, 2)
        assert (await site.row(waiting)).status.phase is Phase.PENDING
        assert "docker" in controller.outages
        hanging.end()
        await site.ticked_until(controller, waiting, is_at(Phase.RUNNING))
        assert (await site.row(it)).status.phase is Phase.RUNNING


async def test_an_outage_does_not_let_it_forget_what_belongs_to_no_workspace(site: Installation) -> None:
    nobodys = WorkspaceId(uuid4())
    site.world.volumes[nobodys] = Volume(Incarnation("x"), "u")
    async with site.controller() as controller:
        await ticks(controller, 1)
        outage = site.world.engine_out()
        await ticks(controller, 2)
        assert controller.unknown == {nobodys}
        site.world.engine_back(outage)
        await ticks(controller, 2)
        assert controller.unknown == {nobodys}


async def test_an_archive_that_went_missing_is_an_error_before_a_restore_begins(site: Installation) -> None:
    async with site.controller() as controller:
        it = await archived(site, controller)
        site.world.stored.clear()
        controller.suspect_archives([it])
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert row.status.conditions.archive_ready.reason == c.ARCHIVE_NOT_FOUND


async def test_a_home_that_vanished_after_its_archive_was_complete_is_saved(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        site.world.home(it)["notes"] = b"kept"
        verifying = site.world.misbehave("archives.verify", Misbehaviour.SLOW, workspace_id=it)
        await site.wish(it, Desired.ARCHIVED)
        await ticked_until_it_strikes(controller, verifying)
        site.world.lose_volume(it)
        verifying.end()
        row = await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
        assert row.status.archive_key is not None
        assert site.world.stored[row.status.archive_key].home == {"notes": b"kept"}


async def test_a_home_that_vanished_before_its_archive_was_made_is_lost_at_once(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        archiving = site.world.misbehave("jobs.archive", Misbehaviour.SLOW, workspace_id=it)
        await site.wish(it, Desired.ARCHIVED)
        await ticked_until_it_strikes(controller, archiving)
        site.world.lose_volume(it)
        archiving.end()
        row = await without_pauses(site, controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert row.status.error_reason is ErrorReason.DATA_LOST


async def test_what_a_listing_does_not_show_yet_is_not_asked_for_again_and_again(site: Installation) -> None:
    async with site.controller() as controller:
        it = await site.add()
        site.world.misbehave("volumes.observe", Misbehaviour.INCOMPLETE, workspace_id=it)
        asked = site.world.misbehave("volumes.create", Misbehaviour.LIES, workspace_id=it)
        started = asyncio.get_running_loop().time()
        await ticks(controller, 50)
        took = asyncio.get_running_loop().time() - started
        assert 1 <= asked.struck <= 2 + took / 0.2
        assert asked.struck < 25


async def test_a_look_that_fails_is_not_repeated_without_a_pause(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        before = await site.row(it)
        site.world.misbehave("volumes.observe", Misbehaviour.INCOMPLETE, workspace_id=it)
        failing = site.world.misbehave("volumes.look", Misbehaviour.UNREACHABLE, workspace_id=it)
        await ticks(controller, 50)
        assert 1 <= failing.struck < 25
        assert (await site.row(it)).status == before.status


async def test_a_store_that_answers_nonsense_is_out(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        nonsense = site.world.misbehave("archives.*", Misbehaviour.FLAKY)
        await site.wish(it, Desired.ARCHIVED)
        await ticks(controller, 20)
        row = await site.row(it)
        assert (row.status.phase, row.status.error_count) == (Phase.STANDBY, 0)
        assert "archive store" in controller.outages
        assert nonsense.struck < 25
        nonsense.end()
        await _until_archived(site, controller, it)


async def test_one_archive_that_cannot_be_read_is_no_outage_of_the_store(site: Installation) -> None:
    async with site.controller() as controller:
        it, other = await running(site, controller), await running(site, controller)
        broken = site.world.misbehave("archives.verify", Misbehaviour.UNREACHABLE, workspace_id=it)
        await site.wish(it, Desired.ARCHIVED)
        await site.wish(other, Desired.ARCHIVED)
        await site.ticked_until(controller, other, is_at(Phase.ARCHIVED))
        await ticks(controller, 20)
        assert "archive store" not in controller.outages
        assert (await site.row(it)).status.phase is Phase.STANDBY
        assert it in site.world.volumes
        broken.end()
        await _until_archived(site, controller, it)


async def test_what_was_looked_at_is_kept_until_there_is_a_listing_to_go_with_it(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        verifying = site.world.misbehave("archives.verify", Misbehaviour.SLOW, workspace_id=it)
        await site.wish(it, Desired.ARCHIVED)
        await ticked_until_it_strikes(controller, verifying)
        site.world.engine_out()
        verifying.end()
        await rest(controller)
        await ticks(controller, 3)
        site.world.behave()
        again = site.world.misbehave("archives.verify", Misbehaviour.UNREACHABLE, workspace_id=it)
        row = await site.ticked_until(controller, it, lambda row: row.status.archive_key is not None)
        again.end()
        assert row.status.operation is Operation.ARCHIVING


async def test_a_deletion_does_not_take_a_volume_whose_archive_cannot_be_verified(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        failing = site.world.misbehave("volumes.delete", Misbehaviour.FLAKY)
        await site.wish(it, Desired.DELETED)
        await without_pauses(site, controller, it, lambda row: row.status.phase is Phase.ERROR)
        failing.end()
        out = site.world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
        await site.owner.execute(
            "UPDATE workspaces SET recover_request = jsonb_build_object('id', %s::text, 'answers', error_reason)",
            [str(uuid4())],
        )
        await ticks(controller, 20)
        assert it in site.world.volumes
        assert (await site.row(it)).wish.deleted_at is None
        out.end()
        async with asyncio.timeout(30):
            while (await site.row(it)).wish.deleted_at is None:
                await ticks(controller, 1)
                await asyncio.sleep(0.05)
        assert it not in site.world.volumes
