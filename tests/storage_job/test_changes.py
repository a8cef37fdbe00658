"""A home that changes while it is read: a clear failure that names the file, never an archive of something else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from codehub.storage_job import archive
from codehub.storage_job.pack import BUFFER, Packer
from codehub.storage_job.protocol import Tally, TryAgain, parse_request
from codehub.storage_job.stores import open_pair
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
        archive.store(target, meta, feed)
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

    with pytest.raises(FileNotFoundError):
        archive.store(target, meta, feed)
    assert list(folder.iterdir()) == []
