"""Newer archives that a restore has yet to adopt: it is known, nobody is rolled back, and it can be gone on with."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from uuid import uuid4

import pytest
import typer

from codehub.backup import adopting
from codehub.backup.restoring import restored
from codehub.backup.standing import Better
from codehub.cli import restored as command
from codehub.cli.backup import restore as restore_command
from codehub.cli.exits import CommandError, Exit
from codehub.config import Settings
from codehub.coordinator.run import Infrastructure, open_coordinator
from codehub.db import adopting as adopting_rows
from codehub.db import adoption
from codehub.db.adoption import AdoptionDue
from codehub.db.pool import Connection
from codehub.dependencies import Degraded
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.base import Resources
from codehub.drivers.memory import MemoryWorld, Misbehaviour
from codehub.errors import StartError
from codehub.model.gc import FoundArchive
from codehub.model.names import archive_key
from codehub.model.workspace import ArchiveKey, InstanceBackend, Operation, OpId, Phase, WorkspaceId
from tests.backup.support import back_up, rows_of
from tests.coordinator.installation import Installation, installation, is_at, ticks
from tests.db.support import add_workspace, read
from tests.support import eventually_async

Unfinished = tuple[datetime, WorkspaceId, ArchiveKey]


class Ended(Exception):
    """The command was, after the restore's commit."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str) -> ArchiveStore:
    url = (tmp_path / "archives").as_uri()
    monkeypatch.setenv("ARCHIVE_URL", url)
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("CODEHUB_DATA_DIR", str(tmp_path / "no data"))
    return ArchiveStore.open(url)


@pytest.fixture
async def restored_to(owner: Connection, database: str, path: Path, store: ArchiveStore) -> Unfinished:
    """A restore that was ended before it adopted anything: its moment, a workspace, and the newest archive of that."""
    await store.prepare()
    it = WorkspaceId(uuid4())
    old, new = (archive_key(it, OpId(uuid4())) for _ in range(2))
    await store.make_empty(old)
    await add_workspace(owner, id=it, phase="ARCHIVED", desired_state="ARCHIVED", archive_key=old)
    manifest = (await back_up(path, database)).manifest
    await store.make_empty(new)
    with pytest.raises(Ended):
        async with restored(path, database, force=True, adopting=True):
            raise Ended
    return manifest.moment, it, new


def key_of(database: str) -> object:
    return rows_of(database, "SELECT archive_key FROM workspaces")[0][0]


async def test_one_that_was_ended_early_is_gone_on_with(restored_to: Unfinished, database: str) -> None:
    moment, it, new = restored_to
    assert await adoption.read(database) == AdoptionDue(moment)
    done = await command.restore(Settings.load(), None, force=False, adopt_newer=True, say=lambda _: None)
    assert (done.adopted, done.due) == ([it], None)
    assert key_of(database) == new
    with pytest.raises(StartError, match="no restore is unfinished"):
        await command.restore(Settings.load(), None, force=False, adopt_newer=True, say=lambda _: None)


async def test_nobody_needs_to_adopt_anything(restored_to: Unfinished, database: str, path: Path) -> None:
    _, _, new = restored_to
    done = await command.restore(Settings.load(), None, force=False, adopt_newer=False, say=lambda _: None)
    assert done.due is None
    assert key_of(database) != new
    async with restored(path, database, force=True):
        assert await adoption.read(database) is None


async def test_a_store_that_cannot_be_asked_leaves_it_outstanding(
    restored_to: Unfinished, database: str, path: Path, tmp_path: Path
) -> None:
    moment, _, new = restored_to
    (tmp_path / "archives").rename(tmp_path / "away")
    for file in (None, path):
        done = await command.restore(Settings.load(), file, force=True, adopt_newer=True, say=lambda _: None)
        assert done.archives.trouble
        assert done.due == AdoptionDue(moment)
        assert any("codehub restore --adopt-newer" in line for line in done.lines())
    (tmp_path / "away").rename(tmp_path / "archives")
    await command.restore(Settings.load(), None, force=False, adopt_newer=True, say=lambda _: None)
    assert key_of(database) == new


async def test_one_odd_archive_keeps_nobody_elses_from_being_adopted(owner: Connection, database: str) -> None:
    """Such as one whose key has been disabled: the store answers with an error of its own."""
    world = MemoryWorld()
    newer: dict[WorkspaceId, Better] = {}
    for _ in range(3):
        it = await add_workspace(owner, phase="ARCHIVED", desired_state="ARCHIVED")
        key = archive_key(it, OpId(uuid4()))
        await world.archives.make_empty(key)
        newer[it] = Better(None, [FoundArchive(key, world.clock(), complete=True)])
    odd = next(iter(newer))
    world.misbehave("archives.verify", Misbehaviour.FLAKY, workspace_id=odd)
    chosen = await adopting.choose(newer, world.archives)
    assert list(chosen.undecided) == [odd]
    assert {one.workspace for one in chosen.adoptions} == newer.keys() - {odd}


async def test_it_is_due_of_those_that_could_not_be_read(restored_to: Unfinished, database: str) -> None:
    moment, it, _ = restored_to
    await adopting_rows.adopt(database, [], moment, (), (), undecided=[it])
    assert await adoption.read(database) == AdoptionDue(moment, frozenset({it}))
    await adopting_rows.adopt(database, [], moment, (), ())
    assert await adoption.read(database) is None


def test_the_command_fails_while_it_is_outstanding(
    restored_to: Unfinished, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError) as wrong:
        restore_command(None)
    assert wrong.value.exit_code == Exit.USAGE
    (tmp_path / "archives").rename(tmp_path / "away")
    with pytest.raises(typer.Exit) as failed:
        restore_command(None, adopt_newer=True)
    assert failed.value.exit_code == Exit.FAILED
    assert "newer archives of workspaces are not adopted" in capsys.readouterr().out
    (tmp_path / "away").rename(tmp_path / "archives")
    restore_command(None, adopt_newer=True)


@pytest.fixture
async def site(database: str) -> AsyncIterator[Installation]:
    async with installation(database) as site:
        yield site


@pytest.mark.parametrize("phase", ["ARCHIVED", "PENDING"])
async def test_no_home_is_made_while_it_is_outstanding(site: Installation, phase: str) -> None:
    it, other = WorkspaceId(uuid4()), WorkspaceId(uuid4())
    for each in (it, other):
        key = archive_key(each, OpId(uuid4()))
        await site.world.archives.make_empty(key)
        archive = {"archive_key": key} if phase == "ARCHIVED" else {}
        await site.add(id=each, phase=phase, desired_state="RUNNING", **archive)
    due = AdoptionDue(site.world.clock(), frozenset({it}))
    async with site.controller() as controller:
        controller.hold_homes(due)
        await site.ticked_until(controller, other, is_at(Phase.RUNNING))
        await ticks(controller, 5)
        row = await read(site.owner, it)
        assert (row.status.phase, row.status.operation) == (Phase(phase), Operation.NONE)
        assert it not in site.world.volumes
        controller.hold_homes(None)
        await site.ticked_until(controller, it, is_at(Phase.RUNNING))


async def test_a_leader_holds_back_and_says_so(
    site: Installation, settings: Settings, database: str, server_redis: str
) -> None:
    it, other = WorkspaceId(uuid4()), WorkspaceId(uuid4())
    for each in (it, other):
        key = archive_key(each, OpId(uuid4()))
        await site.world.archives.make_empty(key)
        await site.add(id=each, phase="ARCHIVED", desired_state="RUNNING", archive_key=key)
    await site.owner.execute("UPDATE leadership SET adoption_due = now(), adoption_due_of = %s", [[it]])

    async def others_run() -> bool:
        return (await read(site.owner, other)).status.phase is Phase.RUNNING

    infrastructure = Infrastructure(site.world.archives, {InstanceBackend.PROCESS: site.world.backend()}, Resources())
    async with open_coordinator(settings, infrastructure, database, server_redis) as coordinator:
        running = asyncio.create_task(coordinator.run())
        await eventually_async(others_run, "the others run")
        detail = await coordinator.check()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert "newer archives of 1 workspaces are not adopted" in str(detail)
    assert isinstance(detail, Degraded)
    assert (await read(site.owner, it)).status.phase is Phase.ARCHIVED
