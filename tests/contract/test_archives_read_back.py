"""Reading back: each byte once, by ranges, on from where it was; and never relied on for another object."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from codehub.drivers.archive_store import read_back
from codehub.drivers.archive_store.objects import Stamp
from codehub.drivers.archive_store.read_back import ReadBack
from codehub.drivers.archives import ArchiveStore, Limits
from codehub.errors import Unreachable
from codehub.model.observation import ArchiveSeen
from tests.contract.s3 import S3Server
from tests.contract.scripted import Answer, scripted_s3
from tests.contract.stores import FolderStore, RawStore, S3Store, meta_of, new_key
from tests.storage_job.wire import Wire

MIB = 1 << 20
LARGE = 24 * MIB


@pytest.fixture(params=["folder", "s3"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> RawStore:
    real = (
        FolderStore(tmp_path / "store") if request.param == "folder" else S3Store(request.getfixturevalue("s3_server"))
    )
    await real.archives.prepare()
    return real


@contextmanager
def wired(
    server: S3Server, received: Callable[[Wire, bytes], None], prefix: str
) -> Iterator[tuple[Wire, ArchiveStore]]:
    """The same bucket over a wire on which a test sees every byte."""
    port = urlsplit(server.endpoint).port
    assert port is not None
    with Wire(port, received=received) as wire:
        options = replace(server.options, endpoint=wire.endpoint)
        limits = Limits(connect=2.0, request=5.0, progress=5.0)
        yield wire, ArchiveStore.open(server.url, prefix=prefix, s3=options, limits=limits)


def cutting_at(*marks: int) -> Callable[[Wire, bytes], None]:
    """Ends the connection on which so many bytes have come, one after the other."""
    left = list(marks)

    def watch(wire: Wire, _: bytes) -> None:
        if left and wire.bytes_received >= left[0]:
            left.pop(0)
            raise OSError("cut")

    return watch


async def test_what_is_read_is_told(store: RawStore) -> None:
    key, told = new_key(), list[int]()
    await store.put_archive(key, os.urandom(9 * MIB))
    assert await store.archives.verify(key, told.append) is ArchiveSeen.VERIFIED
    assert told == [4 * MIB, 8 * MIB, 9 * MIB]


async def test_an_archive_is_read_back_once(store: RawStore) -> None:
    key, told = new_key(), list[int]()
    await store.put_archive(key, os.urandom(5 * MIB))
    assert await store.archives.verify(key, told.append) is ArchiveSeen.VERIFIED
    told.clear()
    assert await store.archives.verify(key, told.append) is ArchiveSeen.VERIFIED
    assert told == []


async def test_the_proof_is_that_process_s_own(store: RawStore, tmp_path: Path) -> None:
    key, told = new_key(), list[int]()
    await store.put_archive(key, os.urandom(5 * MIB))
    assert await store.archives.verify(key) is ArchiveSeen.VERIFIED
    again = FolderStore(tmp_path / "store") if isinstance(store, FolderStore) else store
    if isinstance(store, S3Store):
        archives = ArchiveStore.open(store.server.url, prefix=store.prefix, s3=store.server.options)
    else:
        archives = again.archives
    assert await archives.verify(key, told.append) is ArchiveSeen.VERIFIED
    assert told


@pytest.mark.parametrize("what", ["object", "object and meta", "meta"])
async def test_a_store_that_swaps_the_object_after_the_proof_is_noticed(what: str, store: RawStore) -> None:
    key, data, other = new_key(), os.urandom(5 * MIB), os.urandom(5 * MIB)
    await store.put_archive(key, data)
    assert await store.archives.verify(key) is ArchiveSeen.VERIFIED
    if "object" in what:
        await store.write(key, other)
    if "meta" in what:
        await store.write(f"{key}.meta", meta_of(other))
    seen = await store.archives.verify(key)
    if what == "object and meta":
        assert seen is ArchiveSeen.VERIFIED, "it is another one, and whole"
        await store.write(key, data)
        seen = await store.archives.verify(key)
    if what == "meta":  # what was remembered never convicts: everything is read again
        assert seen is ArchiveSeen.UNREACHABLE
        seen = await store.archives.verify(key)
    assert seen is ArchiveSeen.CORRUPTED


async def test_a_file_changed_in_place_whose_time_was_set_back_is_noticed(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    await store.archives.prepare()
    key = new_key()
    await store.put_archive(key, os.urandom(MIB))
    assert await store.archives.verify(key) is ArchiveSeen.VERIFIED
    path = next(path for path in store.root.rglob("home.tar.zst"))
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert await store.archives.verify(key) is ArchiveSeen.CORRUPTED


@pytest.mark.parametrize("tag", ['W/"e"', '"e"'])
async def test_a_weak_tag_proves_nothing(tag: str) -> None:
    data = os.urandom(MIB)
    async with scripted_s3() as server:
        server.answers = {"meta": Answer(200, meta_of(data)), "zst": Answer(200, data, tag=tag)}
        archives, told = ArchiveStore.open("s3://bucket", s3=server.options), list[int]()
        key = new_key()
        for _ in range(2):
            assert await archives.verify(key, told.append) is ArchiveSeen.VERIFIED
        assert told == ([MIB] if tag == '"e"' else [MIB, MIB])


async def test_an_object_that_is_replaced_while_it_is_read_is_no_damage() -> None:
    data = os.urandom(9 * MIB)
    async with scripted_s3() as server:
        # The look, the first block, and from then on another object.
        other = Answer(200, os.urandom(9 * MIB), tag='"f"')
        first = Answer(200, data, then=Answer(200, data, then=other))
        server.answers = {"meta": Answer(200, meta_of(data)), "zst": first}
        archives = ArchiveStore.open("s3://bucket", s3=server.options)
        key = new_key()
        assert await archives.verify(key) is ArchiveSeen.UNREACHABLE
        assert await archives.verify(key) is ArchiveSeen.CORRUPTED


async def test_connections_that_break_cost_a_block_each(s3_server: S3Server) -> None:
    store, key = S3Store(s3_server), new_key()
    await store.put_archive(key, os.urandom(LARGE))
    marks = list(range(2 * MIB, LARGE, 5 * MIB))
    with wired(s3_server, cutting_at(*marks), store.prefix) as (wire, archives):
        assert await archives.verify(key) is ArchiveSeen.VERIFIED
        # Two are on their way when one breaks, and the HTTP client may have read ahead.
        assert wire.bytes_received < LARGE + len(marks) * 3 * read_back.BLOCK


async def test_after_an_outage_it_goes_on_where_it_was(s3_server: S3Server) -> None:
    store, key = S3Store(s3_server), new_key()
    await store.put_archive(key, os.urandom(LARGE))
    before, after = list[int](), list[int]()
    is_over = threading.Event()

    def watch(wire: Wire, _: bytes) -> None:
        if wire.bytes_received > 14 * MIB and not is_over.is_set():
            raise OSError("cut")

    with wired(s3_server, watch, store.prefix) as (_, archives):
        assert await archives.verify(key, before.append) is ArchiveSeen.UNREACHABLE
        is_over.set()
        assert await archives.verify(key, after.append) is ArchiveSeen.VERIFIED
    assert before[-1] >= 8 * MIB
    assert after[0] > before[-1]


class Broken:
    """Objects on a line that breaks when much is asked for at once."""

    def __init__(self, data: bytes, largest: int) -> None:
        self.data, self.largest, self.asked = data, largest, 0

    async def part(self, _path: str, start: int, size: int, _stamp: Stamp) -> bytes:
        self.asked += 1
        if size > self.largest:
            raise Unreachable("the line broke")
        return self.data[start : start + size]


async def test_on_a_bad_line_less_is_asked_for_at_once() -> None:
    data = os.urandom(4 * MIB)
    objects = Broken(data, largest=300_000)
    read = ReadBack(objects, first_pause=0.0)
    sha256 = meta_of(data).split()[0].decode().removeprefix("sha256:")
    assert await read.sha256_of("x", Stamp(len(data), "m"), sha256, lambda _: None) == sha256
    objects.largest = 0
    asked = objects.asked
    with pytest.raises(Unreachable):
        await read.sha256_of("y", Stamp(len(data), "m"), sha256, lambda _: None)
    assert objects.asked - asked <= read_back.TRIES * read_back.AHEAD, "it has a limit"
