"""A home with everything that is hard to keep, and a picture of a home to compare by."""

import errno
import hashlib
import os
import socket
import stat
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK = 1 << 16
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

# rw- for the owner and for user 1234, r-- for everybody else: version, then tag, permissions and id of each.
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)
    for entry in [(1, 6, 0xFFFFFFFF), (2, 6, 1234), (4, 4, 0xFFFFFFFF), (16, 6, 0xFFFFFFFF), (32, 4, 0xFFFFFFFF)]
)

# One thing of a home: everything about it that must come back.
Picture = dict[str, Any]


def snapshot(root: Path) -> dict[bytes, Picture]:
    """Everything below and including `root`, attribute by attribute; what an archive leaves out is not in it."""
    found: dict[bytes, Picture] = {}
    links: dict[tuple[int, int], bytes] = {}
    todo: list[tuple[int, bytes]] = [(os.open(root, FOLDER_FLAGS), b"")]
    while todo:
        fd, path = todo.pop()
        found[path or b"."] = picture(fd, os.fstat(fd))
        for name in sorted(os.listdir(fd)):  # noqa: PTH208 - an open folder has no path
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            here = path + b"/" + os.fsencode(name) if path else os.fsencode(name)
            if stat.S_ISDIR(status.st_mode):
                todo.append((os.open(name, FOLDER_FLAGS, dir_fd=fd), here))
            elif stat.S_ISLNK(status.st_mode):
                found[here] = attributes(status) | {"target": os.readlink(name, dir_fd=fd)}
            elif stat.S_ISREG(status.st_mode):
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd)
                found[here] = picture(file, status) | content(file, status)
                os.close(file)
                if status.st_nlink > 1:
                    found[here]["linked_with"] = links.setdefault((status.st_dev, status.st_ino), here)
            elif stat.S_ISFIFO(status.st_mode):
                found[here] = attributes(status)
        os.close(fd)
    first = {seen["linked_with"]: "" for seen in found.values() if "linked_with" in seen}
    for path in sorted(found):  # which name of a file was met first is no property of the home
        if "linked_with" in found[path]:
            found[path]["linked_with"] = first[found[path]["linked_with"]] = first[
                found[path]["linked_with"]
            ] or path.decode(errors="replace")
    return found


def attributes(status: os.stat_result) -> Picture:
    kind = stat.S_IFMT(status.st_mode)
    owner = (status.st_uid, status.st_gid) if os.geteuid() == 0 else ()
    mode = 0 if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
    return {"kind": kind, "mode": oct(mode), "owner": owner, "mtime_ns": status.st_mtime_ns}


def picture(fd: int, status: os.stat_result) -> Picture:
    names = [name for name in os.listxattr(fd) if name.startswith(("user.", "security.capability", "system."))]
    kept = {name: os.getxattr(fd, name) for name in names if not name.startswith("user.codehub.")}
    return attributes(status) | {"xattrs": kept}


def content(fd: int, status: os.stat_result) -> Picture:
    """Holes and zeros look alike, so gigabytes of them cost nothing; that holes stay holes is seen by their blocks."""
    digest = hashlib.sha256()
    done = 0
    for start, end in data_pieces(fd, status.st_size):
        for at in range(max(start - start % BLOCK, done), end, BLOCK):
            done = at + BLOCK
            if (block := os.pread(fd, BLOCK, at)).strip(b"\0"):
                digest.update(b"%d:" % at + block)
    return {
        "size": status.st_size,
        "content": digest.hexdigest(),
        "is_sparse": status.st_size - status.st_blocks * 512 > 1 << 20,
    }


def data_pieces(fd: int, size: int) -> Iterator[tuple[int, int]]:
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        at = os.lseek(fd, start, os.SEEK_HOLE)
        yield start, at


def make_nasty_home(root: Path, *, sparse: bool = True) -> None:
    """Everything of the list in SPEC 9, and what must be left out."""
    root.mkdir(parents=True, exist_ok=True)
    make_plain_files(root)
    make_names(root)
    make_links(root)
    if sparse:
        make_sparse(root)
    for number, path in enumerate([root / "plain", root / "empty", root]):
        set_xattr(path, "user.folder", b"%d\0\xff=\n" % number)
    make_special(root)
    if os.geteuid() == 0:
        make_owned(root)
    stamp(root)


def make_plain_files(root: Path) -> None:
    folder = root / "plain"
    folder.mkdir()
    for size in (0, 1, 511, 512, 513, 4096, 100_000, 1 << 20, (1 << 20) + 1, 3_000_000):
        (folder / f"size-{size}").write_bytes((b"%d " % size * (size // 4 + 2))[:size])
    (folder / "random").write_bytes(os.urandom(700_001))
    for mode in (0o000, 0o400, 0o644, 0o755, 0o777, 0o4755, 0o2755, 0o1644):
        path = folder / f"mode-{mode:04o}"
        path.write_bytes(b"m")
        if mode == 0o400:  # while its owner may: afterwards only root could
            set_xattr(path, "user.read-only", b"set all the same")
        path.chmod(mode if os.geteuid() == 0 or mode & 0o400 else 0o400)
    (root / "empty").mkdir()
    (root / "empty" / "within").mkdir(mode=0o2770)
    (root / "sticky").mkdir()
    (root / "sticky").chmod(0o1777)
    closed = root / "closed"
    closed.mkdir()
    (closed / "inside").write_text("inside")
    closed.chmod(0o500)
    set_xattr(folder / "size-1", "user.empty", b"")
    set_xattr(folder / "size-1", "user.with=equals%and percent", b"a=b\n\0")
    set_xattr(folder / "size-512", "user.long", b"x" * 3000)
    set_xattr(folder / "mode-0644", "system.posix_acl_access", ACL)
    shared = root / "shared"
    shared.mkdir()
    (shared / "not inherited").write_text("by what is there already")
    (shared / "folder").mkdir()
    set_xattr(shared, "system.posix_acl_default", ACL)


def make_names(root: Path) -> None:
    names = root / "names"
    names.mkdir()
    for name in (
        b"n" * 255, "한글-이름".encode(), b"not-utf8-\xff\xfe", b" spaces ", b"-dash", b"new\nline", b"back\\slash",
        b"...", b"a" * 94, b"a" * 95, b"GNUSparseFile.0", b"#1", b"con*?<>|", b"\x01\x7f",
    ):  # fmt: skip
        (names / os.fsdecode(name)).write_bytes(name)
    fd = os.open(names, FOLDER_FLAGS)
    for number in range(16):  # a path of more than 4,000 bytes below the root: only openat gets there
        name = b"%02d" % number + b"d" * 248
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, FOLDER_FLAGS, dir_fd=fd)
        os.close(fd)
        fd = below
    file_fd = os.open(b"deep", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=fd)
    os.write(file_fd, b"deep down")
    os.close(file_fd)
    os.close(fd)


def make_links(root: Path) -> None:
    folder = root / "links"
    folder.mkdir()
    for name, target in {
        "relative": "../plain/size-1", "broken": "nowhere", "absolute": "/usr/bin/python3", "outside": "../../../etc",
        "folder": "../plain", "loop": "loop", "long": "l" * 4000, "korean": "../names/한글-이름", "dot": ".",
        "bytes": os.fsdecode(b"\xff\xfe"),
    }.items():  # fmt: skip
        (folder / name).symlink_to(target)
    (folder / "hard-a").write_bytes(b"one file, three names")
    (folder / "hard-b").hardlink_to(folder / "hard-a")
    (root / "plain" / "hard-c").hardlink_to(folder / "hard-a")
    (root / "a-hard-link-that-sorts-first").hardlink_to(root / "plain" / "random")


def make_sparse(root: Path) -> None:
    folder = root / "sparse"
    folder.mkdir()
    layouts: dict[str, tuple[int, list[int]]] = {
        "beyond-4-gib": (5 << 30, [0, 1 << 31, (5 << 30) - 4096]),
        "only-a-hole": (9 << 30, []),
        "hole-at-the-end": (64 << 20, [0]),
        "hole-at-the-start": (64 << 20, [(64 << 20) - 4096]),
        "many-pieces": (128 << 20, [number << 16 for number in range(2000)]),
    }
    for name, (size, offsets) in layouts.items():
        fd = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(fd, size)
        for offset in offsets:
            os.pwrite(fd, b"%d" % offset * 8, offset)
        os.close(fd)


def make_special(root: Path) -> None:
    """A FIFO is kept; a socket and a device are left out."""
    os.mkfifo(root / "plain" / "fifo", 0o640)
    here = Path.cwd()
    os.chdir(root)  # the address of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("socket")
    finally:
        os.chdir(here)
    if os.geteuid() == 0:
        try:
            os.mknod(root / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:  # a container without CAP_MKNOD
            return


def make_owned(root: Path) -> None:
    for number, name in enumerate(["size-0", "size-1", "mode-4755", "size-513"]):
        path = root / "plain" / name
        mode = path.stat().st_mode
        os.chown(path, 1000 + number, 3_000_000 + number)
        path.chmod(stat.S_IMODE(mode))
    os.chown(root / "links" / "broken", 1000, 1001, follow_symlinks=False)
    os.chown(root / "empty", 1000, 1000)
    os.chown(root, 1000, 1000)
    capability = bytes.fromhex("0100000200040000000000000000000000000000")
    set_xattr(root / "plain" / "mode-0755", "security.capability", capability)


def set_xattr(path: Path, name: str, value: bytes) -> None:
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        assert error.errno in (errno.ENOTSUP, errno.EPERM), error  # noqa: PT017 - a file system without them


def stamp(root: Path) -> None:
    """A time of its own for everything, some of it odd; folders after what is in them."""
    odd = [
        0,
        1,
        999_999_999,
        1_700_000_000_123_456_789,
        1_700_000_000_000_000_000,
        -1_500_000_000,
        4_102_444_800 * 10**9 + 7,
    ]
    numbers = iter(range(10**9))
    for _, folders, files, fd in os.fwalk(root, topdown=False, follow_symlinks=False):
        for name in sorted(files) + sorted(folders):
            when = odd[next(numbers) % len(odd)] + next(numbers)
            os.utime(name, ns=(when, when), dir_fd=fd, follow_symlinks=False)
    os.utime(root, ns=(1_234_567_890_123_456_789, 1_234_567_890_123_456_789))


def remove(folder: Path) -> None:
    """With what is closed to its own owner; shutil cannot reach the longest paths."""
    if os.geteuid() != 0:
        subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", str(folder)], check=True)
