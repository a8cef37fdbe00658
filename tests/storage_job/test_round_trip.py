"""What goes in comes out, attribute by attribute."""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from codehub.storage_job.marker import ATTRIBUTE, Marker
from tests.storage_job.homes import make_nasty_home, remove, snapshot
from tests.storage_job.hostile import meta_of, squeezed
from tests.storage_job.job import Store, done, restored_from
from tests.support import skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store((tmp_path / "store").as_uri())


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("nasty") / "home"
    make_nasty_home(home)
    yield home
    remove(home)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "volume"
    folder.mkdir()
    yield folder
    remove(folder)


def test_a_nasty_home_comes_back_exactly(nasty: Path, volume: Path, store: Store) -> None:
    before = snapshot(nasty)
    request = store.request("archive", nasty)
    archived = done(request)
    assert archived["left_out"] == (2 if (nasty / "device").exists() else 1)
    result = done(restored_from(request, volume))
    assert result["restore_marker"] == request["archive_key"]
    assert result["dropped"] == 0
    assert result["files_done"] == archived["files_done"] == len(before)
    after = snapshot(volume)
    assert sorted(after) == sorted(before)
    for path, picture in before.items():
        assert after[path] == picture, path
    assert snapshot(nasty) == before, "archiving changed the home"


def test_the_archive_is_a_tar_that_others_can_read(nasty: Path, tmp_path: Path, store: Store) -> None:
    """GNU tar and Python list the same names as we do."""
    request = store.request("archive", nasty)
    done(request)
    packed = Path(request["archive_url"].removeprefix("file://"))
    plain = tmp_path / "plain.tar"
    with packed.open("rb") as source, plain.open("wb") as target:
        zstandard.ZstdDecompressor().copy_stream(source, target)
    with tarfile.open(plain) as tar:
        names = {os.fsencode(member.name) for member in tar}
    assert names == set(snapshot(nasty))
    if shutil.which("tar"):
        listed = subprocess.run(["tar", "-tf", str(plain)], check=True, capture_output=True)
        assert len(listed.stdout.splitlines()) == len(names)


def test_a_tar_made_by_gnu_tar_is_restored(nasty: Path, volume: Path, tmp_path: Path, store: Store) -> None:
    """An archive may be put there by hand."""
    if not shutil.which("tar"):
        skip("the program tar", "apt install tar")
    home = tmp_path / "home"
    shutil.copytree(nasty / "plain", home, ignore=shutil.ignore_patterns("fifo"))
    made = subprocess.run(["tar", "-C", str(home), "-cf", "-", "."], check=True, capture_output=True)
    request = store.request("restore", volume)
    target = Path(request["archive_url"].removeprefix("file://"))
    target.parent.mkdir(parents=True)
    target.write_bytes(squeezed(made.stdout))
    target.with_name(target.name + ".meta").write_bytes(meta_of(target.read_bytes()))
    done(request)
    assert {path: seen.get("content") for path, seen in snapshot(volume).items()} == {
        path: seen.get("content") for path, seen in snapshot(home).items()
    }


def test_an_empty_home_and_an_empty_archive(tmp_path: Path, volume: Path, store: Store) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o751)
    request = store.request("archive", home)
    done(request)
    done(restored_from(request, volume))
    assert snapshot(volume) == snapshot(home)
    (volume / "left over").write_text("x")
    volume.chmod(0o711)
    made = store.request("empty", volume)
    assert done(made)["skipped"] is False
    assert done(made)["skipped"] is True
    done(restored_from(made, volume))
    assert list(volume.iterdir()) == []
    assert volume.stat().st_mode & 0o777 == 0o711, "an archive of nothing says nothing about the root"


@pytest.mark.exhaustive
def test_a_very_deep_home(tmp_path: Path, volume: Path, store: Store) -> None:
    """Deeper than any limit on open files, and longer than any path may be."""
    home = tmp_path / "home"
    home.mkdir()
    fd = os.open(home, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deep", dir_fd=fd)
        below = os.open("deep", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=fd))
    os.close(fd)
    request = store.request("archive", home)
    assert done(request)["files_done"] == 3001
    again = restored_from(request, volume)
    assert done(again)["files_done"] == 3001
    assert snapshot(volume) == snapshot(home)
    done({**again, "op_id": "another"})  # which empties it first
    remove(home)


def test_leftovers_go_and_the_drivers_notes_stay(nasty: Path, volume: Path, store: Store) -> None:
    request = store.request("archive", nasty)
    done(request)
    (volume / "left" / "over").mkdir(parents=True)
    (volume / "left" / "over" / "file").write_text("x")
    (volume / "plain").symlink_to("/etc")
    os.setxattr(volume, "user.codehub.incarnation", b"7")
    os.setxattr(volume, "user.left", b"over")
    os.setxattr(volume, ATTRIBUTE, b"an earlier operation")
    again = restored_from(request, volume)
    done(again)
    assert snapshot(volume) == snapshot(nasty)
    assert os.getxattr(volume, "user.codehub.incarnation") == b"7"
    assert os.getxattr(volume, ATTRIBUTE).decode() == again["op_id"]


def test_a_restore_that_is_done_does_nothing(tmp_path: Path, volume: Path, store: Store) -> None:
    home = tmp_path / "home"
    home.mkdir()
    request = store.request("archive", home)
    done(request)
    again = restored_from(request, volume)
    done(again)
    (volume / "new").write_text("the user's work since")
    assert done(again) | {"skipped": True, "restore_marker": request["archive_key"]} == done(again)
    assert (volume / "new").exists()


def test_an_archive_that_is_done_is_not_made_again(tmp_path: Path, store: Store) -> None:
    home = tmp_path / "home"
    home.mkdir()
    request = store.request("archive", home)
    first = done(request)
    (home / "new").write_text("x")
    second = done(request)
    assert second["skipped"] is True
    assert second["archive"] == first["archive"]


@pytest.mark.parametrize("damage", ["object cut", "object gone", "meta damaged", "meta gone"])
def test_an_archive_that_is_not_whole_is_made_again(damage: str, tmp_path: Path, volume: Path, store: Store) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").write_text("x")
    request = store.request("archive", home)
    made = done(request)["archive"]
    target, meta = (Path(request[name].removeprefix("file://")) for name in ("archive_url", "meta_url"))
    path = target if damage.startswith("object") else meta
    if damage.endswith("gone"):
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20])
    again = done(request)
    assert (again["skipped"], again["archive"]) == (False, made)
    done(restored_from(request, volume))
    assert snapshot(volume) == snapshot(home)


def test_an_archive_of_the_first_generation(tmp_path: Path, volume: Path, store: Store) -> None:
    """Its meta is one line, without the size: restored, and not made again."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").write_text("old")
    request = store.request("archive", home)
    made = done(request)["archive"]
    meta = Path(request["meta_url"].removeprefix("file://"))
    for old in (f"sha256:{made['sha256']}\n", f"sha256:{made['sha256']}"):
        meta.write_text(old)
        restored = done(restored_from(request, volume))
        assert (restored["skipped"], restored["archive"]) == (False, made)
        assert snapshot(volume) == snapshot(home)
        again = done(request)
        assert (again["skipped"], again["archive"]) == (True, made)
    assert meta.read_text() == old


def test_without_extended_attributes_the_note_is_a_file(tmp_path: Path, store: Store) -> None:
    """A file system without user attributes is not at hand, so the marker is asked itself."""
    note = tmp_path / "note"
    with (tmp_path / "plain file").open("w") as file:
        marker = Marker(file.fileno(), str(note))
        os.set_inheritable(file.fileno(), False)
        marker._write_file("op")
        assert marker.read() == "op"
        marker.clear()
        assert marker.read() is None
