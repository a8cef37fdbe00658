"""What every archive store promises: drivers.base.Archives, on a folder, on a real S3 server, and by the fake."""

import asyncio
import hashlib
import inspect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.archive_store.meta import EMPTY_ARCHIVE
from codehub.drivers.base import Archives
from codehub.errors import ActionFailed, InvalidName, TerminalError, Unreachable
from codehub.model.names import archive_key, parse_archive_key
from codehub.model.observation import ArchiveSeen
from codehub.model.store_owner import StoreClaim, StoreMarker, refusal
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId
from tests.contract.stores import HARM, STORES, FolderStore, MemoryStore, S3Store, StoreUnderTest, listed, new_key

OUTSIDE = ("", "x", "../../etc/passwd", "/abs/home.tar.zst", "a/../b/home.tar.zst")


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreUnderTest:
    if request.param == "memory":
        return MemoryStore()
    real = (
        FolderStore(tmp_path / "store") if request.param == "folder" else S3Store(request.getfixturevalue("s3_server"))
    )
    await real.archives.prepare()
    return real


@pytest.fixture
async def archives(store: StoreUnderTest) -> Archives:
    return store.archives


async def test_nothing_is_missing(archives: Archives) -> None:
    assert await archives.look(new_key()) is ArchiveSeen.MISSING
    assert await archives.verify(new_key()) is ArchiveSeen.MISSING
    assert await listed(archives) == {}


async def test_its_owners_marker_is_kept_and_is_no_archive(store: StoreUnderTest) -> None:
    assert await store.archives.marker() is None
    marker = StoreMarker(
        token=uuid4(), database="1/2", holder="here:1", commits=7, written_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    )
    for one in (marker, replace(marker, database=None, is_disputed=True)):
        await store.archives.leave_marker(one)
        assert await store.archives.marker() == one
    assert await listed(store.archives) == {}
    key = new_key()
    await store.put_archive(key)
    assert set(await listed(store.archives)) == {key}


async def test_what_a_killed_leader_left_of_a_marker_goes_with_the_next(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    await store.archives.prepare()
    await store.write(".codehub-owner#17", b"half")
    await store.archives.leave_marker(
        StoreMarker(
            token=uuid4(), database=None, holder="here:1", commits=7, written_at=datetime(2026, 1, 2, tzinfo=UTC)
        )
    )
    assert not list(store.root.rglob("*#*"))


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b"{", b"x" * 10_000, b'{"token": 3}'])
async def test_a_marker_that_cannot_be_read_is_somebody_elses(tmp_path: Path, text: bytes) -> None:
    store = FolderStore(tmp_path / "store")
    await store.archives.prepare()
    await store.write(".codehub-owner", text)
    found = await store.archives.marker()
    assert found is not None
    assert refusal(found, StoreClaim((uuid4(),), None)) is not None


async def test_a_whole_archive_is_listed_and_verified(store: StoreUnderTest) -> None:
    key = new_key()
    await store.put_archive(key)
    assert await store.archives.look(key) is ArchiveSeen.LISTED
    assert await store.archives.verify(key) is ArchiveSeen.VERIFIED


@pytest.mark.parametrize("what", ["object", "meta"])
async def test_half_an_archive_is_missing(store: StoreUnderTest, what: str) -> None:
    key = new_key()
    await store.put_archive(key)
    await store.lose(key, what)
    assert await store.archives.look(key) is ArchiveSeen.MISSING
    assert await store.archives.verify(key) is ArchiveSeen.MISSING
    found = await listed(store.archives)
    assert [(f.key, f.complete) for f in found.values()] == [(key, False)]


@pytest.mark.parametrize("how", HARM)
async def test_a_damaged_archive_never_verifies(store: StoreUnderTest, how: str) -> None:
    key = new_key()
    await store.put_archive(key)
    await store.harm(key, how)
    # One flipped bit shows only when everything is read; the rest shows at a look.
    assert await store.archives.look(key) is (ArchiveSeen.LISTED if how == "flipped" else ArchiveSeen.CORRUPTED)
    assert await store.archives.verify(key) is ArchiveSeen.CORRUPTED


async def test_an_archive_is_read_in_parts_and_is_what_its_meta_says(store: StoreUnderTest) -> None:
    key = new_key()
    await store.put_archive(key)
    file = await store.archives.describe(key)
    starts = range(0, file.size, -(-file.size // 3))
    parts = [await store.archives.part(key, file, at, min(starts.step, file.size - at)) for at in starts]
    assert (len(parts), hashlib.sha256(b"".join(parts)).hexdigest()) == (3, file.sha256)


async def test_only_a_whole_archive_is_described_or_read(store: StoreUnderTest) -> None:
    key, other = new_key(), new_key()
    with pytest.raises(ActionFailed):
        await store.archives.describe(key)
    for each in (key, other):
        await store.put_archive(each)
    file = await store.archives.describe(key)
    with pytest.raises(Unreachable):
        await store.archives.part(key, replace(file, mark="of another"), 0, 1)
    await store.lose(key, "object")
    with pytest.raises(ActionFailed):
        await store.archives.part(key, file, 0, 1)
    await store.harm(other, "truncated")
    with pytest.raises(TerminalError):
        await store.archives.describe(other)


async def test_the_empty_archive_verifies(archives: Archives) -> None:
    key = new_key()
    await archives.make_empty(key)
    assert await archives.verify(key) is ArchiveSeen.VERIFIED
    await archives.make_empty(key)
    assert await archives.verify(key) is ArchiveSeen.VERIFIED


async def test_many_may_make_the_same_archive_at_once(archives: Archives) -> None:
    key = new_key()
    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(archives.make_empty(key))
    assert await archives.verify(key) is ArchiveSeen.VERIFIED
    assert set(await listed(archives)) == {key}


async def test_making_an_empty_archive_never_replaces_a_whole_one(store: StoreUnderTest) -> None:
    key, copy = new_key(), new_key()
    await store.put_archive(key)
    await store.archives.copy(key, copy)
    await store.archives.make_empty(key)
    assert await store.same(key, copy)


async def test_making_an_empty_archive_replaces_half_a_one(store: StoreUnderTest) -> None:
    key, empty = new_key(), new_key()
    await store.put_archive(key)
    await store.lose(key, "meta")
    await store.archives.make_empty(key)
    await store.archives.make_empty(empty)
    assert await store.archives.verify(key) is ArchiveSeen.VERIFIED
    assert await store.same(key, empty)


async def test_a_copy_is_the_same_and_leaves_the_source(store: StoreUnderTest) -> None:
    source, copy = new_key(), new_key()
    await store.put_archive(source)
    for _ in range(2):
        await store.archives.copy(source, copy)
        assert await store.archives.verify(source) is ArchiveSeen.VERIFIED
        assert await store.archives.verify(copy) is ArchiveSeen.VERIFIED
        assert await store.same(source, copy)


async def test_copying_onto_itself_changes_nothing(store: StoreUnderTest) -> None:
    key = new_key()
    await store.put_archive(key)
    await store.archives.copy(key, key)
    assert await store.archives.verify(key) is ArchiveSeen.VERIFIED


@pytest.mark.parametrize("what", ["object", "meta", "both"])
async def test_an_incomplete_source_is_not_copied(store: StoreUnderTest, what: str) -> None:
    source, copy = new_key(), new_key()
    if what != "both":
        await store.put_archive(source)
        await store.lose(source, what)
    with pytest.raises(TerminalError) as caught:
        await store.archives.copy(source, copy)
    assert caught.value.reason == "ArchiveCorrupted"
    assert copy not in await listed(store.archives)


@pytest.mark.parametrize("how", HARM[1:])
async def test_a_source_that_does_not_fit_its_meta_is_not_copied(store: StoreUnderTest, how: str) -> None:
    source, copy = new_key(), new_key()
    await store.put_archive(source)
    await store.harm(source, how)
    with pytest.raises(TerminalError) as caught:
        await store.archives.copy(source, copy)
    assert caught.value.reason == "ArchiveCorrupted"
    assert copy not in await listed(store.archives)


async def test_the_copy_of_a_flipped_bit_does_not_verify(store: StoreUnderTest) -> None:
    source, copy = new_key(), new_key()
    await store.put_archive(source)
    await store.harm(source, "flipped")
    await store.archives.copy(source, copy)
    assert await store.archives.verify(copy) is ArchiveSeen.CORRUPTED


@pytest.mark.parametrize("what", ["nothing", "object", "meta"])
async def test_delete_leaves_nothing_and_may_be_repeated(store: StoreUnderTest, what: str) -> None:
    key, other = new_key(), new_key()
    await store.put_archive(key)
    await store.put_archive(other)
    if what != "nothing":
        await store.lose(key, what)
    for _ in range(2):
        await store.archives.delete(key)
        assert await store.archives.look(key) is ArchiveSeen.MISSING
        assert set(await listed(store.archives)) == {other}
    assert await store.archives.verify(other) is ArchiveSeen.VERIFIED


async def test_the_listing_dates_what_it_shows(store: StoreUnderTest) -> None:
    key = new_key()
    await store.put_archive(key)
    found = (await listed(store.archives))[key]
    assert found.complete
    assert abs(found.modified_at - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("text", OUTSIDE)
async def test_a_key_of_another_form_is_refused_by_every_verb(archives: Archives, text: str) -> None:
    key, good = ArchiveKey(text), new_key()
    for call in (archives.look, archives.verify, archives.make_empty, archives.delete):
        with pytest.raises(InvalidName):
            await call(key)
    for source, target in ((key, good), (good, key)):
        with pytest.raises((InvalidName, TerminalError)):
            await archives.copy(source, target)
    assert await listed(archives) == {}


async def test_more_than_a_page_is_listed_completely(store: StoreUnderTest) -> None:
    keys = [new_key() for _ in range(510)]  # two objects each
    gate = asyncio.Semaphore(16)

    async def make(key: ArchiveKey) -> None:
        async with gate:
            await store.archives.make_empty(key)

    async with asyncio.TaskGroup() as group:
        for key in keys:
            group.create_task(make(key))
    pages = [page async for page in store.archives.found()]
    found = [archive for page in pages for archive in page]
    assert len(pages) > 1
    assert sorted(f.key for f in found) == sorted(keys)
    assert all(f.complete and parse_archive_key(f.key) for f in found)
    if not isinstance(store, MemoryStore):
        (size,) = {f.size for f in found}
        assert size > len(EMPTY_ARCHIVE), "with its meta"


async def test_one_workspaces_archives_can_be_listed(store: StoreUnderTest) -> None:
    mine, others = new_key(), new_key()
    identity = parse_archive_key(mine).workspace_id
    more = archive_key(identity, OpId(uuid4()))
    for key in (mine, more, others):
        await store.archives.make_empty(key)
    found = [archive.key async for page in store.archives.found(identity) for archive in page]
    assert sorted(found) == sorted([mine, more])
    assert [page async for page in store.archives.found(WorkspaceId(uuid4()))] == []


async def test_a_listing_need_not_be_read_to_its_end(store: StoreUnderTest) -> None:
    await store.put_archive(new_key())
    pages = store.archives.found()
    assert await anext(pages)
    assert inspect.isasyncgen(pages)
    await pages.aclose()
