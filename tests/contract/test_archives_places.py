"""What is particular to a folder and to a bucket: unfinished uploads, links, prefixes, copies in parts, job inputs."""

import asyncio
import errno
import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from obstore.store import S3Store as ObstoreS3

from codehub.drivers.archive_store.folder import MARKER, FolderObjects
from codehub.drivers.archive_store.meta import EMPTY_ARCHIVE, Meta, parse
from codehub.drivers.archives import ArchiveStore, Limits, S3Options
from codehub.errors import DriverError, SettingsError, Unreachable
from codehub.model.observation import ArchiveSeen
from tests.contract.s3 import S3Server
from tests.contract.stores import PREFIX, FolderStore, S3Store, listed, meta_of, new_key
from tests.support import eventually_async

MIB = 1 << 20
SMALL_PARTS = Limits(part_bytes=5 * MIB)


@pytest.fixture
async def folder(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "store")
    await store.archives.prepare()
    return store


@pytest.fixture
def bucket(s3_server: S3Server) -> S3Store:
    return S3Store(s3_server)


# -- the meta --------------------------------------------------------------------------------------------------------


def test_a_meta_is_two_lines() -> None:
    digest = "ab" * 32
    assert parse(f"sha256:{digest}\nsize:12\n".encode(), 99) == Meta(digest, 12)
    assert parse(f"sha256:{digest}\nsize:12".encode(), 99) == Meta(digest, 12)
    assert Meta(digest, 12).encode() == f"sha256:{digest}\nsize:12\n".encode()


def test_an_old_meta_has_no_size() -> None:
    digest = "ab" * 32
    assert parse(f"sha256:{digest}\n".encode(), 99) == Meta(digest, 99)
    assert parse(f"sha256:{digest}".encode(), 99) == Meta(digest, 99)


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"sha256:", b"sha256:" + b"g" * 64, b"sha256:" + b"A" * 64, b"md5:" + b"a" * 64]
    + [
        b"sha256:" + b"a" * 64 + rest
        for rest in (b"a", b"\nsize:", b"\nsize:-1", b"\nsize:1\n\n", b"\nsize:1\nmore:2", b" ")
    ],
)
def test_anything_else_is_no_meta(text: bytes) -> None:
    assert parse(text, 1) is None


async def test_an_archive_of_the_first_generation_verifies_by_its_checksum(folder: FolderStore) -> None:
    key = new_key()
    await folder.put_archive(key, b"data")
    await folder.write(f"{key}.meta", meta_of(b"data").splitlines()[0])
    assert await folder.archives.verify(key) is ArchiveSeen.VERIFIED
    await folder.write(key, b"date")
    assert await folder.archives.verify(key) is ArchiveSeen.CORRUPTED


def test_the_empty_archive_is_a_tar_of_nothing() -> None:
    plain = zstandard.ZstdDecompressor().decompress(EMPTY_ARCHIVE)
    with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
        assert archive.getmembers() == []


# -- the folder ------------------------------------------------------------------------------------------------------


async def test_what_a_killed_upload_left_in_a_folder_is_found_and_removed(folder: FolderStore) -> None:
    whole, half = new_key(), new_key()
    await folder.put_archive(whole)
    await folder.write(f"{whole}#2", b"left over from an earlier try")
    await folder.write(f"{half}#1", b"")
    found = await listed(folder.archives)
    assert {key: archive.complete for key, archive in found.items()} == {whole: True, half: False}
    await folder.archives.delete(half)
    await folder.archives.delete(whole)
    assert [path.name for path in folder.root.rglob("*") if path.is_file()] == [MARKER]


async def test_deleting_removes_folders_that_became_empty_and_no_others(folder: FolderStore) -> None:
    one, other = new_key(), new_key()
    await folder.put_archive(one)
    await folder.put_archive(other)
    await folder.archives.delete(one)
    assert not (folder.root / PREFIX / one.split("/")[0]).exists()
    assert await folder.archives.verify(other) is ArchiveSeen.VERIFIED


@pytest.mark.parametrize("level", ["file", "folder"])
async def test_links_in_a_folder_are_not_followed(folder: FolderStore, tmp_path: Path, level: str) -> None:
    key = new_key()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "home.tar.zst").write_bytes(b"secret")
    (outside / "home.tar.zst.meta").write_bytes(meta_of(b"secret"))
    path = folder.root / PREFIX / key
    if level == "file":
        path.parent.mkdir(parents=True)
        path.symlink_to(outside / "home.tar.zst")
        path.with_name("home.tar.zst.meta").symlink_to(outside / "home.tar.zst.meta")
    else:
        path.parent.parent.mkdir(parents=True)
        path.parent.symlink_to(outside)
    assert await folder.archives.look(key) is ArchiveSeen.MISSING
    assert await listed(folder.archives) == {}
    if level == "folder":
        with pytest.raises(DriverError):
            await folder.archives.make_empty(key)
    await folder.archives.delete(key)
    assert (outside / "home.tar.zst").read_bytes() == b"secret"


async def test_a_failed_copy_leaves_nothing_in_the_folder(folder: FolderStore, tmp_path: Path) -> None:
    source, target = new_key(), new_key()
    await folder.put_archive(source)
    path = folder.root / PREFIX / target
    path.mkdir(parents=True)  # a folder is where the object should go
    with pytest.raises(DriverError):
        await folder.archives.copy(source, target)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


async def test_other_things_in_the_folder_are_shown_and_do_no_harm(folder: FolderStore) -> None:
    await folder.write("notes.txt", b"")
    await folder.write("a/b/home.tar.zst", b"")
    os.mkfifo(folder.root / PREFIX / "fifo")
    (folder.root / "outside-the-prefix").write_text("")
    found = await listed(folder.archives)
    assert sorted(found) == ["a/b/home.tar.zst", "notes.txt"]
    assert not any(archive.complete for archive in found.values())


async def test_what_a_folder_vouches_for_is_on_the_disk(folder: FolderStore) -> None:
    synced: list[Path] = []

    def recording(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink())
        os.fsync(file)

    archives = ArchiveStore(FolderObjects(folder.root, Limits(), recording), PREFIX)
    key, written_by_a_job = new_key(), new_key()
    path = folder.root / PREFIX / key
    await archives.make_empty(key)
    assert any(f"{path}#" in str(file) for file in synced)
    assert any(f"{path}.meta#" in str(file) for file in synced)
    assert {path.parent, path.parent.parent} <= set(synced)
    synced.clear()
    await folder.put_archive(written_by_a_job)
    await archives.verify(written_by_a_job)
    path = folder.root / PREFIX / written_by_a_job
    assert {path, path.with_name("home.tar.zst.meta"), path.parent, path.parent.parent, folder.root} <= set(synced)


async def test_what_does_not_get_to_the_disk_is_not_vouched_for(folder: FolderStore) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    archives = ArchiveStore(FolderObjects(folder.root, Limits(), failing), PREFIX)
    made, written_by_a_job = new_key(), new_key()
    with pytest.raises(Unreachable, match=os.strerror(errno.EIO)):
        await archives.make_empty(made)
    assert await folder.archives.verify(made) is ArchiveSeen.MISSING
    await folder.put_archive(written_by_a_job)
    assert await archives.verify(written_by_a_job) is ArchiveSeen.UNREACHABLE


# -- the bucket ------------------------------------------------------------------------------------------------------


async def test_a_large_archive_is_copied_in_parts_on_the_server(bucket: S3Store) -> None:
    source, target = new_key(), new_key()
    await bucket.put_archive(source, os.urandom(23 * MIB))
    server = bucket.server
    archives = ArchiveStore.open(server.url, prefix=bucket.prefix, s3=server.options, limits=SMALL_PARTS)
    await archives.copy(source, target)
    assert await archives.verify(target) is ArchiveSeen.VERIFIED
    assert await bucket.same(source, target)
    assert server.uploads() == []


@pytest.mark.parametrize("most", [5 << 30, 5 * MIB], ids=["in one piece", "through us"])
async def test_without_keys_of_our_own_a_copy_is_made_too(
    bucket: S3Store, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    options = bucket.server.options
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", str(options.access_key_id))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", str(options.secret_access_key))
    keyless = replace(options, access_key_id=None, secret_access_key=None)
    limits = replace(SMALL_PARTS, one_copy_bytes=most)
    archives = ArchiveStore.open(bucket.server.url, prefix=bucket.prefix, s3=keyless, limits=limits)
    source, target = new_key(), new_key()
    await bucket.put_archive(source, os.urandom(12 * MIB))
    await archives.copy(source, target)
    assert await archives.verify(target) is ArchiveSeen.VERIFIED


@pytest.mark.parametrize("how", ["the source vanishes", "cancelled"])
async def test_a_copy_that_fails_leaves_no_upload_behind(bucket: S3Store, how: str) -> None:
    server = bucket.server
    source, target = new_key(), new_key()
    data = os.urandom(60 * MIB)
    await bucket.put_archive(source, data)
    archives = ArchiveStore.open(server.url, prefix=bucket.prefix, s3=server.options, limits=SMALL_PARTS)

    async def has_begun() -> bool:
        return await asyncio.to_thread(lambda: any(target in path for path in server.uploads())) or copying.done()

    copying = asyncio.create_task(archives.copy(source, target))
    await eventually_async(has_begun, "the copy has begun")
    if how == "cancelled":
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
    else:
        await bucket.remove(source)
        with pytest.raises(DriverError):
            await copying
    assert server.uploads() == []
    assert await archives.look(target) is ArchiveSeen.MISSING


async def test_an_upload_that_nobody_ended_is_found_and_removed(bucket: S3Store) -> None:
    server = bucket.server
    left, whole = new_key(), new_key()
    await bucket.put_archive(whole)
    for key in (left, whole):
        server.request("POST", bucket.prefix + key, {"uploads": ""}).raise_for_status()
    found = await listed(bucket.archives)
    assert {key: archive.complete for key, archive in found.items()} == {whole: True, left: False}
    await bucket.archives.delete(left)
    assert server.uploads() == [bucket.prefix + whole]
    await bucket.archives.delete(whole)
    assert server.uploads() == []
    assert await listed(bucket.archives) == {}


async def test_a_prefix_is_exact(s3_server: S3Server) -> None:
    key = new_key()
    stores = {
        prefix: ArchiveStore.open(s3_server.url, prefix=prefix, s3=s3_server.options) for prefix in ("p", "p1/", "p/q")
    }
    await stores["p1/"].make_empty(key)
    assert await stores["p"].look(key) is ArchiveSeen.MISSING
    assert await listed(stores["p"]) == {}
    await stores["p/q"].make_empty(key)
    assert set(await listed(stores["p"])) == {f"q/{key}"}
    assert set(await listed(stores["p/q"])) == {key}
    for prefix in ("p1/", "p/q"):
        await stores[prefix].delete(key)


@pytest.mark.parametrize("prefix", ["/", "/abs", "..", "a/../b", "a//b", "a b", "./a", "a\n"])
def test_a_prefix_that_could_mean_something_else_is_refused(prefix: str) -> None:
    with pytest.raises(SettingsError, match="ARCHIVE_PREFIX"):
        ArchiveStore.open("file:///somewhere", prefix=prefix)


@pytest.mark.parametrize(
    "url", ["", "/folder", "file://", "file:///", "file://host/folder", "s3://", "s3://b/path", "http://x"]
)
def test_a_url_that_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="ARCHIVE_URL"):
        ArchiveStore.open(url)


# -- what jobs are given ---------------------------------------------------------------------------------------------


async def test_a_job_is_given_what_it_needs_to_reach_the_store(bucket: S3Store) -> None:
    key = new_key()
    await bucket.put_archive(key)
    job = bucket.archives.job_urls(key)
    assert job.archive_url == f"s3://codehub/{bucket.prefix}{key}"
    assert job.meta_url == f"{job.archive_url}.meta"
    store = json.loads(json.dumps(job.store))
    allow_http: bool = store.pop("allow_http")
    meta = ObstoreS3("codehub", config=store, client_options={"allow_http": allow_http}).head(
        f"{bucket.prefix}{key}.meta"
    )
    assert meta["size"] > 0
    assert str(bucket.server.options.secret_access_key) not in repr(job) + repr(bucket.server.options)


async def test_a_job_on_a_folder_is_given_paths(tmp_path: Path) -> None:
    key = new_key()
    store = ArchiveStore.open((tmp_path / "with space").as_uri(), prefix="")
    await store.prepare()
    job = store.job_urls(key)
    assert job.archive_url == f"{tmp_path.as_uri()}/with%20space/{key}"
    assert job.store == {}


def test_the_bucket_may_be_in_the_name_of_the_host() -> None:
    options = S3Options(endpoint="https://s3.example", virtual_hosted=True)
    store = ArchiveStore.open("s3://b", s3=options).job_urls(new_key()).store
    assert store["endpoint"] == "https://b.s3.example"
    assert store["virtual_hosted_style_request"] is True


async def test_no_job_is_sent_to_a_folder_whose_disk_is_not_mounted(tmp_path: Path) -> None:
    """It would take every archive for lost, and write new ones where they vanish once the disk is back."""
    root, key = tmp_path / "disk", new_key()
    store = ArchiveStore.open(root.as_uri())
    await store.prepare()
    assert store.job_urls(key).archive_url.startswith(root.as_uri())
    root.rename(tmp_path / "elsewhere")
    root.mkdir()  # the mount point
    with pytest.raises(Unreachable):
        store.job_urls(key)
