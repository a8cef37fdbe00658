"""After an old database was restored: what is newer than it is seen, kept, and can be had again."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import cast
from uuid import uuid4

import pytest

from codehub.backup import standing
from codehub.backup.restoring import restore
from codehub.backup.unknown import unknown
from codehub.coordinator.records import DatabaseRecords
from codehub.db import backups
from codehub.db.pool import Connection, Role, open_pool
from codehub.drivers.base import Archives
from codehub.drivers.memory.faults import Misbehaviour
from codehub.model.gc import FoundArchive
from codehub.model.workspace import ArchiveKey, Incarnation, InstanceBackend, WorkspaceId
from codehub.signals.connect import Redis
from tests.backup.support import back_up, rows_of
from tests.coordinator.collecting import Store, Watched, owner_of
from tests.db.support import add_workspace, change

WORKSPACES = 12  # with three archives each: more orphans than is plausible


@pytest.fixture
def later() -> "Later":
    return Later()


@pytest.fixture
async def store(owner: Connection, database: str, redis: Redis) -> AsyncIterator[Store]:
    async with open_pool(database, Role.CONTROLLER) as controller, open_pool(database, Role.API) as api:
        yield Store(owner, redis, Watched(DatabaseRecords(controller, api)))


class Later:
    """A history: workspaces and a backup of them; then two more archives of each, and a workspace more."""

    def __init__(self) -> None:
        self.first: list[ArchiveKey] = []
        self.second: list[ArchiveKey] = []
        self.third: list[ArchiveKey] = []
        self.strange: ArchiveKey

    async def happen(self, store: Store, database: str, path: Path) -> None:
        for _ in range(WORKSPACES):
            self.first.append((await store.add())[1])
        self._age(store, self.first, hours=9)
        await back_up(path, database, store.world)
        for archive in self.first:
            for keys, hours in ((self.second, -3), (self.third, -6)):
                key = store.put(owner_of(archive))
                keys.append(key)
                self._age(store, [key], hours=hours)
            await change(store.owner, owner_of(archive), archive_key=self.third[-1])
        self.strange = store.put(WorkspaceId(uuid4()))
        await store.waited(*self.second, *self.third, self.strange)

    def _age(self, store: Store, keys: list[ArchiveKey], *, hours: int) -> None:
        for key in keys:
            store.world.stored[key].modified_at -= timedelta(hours=hours)


async def test_gc_stops_and_every_newer_archive_stays(store: Store, database: str, path: Path, later: Later) -> None:
    await later.happen(store, database, path)
    everything = set(store.world.stored)
    report = await store.collector.collect(dry_run=True)
    assert report.stopped is None, "with the right database all of this is plausible"
    manifest = await restore(path, database, force=True)

    report = await store.collector.collect()
    assert report.stopped is not None
    assert "implausible" in report.stopped
    assert (report.deleted, set(store.world.stored)) == (0, everything)
    assert report.foreign == (later.strange,)

    found = await standing.compare(await backups.known(database), store.world.archives, manifest.moment)
    assert {one.key for one in found.newer} == {*later.second, *later.third, later.strange}
    assert [one.key for one in found.newer if not one.of_known] == [later.strange]
    assert {new for _, new in found.adoptable.values()} == set(later.third)
    assert found.missing == []

    adopted = await backups.adopt(database, found.adoptable)
    assert len(adopted) == WORKSPACES
    report = await store.collector.collect()
    assert report.stopped is None
    assert set(later.third) <= set(store.world.stored)
    assert later.strange in store.world.stored


async def test_a_row_whose_archive_was_collected_since_can_have_the_newest(
    owner: Connection, store: Store, database: str, path: Path
) -> None:
    identity, old = await store.add()
    lost, gone = await store.add()
    manifest = (await back_up(path, database, store.world)).manifest
    new = store.put(identity)
    for key in (old, gone):
        del store.world.stored[key]
    await restore(path, database, force=True)
    found = await standing.compare(await backups.known(database), store.world.archives, manifest.moment)
    assert {one.workspace: one.newest for one in found.missing} == {identity: new, lost: None}
    assert found.adoptable == {identity: (old, new)}
    await change(owner, identity, operation="RESTORING", phase="ARCHIVED", desired_state="RUNNING")
    assert await backups.adopt(database, found.adoptable) == [], "not under an operation that has begun"
    await change(owner, identity, operation="NONE")
    await backups.adopt(database, found.adoptable)
    assert (identity, new) in rows_of(database, "SELECT id, archive_key FROM workspaces")


async def test_nothing_is_called_missing_while_the_store_is_out(store: Store, database: str, path: Path) -> None:
    await store.add()
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
    found = await standing.compare(await backups.known(database), store.world.archives, manifest.moment)
    assert found.trouble
    assert (found.missing, found.newer, found.adoptable) == ((), (), {})


async def test_what_runs_and_is_nobodys_is_told(store: Store) -> None:
    backend = store.world.backend()
    stranger = WorkspaceId(uuid4())
    await backend.volumes.create(stranger, Incarnation("x"))
    found = await unknown({InstanceBackend.PROCESS: backend}, set())
    assert list(found.volumes) == [f"ws-{stranger}-home"]
    assert (await unknown({InstanceBackend.PROCESS: backend}, {stranger})).volumes == []
    store.world.engine_out()
    assert (await unknown({InstanceBackend.PROCESS: backend}, set())).troubles


async def test_a_row_without_an_archive_can_have_the_first_one_that_was_made_since(
    owner: Connection, store: Store, database: str, path: Path
) -> None:
    identity = await add_workspace(owner, phase="STANDBY")
    before = store.put(identity)
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.stored[before].modified_at = manifest.moment - timedelta(hours=1)
    found = await standing.compare(await backups.known(database), store.world.archives, manifest.moment)
    assert found.adoptable == {}, "one that it had then, and did not name, is not what it lost"
    first = store.put(identity)
    store.world.stored[first].modified_at = manifest.moment + timedelta(hours=1)
    await restore(path, database, force=True)
    found = await standing.compare(await backups.known(database), store.world.archives, manifest.moment)
    assert found.adoptable == {identity: (None, first)}
    assert await backups.adopt(database, found.adoptable) == [identity]
    assert rows_of(database, "SELECT archive_key FROM workspaces") == [(first,)]


class Lagging:
    """A listing that does not show one archive, which is there all the same."""

    def __init__(self, archives: Archives, hidden: ArchiveKey) -> None:
        self._archives = archives
        self._hidden = hidden

    async def found(self) -> AsyncIterator[list[FoundArchive]]:
        async for page in self._archives.found():
            yield [archive for archive in page if archive.key != self._hidden]

    def __getattr__(self, name: str) -> object:
        return getattr(self._archives, name)


async def test_no_archive_takes_the_place_of_one_that_a_listing_does_not_show(
    store: Store, database: str, path: Path
) -> None:
    identity, own = await store.add()
    older = store.put(identity)
    store.world.stored[older].modified_at -= timedelta(hours=9)
    manifest = (await back_up(path, database, store.world)).manifest
    lagging = cast("Archives", Lagging(store.world.archives, own))
    found = await standing.compare(await backups.known(database), lagging, manifest.moment)
    assert (found.missing, found.adoptable) == ([], {})
