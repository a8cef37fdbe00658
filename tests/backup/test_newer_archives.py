"""After an old database was restored: what is newer than it is seen, kept, and can be had again."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast
from uuid import uuid4

import psycopg
import pytest

from codehub.backup import adopting, standing
from codehub.backup.adopting import Chosen
from codehub.backup.restoring import restore
from codehub.backup.standing import Standing
from codehub.backup.unknown import unknown
from codehub.coordinator.collect import GcReport
from codehub.coordinator.records import DatabaseRecords
from codehub.db import adopting as adopting_rows
from codehub.db import backups, migrate
from codehub.db.pool import Connection, Role, open_pool
from codehub.drivers.base import Archives
from codehub.drivers.memory.faults import Misbehaviour
from codehub.drivers.memory.things import Volume
from codehub.model.gc import FoundArchive
from codehub.model.workspace import ArchiveKey, Incarnation, InstanceBackend, OpId, WorkspaceId
from codehub.signals.connect import Redis
from tests.backup.support import back_up, rows_of
from tests.coordinator.collecting import Store, Watched, owner_of
from tests.db.support import add_workspace, change

WORKSPACES = 12  # with three archives each


@pytest.fixture
def later() -> "Later":
    return Later()


@pytest.fixture
async def store(owner: Connection, database: str, redis: Redis) -> AsyncIterator[Store]:
    async with open_pool(database, Role.CONTROLLER) as controller, open_pool(database, Role.API) as api:
        yield Store(owner, redis, Watched(DatabaseRecords(controller, api)))


async def adopt(store: Store, database: str, moment: datetime) -> tuple[Chosen, list[WorkspaceId]]:
    """As `codehub restore` does it."""
    found = await compared(store, database, moment)
    backends = {InstanceBackend.PROCESS: store.world.backend()}
    homes = await adopting.look_for_homes(backends, await adopting_rows.homes(database, found.adoptable))
    wanted = {who: better for who, better in found.adoptable.items() if who not in homes.live}
    chosen = await adopting.choose(wanted, store.world.archives)
    adopted = await adopting_rows.adopt(database, chosen.adoptions, moment, homes.absent, backends)
    return chosen, list(adopted)


async def compared(store: Store, database: str, moment: datetime) -> Standing:
    memory = await backups.remembered(database)
    return await standing.compare(await backups.known(database), store.world.archives, moment, memory)


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
                key = await store.put_remembered(owner_of(archive))
                keys.append(key)
                self._age(store, [key], hours=hours)
            await change(store.owner, owner_of(archive), archive_key=self.third[-1])
        self.strange = store.put(WorkspaceId(uuid4()))
        await store.waited(*self.second, *self.third, self.strange)

    def _age(self, store: Store, keys: list[ArchiveKey], *, hours: int) -> None:
        for key in keys:
            store.world.stored[key].modified_at -= timedelta(hours=hours)


async def test_every_newer_archive_stays_and_is_told(store: Store, database: str, path: Path, later: Later) -> None:
    await later.happen(store, database, path)
    everything = set(store.world.stored)
    report = await store.collector.collect(dry_run=True)
    assert (report.stopped, report.unremembered) == (None, ()), "the right database remembers all of it"
    manifest = await restore(path, database, force=True)

    report = await store.collector.collect()
    assert (report.deleted, set(store.world.stored)) == (0, everything)
    assert set(report.unremembered) == {*later.second, *later.third}
    assert report.foreign == (later.strange,)

    found = await compared(store, database, manifest.moment)
    assert {one.key for one in found.newer} == {*later.second, *later.third, later.strange}
    assert [one.key for one in found.newer if not one.of_known] == [later.strange]
    assert {better.archives[0].key for better in found.adoptable.values()} == set(later.third)
    assert found.missing == []

    _, adopted = await adopt(store, database, manifest.moment)
    assert len(adopted) == WORKSPACES
    report = await store.collector.collect()
    assert (report.stopped, set(report.unremembered)) == (None, set(later.second))
    assert set(later.third) <= set(store.world.stored)
    assert later.strange in store.world.stored


async def restored_with_gc(store: Store, database: str, path: Path) -> GcReport:
    """A restore, and a collection when every orphan's time has come."""
    await restore(path, database, force=True)
    await store.waited(*store.world.stored)
    return await store.collector.collect()


async def test_what_was_being_archived_at_the_backup_may_have_become_its_home_since(
    store: Store, database: str, path: Path
) -> None:
    """All that the backup knows is that it was begun."""
    identity, old = await store.add(phase="STANDBY")
    making = OpId(uuid4())
    await change(store.owner, identity, operation="ARCHIVING", op_id=making, op_started_at=datetime.now(UTC))
    await back_up(path, database, store.world)
    made = store.put(identity, op_id=making)
    newest = await store.put_remembered(identity)
    store.world.stored[newest].modified_at += timedelta(minutes=1)  # so that being the newest does not save it
    report = await restored_with_gc(store, database, path)
    assert set(report.unremembered) == {made, newest}
    assert {old, made, newest} == set(store.world.stored)
    ((drawn, operation),) = rows_of(database, "SELECT op_id, operation FROM workspaces")
    assert drawn != making
    assert operation == "NONE", "it begins anew, under an op_id that was never used"


async def test_what_was_complete_at_the_backup_and_not_yet_committed_is_the_home_that_went_into_it(
    store: Store, database: str, path: Path
) -> None:
    """It was being read back; since then it was committed, and its volume is gone."""
    live = {"volume": "live", "incarnation": "then", "uid": "u"}
    await store.owner.execute("UPDATE leadership SET archives_known_since = now() - interval '1 year'")
    identity, old = await store.add(phase="STANDBY", home_ctx=live)
    left = await store.put_remembered(identity)  # by an operation that had ended: nobody relied on it then
    making = OpId(uuid4())
    await change(store.owner, identity, operation="ARCHIVING", op_id=making, op_started_at=datetime.now(UTC))
    made = store.put(identity, op_id=making)
    other, others = await store.add(phase="STANDBY", home_ctx=live)
    abandoned = OpId(uuid4())
    await change(store.owner, other, op_id=abandoned)
    given_up = store.put(other, op_id=abandoned)
    manifest = (await back_up(path, database, store.world)).manifest
    for minutes, key in ((60, old), (60, others), (1, made), (0, left), (0, given_up)):
        store.world.stored[key].modified_at = manifest.moment - timedelta(minutes=minutes, seconds=1)
    await restore(path, database, force=True)
    found = await compared(store, database, manifest.moment)
    assert [one.key for one in found.newer] == [made]
    assert (await adopt(store, database, manifest.moment))[1] == [identity]
    rows = rows_of(database, "SELECT archive_key, home_ctx ->> 'volume' FROM workspaces")
    assert set(rows) == {(made, "none"), (others, "live")}


@pytest.mark.parametrize(("marked", "then"), [(True, "live"), (False, "none")])
async def test_a_home_whose_removal_has_begun_is_not_taken_for_the_live_one_of_the_backup(
    store: Store, database: str, path: Path, marked: bool, then: str
) -> None:
    """What is removed loses its mark first: half of it may be gone, and all of it is in the newer archive."""
    live = {"volume": "live", "incarnation": "then", "uid": "u"}
    identity, old = await store.add(phase="STANDBY", home_ctx=live)
    manifest = (await back_up(path, database, store.world)).manifest
    newest = store.put(identity)
    store.world.stored[newest].modified_at = manifest.moment + timedelta(hours=1)
    store.world.volumes[identity] = Volume(Incarnation("then"), "u", marked=marked)
    await restore(path, database, force=True)
    await adopt(store, database, manifest.moment)
    named = old if marked else newest
    assert rows_of(database, "SELECT archive_key, home_ctx ->> 'volume' FROM workspaces") == [(named, then)]


async def test_a_live_home_is_given_no_archive_of_a_lost_future_and_gc_keeps_that_one(
    store: Store, database: str, path: Path
) -> None:
    """Opened from the older archive before anybody noticed that commits were lost; backed up and restored then."""
    live = {"volume": "live", "incarnation": "since", "uid": "u"}
    await store.owner.execute("UPDATE leadership SET archives_known_since = now() - interval '1 year'")
    identity, old = await store.add(phase="RUNNING", desired_state="RUNNING", home_ctx=live)
    store.world.volumes[identity] = Volume(Incarnation("since"), "u", marked=True)
    lost = store.put(identity)
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.stored[old].modified_at = manifest.moment - timedelta(hours=9)
    store.world.stored[lost].modified_at = manifest.moment - timedelta(hours=1)
    await restore(path, database, force=True)
    assert (await adopt(store, database, manifest.moment))[1] == []
    assert rows_of(database, "SELECT archive_key, conditions FROM workspaces") == [(old, {})], (
        "its owner is told nothing"
    )

    archived = await store.put_remembered(identity)  # by its TTL, from the live home
    await change(store.owner, identity, phase="ARCHIVED", archive_key=archived, home_ctx={"volume": "none"})
    await store.waited(*store.world.stored)
    report = await store.collector.collect()
    assert (report.unremembered, {lost, archived} <= set(store.world.stored)) == ((lost,), True)


async def test_what_was_in_the_trash_at_the_backup_keeps_what_it_made_since(
    store: Store, database: str, path: Path
) -> None:
    deleted = {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": datetime.now(UTC)}
    identity, old = await store.add(**deleted)
    await back_up(path, database, store.world)
    newest = await store.put_remembered(identity)
    await change(store.owner, identity, deleted_at=None, desired_state="ARCHIVED", phase="ARCHIVED", archive_key=newest)
    await restore(path, database, force=True)
    await change(store.owner, identity, deleted_at=datetime.now(UTC) - timedelta(days=30))
    await store.waited(old, newest)
    report = await store.collector.collect()
    assert (report.unremembered, report.deleted, set(store.world.stored)) == ((newest,), 1, {newest})


async def test_a_backup_of_an_older_schema_remembers_nothing_from_its_own_moment_on(
    store: Store, database: str, empty_database: str, path: Path
) -> None:
    migrate.upgrade(empty_database, "0020")
    identity = WorkspaceId(uuid4())
    async with await psycopg.AsyncConnection.connect(empty_database, autocommit=True) as conn:
        op_id = OpId(uuid4())
        present = store.put(identity, op_id=op_id)
        row = {"phase": "ARCHIVED", "desired_state": "ARCHIVED", "op_id": op_id}
        await add_workspace(conn, id=identity, **row, archive_key=present)
    replaced, lost = store.put(identity), store.put(identity)
    moment = (await back_up(path, empty_database, store.world)).manifest.moment
    store.world.stored[replaced].modified_at = moment - timedelta(hours=1)
    store.world.stored[lost].modified_at = moment + timedelta(milliseconds=1)
    store.world.stored[present].modified_at = moment + timedelta(hours=1)  # and it is no newest one
    report = await restored_with_gc(store, database, path)
    assert (report.unremembered, report.deleted) == ((lost,), 1)
    assert set(store.world.stored) == {present, lost}
    assert await store.records.remembers_since() == moment


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
    found = await compared(store, database, manifest.moment)
    assert {one.workspace: one.newest for one in found.missing} == {identity: new, lost: None}
    assert [(one, better.old, better.archives[0].key) for one, better in found.adoptable.items()] == [
        (identity, old, new)
    ]
    await change(owner, identity, operation="RESTORING", phase="ARCHIVED", desired_state="RUNNING")
    assert (await adopt(store, database, manifest.moment))[1] == [], "not under an operation that has begun"
    await change(owner, identity, operation="NONE")
    await adopt(store, database, manifest.moment)
    assert (identity, new) in rows_of(database, "SELECT id, archive_key FROM workspaces")


async def test_nothing_is_called_missing_while_the_store_is_out(store: Store, database: str, path: Path) -> None:
    await store.add()
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
    found = await compared(store, database, manifest.moment)
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
    found = await compared(store, database, manifest.moment)
    assert found.adoptable == {}, "one that it had then, and did not name, is not what it lost"
    first = store.put(identity)
    store.world.stored[first].modified_at = manifest.moment + timedelta(hours=1)
    await restore(path, database, force=True)
    found = await compared(store, database, manifest.moment)
    assert [(one, better.old) for one, better in found.adoptable.items()] == [(identity, None)]
    assert (await adopt(store, database, manifest.moment))[1] == [identity]
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
    found = await standing.compare(
        await backups.known(database), lagging, manifest.moment, await backups.remembered(database)
    )
    assert (found.missing, found.adoptable) == ([], {})


@pytest.mark.parametrize(
    "then",
    [
        {"phase": "STANDBY", "operation": "ARCHIVING", "desired_state": "ARCHIVED"},
        {"phase": "ARCHIVED", "operation": "RESTORING", "desired_state": "RUNNING"},
        {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": datetime.now(UTC)},
    ],
    ids=["being archived", "being restored", "in the trash"],
)
async def test_whatever_it_was_doing_at_the_backup_it_is_given_its_newest_archive_and_its_owner_is_told(
    owner: Connection, store: Store, database: str, path: Path, then: dict[str, object]
) -> None:
    identity, _ = await store.add(**then, op_id=uuid4())
    manifest = (await back_up(path, database, store.world)).manifest
    newest = store.put(identity)
    store.world.stored[newest].modified_at = manifest.moment + timedelta(hours=5, minutes=2)
    await restore(path, database, force=True)
    _, adopted = await adopt(store, database, manifest.moment)
    ((key, told),) = rows_of(
        database, "SELECT archive_key, conditions -> 'storage.archive_adopted' ->> 'message' FROM workspaces"
    )
    made, moment = (
        f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC" for at in (store.world.stored[newest].modified_at, manifest.moment)
    )
    assert (adopted, key) == ([identity], newest)
    assert told == f"Restored from your archive of {made}; the database was restored to {moment}."
    assert rows_of(database, "SELECT reason FROM workspace_history ORDER BY id DESC LIMIT 1") == [(told,)]
    await store.waited(*store.world.stored)
    await store.collector.collect()
    assert newest in store.world.stored


async def test_a_purged_workspace_is_given_nothing(store: Store, database: str, path: Path) -> None:
    gone = datetime.now(UTC)
    deleted = {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": gone, "purged_at": gone}
    identity, _ = await store.add(**deleted)
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.stored[store.put(identity)].modified_at = manifest.moment + timedelta(hours=1)
    await restore(path, database, force=True)
    assert (await adopt(store, database, manifest.moment))[1] == []


async def test_only_a_verified_archive_is_adopted_else_the_next_newest(store: Store, database: str, path: Path) -> None:
    identity, _ = await store.add()
    manifest = (await back_up(path, database, store.world)).manifest
    whole, damaged = store.put(identity), store.put(identity)
    for hours, key in enumerate((whole, damaged), 1):
        store.world.stored[key].modified_at = manifest.moment + timedelta(hours=hours)
    store.world.stored[damaged].damaged = True
    await restore(path, database, force=True)
    chosen, adopted = await adopt(store, database, manifest.moment)
    assert (list(chosen.damaged), adopted) == ([damaged], [identity])
    assert rows_of(database, "SELECT archive_key FROM workspaces") == [(whole,)]


async def test_what_could_not_be_read_is_not_adopted_and_is_said(store: Store, database: str, path: Path) -> None:
    identity, old = await store.add()
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.stored[store.put(identity)].modified_at = manifest.moment + timedelta(hours=1)
    await restore(path, database, force=True)
    store.world.misbehave("archives.verify", Misbehaviour.UNREACHABLE)
    chosen, adopted = await adopt(store, database, manifest.moment)
    assert (list(chosen.undecided), adopted) == ([identity], [])
    assert rows_of(database, "SELECT archive_key FROM workspaces") == [(old,)]


@pytest.mark.parametrize("there", [False, True])
async def test_a_home_that_went_into_its_archive_since_is_that_archive_unless_a_volume_is_there(
    store: Store, database: str, path: Path, there: bool
) -> None:
    """A whole volume that is there may be newer than the archive: it is never taken for gone."""
    live = {"volume": "live", "incarnation": "then", "uid": "u"}
    identity, _ = await store.add(phase="STANDBY", desired_state="STANDBY", home_ctx=live)
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.stored[store.put(identity)].modified_at = manifest.moment + timedelta(hours=1)
    if there:
        store.world.volumes[identity] = Volume(Incarnation("now"), "u", marked=True)
    await restore(path, database, force=True)
    await adopt(store, database, manifest.moment)
    assert rows_of(database, "SELECT home_ctx ->> 'volume', home_ctx ->> 'incarnation' FROM workspaces") == [
        ("live", "then") if there else ("none", None)
    ]


async def test_a_home_on_a_backend_that_was_not_looked_at_is_not_taken_for_gone(
    store: Store, database: str, path: Path
) -> None:
    """Restored where only other backends are known: its volume may be there."""
    live = {"volume": "live", "incarnation": "then", "uid": "u"}
    identity, _ = await store.add(
        phase="STANDBY", desired_state="STANDBY", home_ctx=live, instance_backend="k8s", storage_backend="k8s-pvc"
    )
    manifest = (await back_up(path, database, store.world)).manifest
    store.world.stored[store.put(identity)].modified_at = manifest.moment + timedelta(hours=1)
    await restore(path, database, force=True)
    assert (await adopt(store, database, manifest.moment))[1] == [identity]
    assert rows_of(database, "SELECT home_ctx ->> 'volume' FROM workspaces") == [("live",)]

    newest = await store.put_remembered(identity)  # of the home that was there all the time
    adopted = rows_of(database, "SELECT archive_key FROM workspaces")[0][0]
    await change(store.owner, identity, phase="ARCHIVED", archive_key=newest, home_ctx={"volume": "none"})
    await store.waited(*store.world.stored)
    assert (await store.collector.collect()).unremembered == (adopted,), "it may be newer than that home"
