"""A home that changes while it is read: a clear failure that names the file, never an archive of something else."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from codehub.storage_job import archive, restore
from codehub.storage_job.home import xattrs_of
from codehub.storage_job.pack import BUFFER, Packer
from codehub.storage_job.protocol import Corrupted, StoreUnreachable, Tally, TryAgain, parse_request
from codehub.storage_job.stores import Meta, open_pair
from tests.storage_job.hostile import squeezed, tar_of
from tests.storage_job.job import Store, encoded

CHANGES: dict[str, Callable[[Path], object]] = {
    "grows": lambda home: append(home / "file", b"more"),
    "shrinks": lambda home: os.truncate(home / "file", BUFFER + 10),
    "is emptied": lambda home: os.truncate(home / "file", 0),
    "is written over": lambda home: overwrite(home / "file"),
    "gets another mode": lambda home: (home / "file").chmod(0o600),
    "another appears": lambda home: (home / "new").write_text("new"),
    "another vanishes": lambda home: (home / "other").unlink(),
    "a folder is moved": lambda home: (home / "folder").rename(home / "moved"),
}


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(3 * BUFFER)
        file.write(b"something else")


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_in_the_middle_fails_the_job(change: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (home / "other").write_text("other")
    (home / "file").write_bytes(b"x" * (4 * BUFFER))
    for path in (home / "file", home):
        os.utime(path, ns=(10**18, 10**18))
    request = Store((tmp_path / "store").as_uri()).request("archive", home)
    target, meta = open_pair(parse_request(encoded(request)))
    todo = [CHANGES[change]]
    root = os.open(home, os.O_RDONLY)

    def feed(write: Callable[[memoryview], object]) -> None:
        def act_and_write(data: memoryview) -> None:
            if todo:  # after the first megabyte, which is in the middle of the large file
                todo.pop()(home)
            write(data)

        Packer(root, act_and_write, Tally()).pack()

    with pytest.raises(TryAgain, match="read"):
        archive.store(target, meta, feed, Tally())
    os.close(root)
    assert not todo
    assert list((tmp_path / "store").rglob("home*")) == [], "nothing of it is kept"


def test_a_stage_that_dies_fails_the_job(tmp_path: Path) -> None:
    """The store's side fails in the middle: its error comes out, and the reading side does not wait for ever."""
    request = Store((tmp_path / "store").as_uri()).request("archive", tmp_path)
    target, meta = open_pair(parse_request(encoded(request)))
    folder = Path(request["archive_url"].removeprefix("file://")).parent
    folder.mkdir(parents=True)

    def feed(write: Callable[[memoryview], object]) -> None:
        for number in range(200):
            if number == 20:
                for unfinished in folder.iterdir():
                    unfinished.unlink()
            write(memoryview(os.urandom(1 << 18)))

    with pytest.raises(TryAgain):
        archive.store(target, meta, feed, Tally())
    assert list(folder.iterdir()) == []


@dataclass
class Forgetful:
    """A store that takes everything, says so, and keeps less."""

    kept: int = 0

    def size(self) -> int | None:
        return max(self.kept - 1, 0)

    def content(self, most: int) -> bytes | None:
        raise NotImplementedError

    def chunks(self) -> Iterator[bytes]:
        raise NotImplementedError

    def write(self, chunks: Iterable[bytes | memoryview], moved: Callable[[int], None]) -> None:
        self.kept = sum(map(len, chunks))
        moved(self.kept)


def test_a_store_that_does_not_hold_what_was_sent_gets_no_meta() -> None:
    target, meta = Forgetful(), Forgetful()
    with pytest.raises(TryAgain, match="does not hold"):
        archive.store(target, meta, lambda write: write(memoryview(b"x" * 5000)), Tally())
    assert (target.kept > 0, meta.kept) == (True, 0)


def test_attributes_that_cannot_be_read_are_not_held_to_be_none(tmp_path: Path) -> None:
    """Only a file system that has none has none to keep."""
    (tmp_path / "file").write_text("x")
    fd = os.open(tmp_path / "file", os.O_PATH)  # with which they cannot be listed
    with pytest.raises(OSError, match="Bad file descriptor"):
        xattrs_of(fd)
    os.close(fd)


@dataclass
class Breaking:
    """A store that ends in the middle of an archive, with an error or as if that were all."""

    whole: bytes
    error: Exception | None

    def size(self) -> int:
        return len(self.whole)

    def content(self, most: int) -> bytes:
        return self.whole[:most]

    def chunks(self) -> Iterator[bytes]:
        yield self.whole[: len(self.whole) // 2]
        if self.error:
            raise self.error

    def write(self, chunks: Iterable[bytes | memoryview], moved: Callable[[int], None]) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("error", [StoreUnreachable("out"), OSError("disk"), None])
def test_a_store_that_breaks_off_is_no_damaged_archive(error: Exception | None, tmp_path: Path) -> None:
    """What the store said comes out, not that the archive could not be decompressed."""
    whole = squeezed(tar_of(("file", os.urandom(3 << 20), {})))
    request = parse_request(encoded(Store(tmp_path.as_uri()).request("restore", tmp_path)))
    root = os.open(tmp_path, os.O_RDONLY)
    known = Meta(hashlib.sha256(whole).hexdigest(), len(whole))
    with pytest.raises(type(error) if error else Corrupted):
        restore.unpack(Breaking(whole, error), known, root, request, Tally())
    os.close(root)
