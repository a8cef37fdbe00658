"""Archives that are missing: one is lost, many are another store, and lost when an administrator says so."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.cli.checks.archives import look as doctors_look
from codehub.config import Settings
from codehub.coordinator.controller import Controller
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.memory import Misbehaviour
from codehub.drivers.memory.things import Stored
from codehub.model.suspicion import ARCHIVES, is_another_store
from codehub.model.workspace import ArchiveKey, Desired, ErrorReason, InstanceBackend, Operation, Phase, WorkspaceId
from codehub.services.doctor import codes
from codehub.services.doctor.finding import State
from tests.coordinator.installation import Installation, is_at, running, ticks


async def archived(site: Installation, controller: Controller, many: int) -> list[WorkspaceId]:
    them = [await running(site, controller) for _ in range(many)]
    for it in them:
        await site.wish(it, Desired.ARCHIVED)
    for it in them:
        await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
    return them


async def key_of(site: Installation, it: WorkspaceId) -> ArchiveKey:
    key = (await site.row(it)).status.archive_key
    assert key is not None
    return key


async def phases(site: Installation, them: list[WorkspaceId]) -> set[Phase]:
    return {(await site.row(it)).status.phase for it in them}


def emptied(site: Installation) -> dict[ArchiveKey, Stored]:
    """Another bucket: what was in the right one."""
    were = dict(site.world.stored)
    site.world.stored.clear()
    return were


@pytest.mark.parametrize(
    ("missing", "of", "is_another"),
    [(0, 0, False), (1, 1, False), (2, 2, True), (1, 2, False), (3, 4, False), (4, 20, False), (5, 20, True)],
)
def test_how_many_are_another_store(missing: int, of: int, is_another: bool) -> None:
    assert is_another_store(missing, of) is is_another


async def test_one_archive_that_is_missing_is_lost(site: Installation) -> None:
    async with site.controller() as controller:
        them = await archived(site, controller, 4)
        del site.world.stored[await key_of(site, them[0])]
        for it in them:
            await site.wish(it, Desired.RUNNING)
        row = await site.ticked_until(controller, them[0], lambda row: row.status.phase is Phase.ERROR)
        assert row.status.error_reason is ErrorReason.ARCHIVE_ACCESS_ERROR
        for it in them[1:]:
            await site.ticked_until(controller, it, is_at(Phase.RUNNING))
        assert not controller.outages


@pytest.mark.parametrize("many", [2, 6])
async def test_a_store_that_was_emptied_is_an_outage(many: int, site: Installation) -> None:
    async with site.controller() as controller:
        them = await archived(site, controller, many)
        were = emptied(site)
        for it in them:
            await site.wish(it, Desired.RUNNING)
        await ticks(controller, 10)
        assert await phases(site, them) == {Phase.ARCHIVED}
        assert "codehub accept-losses archives" in controller.outages["archive store"]
        site.world.stored.update(were)
    async with site.controller() as controller:  # the next check may be seconds away
        for it in them:
            await site.ticked_until(controller, it, is_at(Phase.RUNNING))
        assert not controller.outages


async def test_nothing_is_archived_into_a_store_that_lacks_the_archives(site: Installation) -> None:
    """A new leader, with the wrong bucket in its settings: nobody has missed an archive yet."""
    async with site.controller() as controller:
        them = await archived(site, controller, 3)
        home = await running(site, controller)
    were = emptied(site)
    async with site.controller() as controller:
        await ticks(controller, 2)
        assert controller.outages.keys() == {"archive store"}
        await site.wish(home, Desired.ARCHIVED)
        await ticks(controller, 10)
        row = await site.row(home)
        assert (row.status.phase, row.status.operation) == (Phase.STANDBY, Operation.NONE)
        assert home in site.world.volumes
        assert site.world.stored == {}
    site.world.stored.update(were)
    async with site.controller() as controller:
        await site.ticked_until(controller, home, is_at(Phase.ARCHIVED))
    assert await phases(site, them) == {Phase.ARCHIVED}


async def test_a_workspace_in_the_trash_keeps_its_archive_in_such_a_store(site: Installation) -> None:
    async with site.controller() as controller:
        them = await archived(site, controller, 4)
        deleted = await site.add(
            phase="DELETING",
            desired_state="DELETED",
            deleted_at=datetime.now(UTC),
            archive_key=f"{them[0]}/{them[0]}/home.tar.zst",
        )
        emptied(site)
        controller.suspect_archives([deleted])
        await ticks(controller, 10)
        assert (await site.row(deleted)).status.phase is Phase.DELETING


async def test_missing_archives_are_lost_when_an_administrator_says_so(site: Installation) -> None:
    async with site.controller() as controller:
        them = await archived(site, controller, 6)
        left = await key_of(site, them[0])
        kept = emptied(site)[left]
        site.world.stored[left] = replace(kept)
        await site.wish(them[1], Desired.RUNNING)
        await ticks(controller, 6)
        assert await phases(site, them) == {Phase.ARCHIVED}
        await site.accept_losses(InstanceBackend.PROCESS)
        await ticks(controller, 4)
        assert await phases(site, them) == {Phase.ARCHIVED}  # that was about homes
        await site.accept_losses(ARCHIVES)
        for it in them[1:]:
            row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
            assert row.status.error_reason is ErrorReason.ARCHIVE_ACCESS_ERROR
        assert (await site.row(them[0])).status.phase is Phase.ARCHIVED
        assert not controller.outages


async def test_the_word_outlives_the_leader_and_is_about_those_that_were_missing_then(site: Installation) -> None:
    async with site.controller() as controller:
        them = await archived(site, controller, 8)
        for it in them[:5]:
            del site.world.stored[await key_of(site, it)]
        await site.wish(them[0], Desired.RUNNING)
        await ticks(controller, 6)
        looks = site.world.misbehave("archives.look", Misbehaviour.UNREACHABLE)
        await site.accept_losses(ARCHIVES)
        await ticks(controller, 3)
        looks.end()
    for it in them[5:]:
        del site.world.stored[await key_of(site, it)]
    async with site.controller() as controller:
        for it in them[5:]:
            await site.wish(it, Desired.RUNNING)
        await ticks(controller, 10)
        assert await phases(site, them[5:]) == {Phase.ARCHIVED}
        assert controller.outages


async def test_a_store_that_is_silent_is_not_another_one(site: Installation) -> None:
    async with site.controller() as controller:
        them = await archived(site, controller, 4)
        out = site.world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
        await site.wish(them[0], Desired.RUNNING)
        await ticks(controller, 6)
        assert controller.outages["archive store"] == "It does not answer."
        out.end()
        await site.ticked_until(controller, them[0], is_at(Phase.RUNNING))


async def test_doctor_tells_another_store(site: Installation, database: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    await ArchiveStore.open(store.as_uri()).prepare()
    settings = Settings.load()
    settings = settings.model_copy(update={"store": settings.store.model_copy(update={"url": store.as_uri()})})
    assert await doctors_look(settings, database, tmp_path) == []
    for _ in range(3):
        it, op = uuid4(), uuid4()
        await site.add(
            id=it, phase="ARCHIVED", desired_state="ARCHIVED", archive_key=f"{it}/{op}/home.tar.zst", op_id=op
        )
    (found,) = await doctors_look(settings, database, tmp_path)
    assert (found.code, found.state) == (codes.STORE_OTHER, State.FAILED)
    assert "of 3 that were looked for, 0 are in the store" in found.detail
