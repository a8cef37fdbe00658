"""A store that is full or refuses everything: an outage, and everything goes on when it is over."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codehub.drivers.archives import ArchiveStore
from codehub.errors import Unreachable
from codehub.storage_job.protocol import Exit
from tests.contract.stores import new_key
from tests.storage_job.fake_s3 import Answer, fake_s3
from tests.storage_job.homes import remove, snapshot
from tests.storage_job.job import Store, done, restored_from, run
from tests.storage_job.test_s3 import MIB, store_at
from tests.support import AS_ROOT, missing, needs_root


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "home"
    path.mkdir()
    (path / "large").write_bytes(os.urandom(20 * MIB))  # two parts
    yield path
    remove(path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of eight megabytes."""
    with mounted_disk(tmp_path / "disk", 8) as disk:
        yield disk


@contextmanager
def mounted_disk(disk: Path, megabytes: int) -> Iterator[Path]:
    needs_root("to mount a small file system")
    disk.mkdir()
    size = f"size={megabytes}m"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "small", disk], check=False, capture_output=True)
    if mounted.returncode:
        missing("root, who may mount", AS_ROOT)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((507, "XMinioStorageFull"), Exit.UNREACHABLE),
        ((403, "QuotaExceeded"), Exit.UNREACHABLE),
        ((503, "SlowDown"), Exit.UNREACHABLE),
        ((400, "EntityTooLarge"), Exit.RETRY),
        ((400, "InvalidArgument"), Exit.RETRY),
    ],
)
def test_what_a_bucket_answers_to_an_upload(answer: Answer, code: Exit, home: Path, tmp_path: Path) -> None:
    with fake_s3() as fake:
        fake.refuse = lambda method, _path, _query: answer if method in ("PUT", "POST") else None
        request = store_at(fake.endpoint, retry_seconds=0.1).request("archive", home)
        got = run(request)
        assert got.code == code, got.lines
        assert answer[1] in got.result["message"]
        assert fake.uploads == {}
        fake.refuse = lambda _method, _path, _query: None
        done(request)
        volume = tmp_path / "volume"
        volume.mkdir()
        done(restored_from(request, volume))
        assert snapshot(volume) == snapshot(home)


def test_a_full_folder(small_disk: Path, home: Path) -> None:
    request = Store(small_disk.as_uri()).request("archive", home)
    got = run(request)
    assert got.code == Exit.UNREACHABLE, got.lines
    assert "is full" in got.result["message"]
    assert [path for path in small_disk.rglob("*") if path.is_file()] == []
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    done(request)


def test_a_read_only_folder(small_disk: Path, tmp_path: Path) -> None:
    home = tmp_path / "empty"
    home.mkdir()
    request = Store(small_disk.as_uri()).request("archive", home)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    got = run(request)
    assert got.code == Exit.UNREACHABLE, got.lines
    assert "is read-only" in got.result["message"]
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    done(request)


async def test_the_archive_store_says_the_same_of_a_full_folder(small_disk: Path) -> None:
    archives, key = ArchiveStore.open(small_disk.as_uri()), new_key()
    await archives.prepare()
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(bytes(9 * MIB))
    with pytest.raises(Unreachable, match="is full"):
        await archives.make_empty(key)
    filler.unlink()
    await archives.make_empty(key)


def test_a_large_archive_leaves_the_rest_of_its_disk_free(home: Path, tmp_path: Path) -> None:
    """The database may be on it: PostgreSQL does not survive a full disk."""
    (home / "large").write_bytes(os.urandom(32 * MIB + MIB // 2))
    with mounted_disk(tmp_path / "disk", 64) as disk:
        (disk / "others").write_bytes(bytes(31 * MIB))
        request = Store(disk.as_uri()).request("archive", home)
        got = run(request)
        assert got.code == Exit.UNREACHABLE, got.lines
        assert "full" in got.result["message"]
        assert os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize > 32 * MIB, "nothing of it is left"
        (disk / "others").unlink()
        done(request)
