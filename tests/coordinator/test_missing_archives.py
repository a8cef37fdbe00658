"""Archives that are missing: one is lost, many are another store, and lost when an administrator says so."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.cli.checks.archives import look as doctors_look
from codehub.config import Settings
from codehub.coordinator.archive_losses import ArchiveLosses
from codehub.coordinator.controller import Controller
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.memory import Misbehaviour
from codehub.drivers.memory.things import Stored
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen
from codehub.model.suspicion import ARCHIVES, is_another_store
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    InstanceBackend,
    Operation,
    OpId,
    Phase,
    WorkspaceId,
)
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


async def in_trash(site: Installation, *, days: float = 0.0, **columns: object) -> WorkspaceId:
    """Deleted so long ago; all of it is in the store."""
    it = WorkspaceId(uuid4())
    gone = {"infra.container_ready": "ContainerNotFound", "storage.volume_ready": "VolumeNotFound"}
    return await site.add(
        id=it,
        phase="DELETING",
        desired_state="DELETED",
        deleted_at=datetime.now(UTC) - timedelta(days=days),
        archive_key=archive_key(it, OpId(uuid4())),
        conditions={name: {"status": False, "reason": reason} for name, reason in gone.items()},
        **columns,
    )


@pytest.mark.parametrize(("trashed", "archived_too"), [(1, 0), (3, 0), (1, 1), (6, 1)])
async def test_no_trash_is_gone_for_good_because_of_a_wrong_bucket(
    trashed: int, archived_too: int, site: Installation
) -> None:
    """Nothing in that store shows that it is the right one."""
    async with site.controller() as controller:
        await archived(site, controller, archived_too)
    emptied(site)
    them = [await in_trash(site) for _ in range(trashed)]
    async with site.controller() as controller:
        controller.suspect_archives(them)
        await ticks(controller, 10)
        assert await phases(site, them) == {Phase.DELETING}
        assert (trashed + archived_too > 1) is bool(controller.outages)


async def test_one_of_the_trash_is_gone_when_its_archive_is(site: Installation) -> None:
    """Others are there."""
    async with site.controller() as controller:
        await archived(site, controller, 1)
        it = await in_trash(site)
        controller.suspect_archives([it])
        await site.ticked_until(controller, it, is_at(Phase.DELETED))


@pytest.mark.parametrize("columns", [{"days": 8.0}, {"purged_at": datetime.now(UTC)}], ids=["expired", "purged"])
async def test_the_trash_that_nobody_needs_any_more_waits_for_nothing(
    columns: dict[str, Any], site: Installation
) -> None:
    """GC or a purge took its archive: under this leader, or under the one before."""
    them = [await in_trash(site, **columns) for _ in range(2)]
    async with site.controller() as controller:
        for it in them:
            await site.ticked_until(controller, it, is_at(Phase.DELETED))
        assert not controller.outages


@pytest.mark.parametrize(("left", "lost"), [(3, 0), (4, 1)])
async def test_an_outage_of_archives_ends_when_those_that_were_missing_are_back(
    site: Installation, left: int, lost: int
) -> None:
    """Not when others are there: of 40, eight among the first 20 are missing. That one of them is lost is no outage."""
    one = Stored({}, datetime.now(UTC))
    keys = []
    for number in range(40):
        it = WorkspaceId(UUID(int=number + 1))
        keys.append(archive_key(it, OpId(it)))
        await site.add(id=it, phase="ARCHIVED", desired_state="ARCHIVED", archive_key=keys[-1])
    site.world.stored.update({key: replace(one) for key in keys[8:]})
    losses = ArchiveLosses(site.world.archives, site.records, timedelta(days=7))
    for _ in range(4):
        await losses.check()
        assert losses.is_mass
    site.world.stored.update({key: replace(one) for key in keys[left + 1 : 8]})
    for _ in range(2):
        await losses.check()
        assert losses.is_mass, "as large a part is still missing"
    site.world.stored.update({key: replace(one) for key in keys[lost:8]})
    await losses.check()
    assert not losses.is_mass
    for _ in range(4):
        await losses.check()
        assert not losses.is_mass
    for number, key in enumerate(keys[:lost]):
        assert await losses.judged(WorkspaceId(UUID(int=number + 1)), key, deleted=False) is ArchiveSeen.MISSING


@pytest.mark.parametrize("of", [3, 25])
async def test_one_lost_archive_does_not_keep_a_bucket_out_that_was_put_right(site: Installation, of: int) -> None:
    were = {}
    for number in range(of):
        it = WorkspaceId(UUID(int=number + 1))
        were[archive_key(it, OpId(it))] = Stored({}, datetime.now(UTC))
        await site.add(id=it, phase="ARCHIVED", desired_state="ARCHIVED", archive_key=archive_key(it, OpId(it)))
    losses = ArchiveLosses(site.world.archives, site.records, timedelta(days=7))
    await losses.check()
    assert losses.is_mass
    del were[next(iter(were))]
    site.world.stored.update(were)
    await losses.check()
    await losses.check()
    assert not losses.is_mass


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
