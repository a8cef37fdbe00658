"""What its owner closed to himself is kept as it is; what others closed is named, and nothing of theirs is changed."""

import os
import re
import shutil
import signal
import stat
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from codehub.storage_job.home import OPEN_FOLDERS
from codehub.storage_job.protocol import Exit
from tests.storage_job.homes import ACL, FOLDER_FLAGS, set_xattr, snapshot, stamp
from tests.storage_job.hostile import FOLDER, meta_of, squeezed, tar_of
from tests.storage_job.job import NOBODY, Store, done, ended, restored_from, start, unprivileged
from tests.support import AS_ROOT, first_of, missing, needs_root, short_folder, skip

# The account a home belongs to, and how to become it: root, too, may lack what lets it read everything.
OWNERS = {
    "nobody": (65534, NOBODY),
    "root without privileges": (0, ("setpriv", "--bounding-set=-dac_override,-dac_read_search")),
}


@dataclass(frozen=True)
class Place:
    """A home, a volume and a store of one owner."""

    base: Path
    uid: int
    become: tuple[str, ...]

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def volume(self) -> Path:
        return self.base / "volume"

    @property
    def store(self) -> Store:
        return Store((self.base / "store").as_uri())

    def belongs(self, *paths: Path) -> None:
        """To the owner, with the modes and times they have."""
        for path in paths:
            status = path.lstat()
            os.chown(path, self.uid, self.uid, follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(stat.S_IMODE(status.st_mode))


@pytest.fixture(params=OWNERS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    needs_root("who can make homes of others, and look into what is closed")
    uid, become = OWNERS[request.param]
    if subprocess.run([*become, "true"], capture_output=True, check=False).returncode:
        skip("a setpriv that gives up capabilities", "apt install util-linux")
    made = Place(short_folder(), uid, become)
    for path in (made.home, made.volume, made.base / "store"):
        path.mkdir()
    made.belongs(made.base, made.home, made.volume, made.base / "store")
    yield made
    subprocess.run(["rm", "-rf", str(made.base)], check=True)


def fill(place: Place) -> None:
    """Files and folders of every mode that keeps their owner out, and all kinds of things in such folders."""
    home = place.home
    for mode in (0o000, 0o200, 0o133, 0o2010, 0o4000):
        path = home / f"file-{mode:04o}"
        path.write_bytes(b"%o" % mode * 1000)
        set_xattr(path, "user.of", b"the file")
    set_xattr(home / "file-0000", "system.posix_acl_access", ACL)
    (home / "linked").hardlink_to(home / "file-0200")
    for mode in (0o000, 0o100, 0o200, 0o300, 0o400, 0o600, 0o077, 0o3000):
        folder = home / f"folder-{mode:04o}"
        (folder / "empty").mkdir(parents=True)
        (folder / "file").write_bytes(b"%o" % mode * 500)
        (folder / "link").symlink_to("file")
        os.mkfifo(folder / "fifo")
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_bytes(b"inner")
        for path in (folder, folder / "inner"):
            set_xattr(path, "user.of", b"the folder")
        set_xattr(folder, "system.posix_acl_default", ACL)
    stamp(home)
    for folder in home.glob("folder-*"):
        place.belongs(*folder.rglob("*"))
        for path in (folder / "empty", folder / "inner", folder / "file"):
            path.chmod(0)
    place.belongs(*home.iterdir())
    for path in home.glob("f*-*"):
        set_mode(path, int(path.name[-4:], 8))
    set_xattr(home / "folder-0000", "system.posix_acl_access", ACL)
    set_mode(home / "folder-0000", 0o064)
    for folder in (*home.glob("folder-*/*"), *home.iterdir(), home):  # in a way that changes no mode
        os.utime(folder, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789), follow_symlinks=False)


def set_mode(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o755, 0o000, 0o300], ids=oct)
def test_it_comes_back_exactly(place: Place, mode: int) -> None:
    """Also a home that is closed as a whole."""
    check_round_trip(place, mode)


def test_it_comes_back_exactly_where_an_access_list_is_told_before_other_attributes(place: Place) -> None:
    """As tmpfs does: the list closes the file, and who may not write may not set attributes."""
    if subprocess.run(["mount", "-t", "tmpfs", "memory", place.base], capture_output=True, check=False).returncode:
        missing("root, who may mount", AS_ROOT)
    try:
        for path in (place.home, place.volume, place.base / "store"):
            path.mkdir()
        place.belongs(place.base, place.home, place.volume, place.base / "store")
        check_round_trip(place, 0o755)
    finally:
        subprocess.run(["umount", place.base], check=True)


def check_round_trip(place: Place, mode: int) -> None:
    fill(place)
    set_mode(place.home, mode)
    before = snapshot(place.home)
    command = unprivileged(place.become)
    request = place.store.request("archive", place.home)
    got = ended(start(request, command))
    assert got.code == Exit.DONE, got.lines
    assert snapshot(place.home) == before, "archiving changed the home"
    again = restored_from(request, place.volume)
    for each, skipped in ((again, False), (again, True), ({**again, "op_id": "another"}, False)):
        got = ended(start(each, command))
        assert got.code == Exit.DONE, got.lines
        assert (got.result["skipped"], got.result["dropped"]) == (skipped, 0)
        assert snapshot(place.volume) == before


def test_a_home_that_comes_last(place: Place) -> None:
    """Others' programs name the root where they like: it is closed when everything else is there."""
    closed = {**FOLDER, "mode": 0, "uid": place.uid, "gid": place.uid}
    whole = squeezed(tar_of(*((name, b"", closed) for name in ("folder", "folder/inner", "other", "."))))
    request = place.store.request("restore", place.volume)
    target = Path(request["archive_url"].removeprefix("file://"))
    target.parent.mkdir()
    for path, data in ((target, whole), (target.with_name(target.name + ".meta"), meta_of(whole))):
        path.write_bytes(data)
    place.belongs(target.parent, *target.parent.iterdir())
    got = ended(start(request, unprivileged(place.become)))
    assert got.code == Exit.DONE, got.lines
    modes = [(place.volume / name).stat().st_mode & 0o777 for name in (".", "folder", "folder/inner", "other")]
    assert modes == [0, 0, 0, 0]


def test_the_archive_holds_the_true_modes(place: Place, tmp_path: Path) -> None:
    """And the true access lists, for tools that take both as they are."""
    fill(place)
    before = snapshot(place.home)
    request = place.store.request("archive", place.home)
    assert ended(start(request, unprivileged(place.become))).code == Exit.DONE
    plain = tmp_path / "plain.tar"
    with Path(request["archive_url"].removeprefix("file://")).open("rb") as source, plain.open("wb") as target:
        zstandard.ZstdDecompressor().copy_stream(source, target)
    with tarfile.open(plain) as tar:
        members = {os.fsencode(member.name): member for member in tar}
    prefix = "SCHILY.xattr."
    for path, member in members.items():
        if member.issym():
            continue
        assert oct(member.mode) == before[path]["mode"], path
        kept = {name: value for name, value in member.pax_headers.items() if name.startswith(prefix)}
        if not member.islnk():
            expected = {prefix + name: value for name, value in before[path].get("xattrs", {}).items()}
            assert {name: os.fsencode(value) for name, value in kept.items()} == expected, path


def test_deeper_than_folders_are_kept_open(place: Place) -> None:
    """Each is found again through the one below it, and closed again; also when the very last thing cannot be read."""
    bottom = make_deep(place, OPEN_FOLDERS * 2 + 5)
    before = snapshot(place.home)
    command = unprivileged(place.become)
    request = place.store.request("archive", place.home)
    got = ended(start(request, command))
    assert got.code == Exit.DONE, got.lines
    assert snapshot(place.home) == before
    again = restored_from(request, place.volume)
    assert ended(start(again, command)).code == Exit.DONE
    assert snapshot(place.volume) == before

    foreign = os.open("foreign", os.O_CREAT | os.O_WRONLY, 0, dir_fd=bottom)
    os.fchown(foreign, 4321, 4321)
    os.close(foreign)
    os.close(bottom)
    before = snapshot(place.home)
    got = ended(start(place.store.request("archive", place.home), command))
    assert got.code == Exit.UNARCHIVABLE, got.lines
    assert snapshot(place.home) == before, "a failure leaves something open"


def make_deep(place: Place, depth: int) -> int:
    """The last of so many folders, each closed, and with a file after the folder in it."""
    fd = os.open(place.home, FOLDER_FLAGS)
    for number in range(depth):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", FOLDER_FLAGS, dir_fd=fd)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0, dir_fd=below))
        os.chown("file", place.uid, place.uid, dir_fd=below)
        # Two on the way up, so that one is entered after its brother was left.
        os.mkdir("e", 0o300, dir_fd=below)
        os.chown("e", place.uid, place.uid, dir_fd=below)
        os.fchown(below, place.uid, place.uid)
        os.fchmod(below, (0o000, 0o300, 0o400)[number % 3])
        os.close(fd)
        fd = below
    return fd


@pytest.mark.parametrize("what", ["file", "folder", "within"])
def test_what_others_closed_is_named_and_left_alone(place: Place, what: str) -> None:
    theirs = place.home / "theirs"
    if what == "file":
        theirs.write_bytes(b"x")
    else:
        theirs.mkdir()
        (theirs / "link").symlink_to("anywhere")
    os.chown(theirs, 4321, 4321)
    set_mode(theirs, 0o004 if what == "within" else 0)  # a folder that may be listed and not entered
    before = theirs.stat()
    got = ended(start(place.store.request("archive", place.home), unprivileged(place.become)))
    assert (got.code, got.result["reason"]) == (Exit.UNARCHIVABLE, "ActionFailed"), got.lines
    assert re.search(r"make it readable, or remove it.*theirs", got.result["message"])
    after = theirs.stat()
    assert (after.st_mode, after.st_ctime_ns) == (before.st_mode, before.st_ctime_ns)


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_mode_that_could_not_be_put_back_is_not_touched(kind: str) -> None:
    """The kernel takes the set-group bit of a foreign group from whoever changes the mode."""
    needs_root("who can make homes of others, and look into what is closed")
    base = short_folder()
    place = Place(base, *OWNERS["nobody"])
    for path in (place.home, base / "store"):
        path.mkdir()
        place.belongs(path)
    path = place.home / "shared"
    if kind == "file":
        path.write_bytes(b"x")
    else:
        path.mkdir()
    os.chown(path, place.uid, 4321)
    set_mode(path, 0o2000)
    got = ended(start(place.store.request("archive", place.home), unprivileged(place.become)))
    assert (got.code, "shared" in got.result["message"]) == (Exit.UNARCHIVABLE, True), got.lines
    assert stat.S_IMODE(path.stat().st_mode) == 0o2000
    shutil.rmtree(base)


def test_root_changes_nothing(tmp_path: Path) -> None:
    """Who may read everything anyway lends nothing: not even the time of the last change moves."""
    needs_root("who may read everything")
    home = tmp_path / "home"
    (home / "folder").mkdir(parents=True)
    (home / "file").write_bytes(b"x")
    for path in (home / "file", home / "folder", home):
        path.chmod(0)
    before = {path: path.stat().st_ctime_ns for path in (home, *home.rglob("*"))}
    done(Store((tmp_path / "store").as_uri()).request("archive", home))
    assert {path: path.stat().st_ctime_ns for path in before} == before


@pytest.mark.parametrize("nth", first_of([4, 1, 2, 3, 5, 6, 7, 8]))
def test_killed_while_something_is_open(place: Place, nth: int) -> None:
    """At worst its owner may do more with it than before; nobody else may, and the next run works as ever."""
    home = place.home
    (home / "folder").mkdir()
    (home / "folder" / "file").write_bytes(b"within")
    (home / "file").write_bytes(b"x")
    set_xattr(home / "file", "user.some", b"attribute")
    paths = [home / "folder" / "file", home / "folder", home / "file"]
    place.belongs(*paths)
    for path in paths:
        set_mode(path, 0o077)
    request = place.store.request("archive", home)
    killing = unprivileged(place.become, "tests.storage_job.killed_at")
    got = ended(start(request, [*killing, f"os.chmod.*proc:{nth}+0"]))
    assert got.code == -signal.SIGKILL
    left = [stat.S_IMODE(path.stat().st_mode) for path in paths]
    assert all(mode & ~0o500 == 0o077 for mode in left), left
    changed = snapshot(home)
    got = ended(start(request, unprivileged(place.become)))
    assert got.code == Exit.DONE, got.lines
    assert snapshot(home) == changed
    assert ended(start(restored_from(request, place.volume), unprivileged(place.become))).code == Exit.DONE
    assert snapshot(place.volume) == changed
