"""A home with everything that is hard to keep, a picture of a home to compare by, and archives that mean harm."""

import errno
import hashlib
import io
import os
import socket
import stat
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

BLOCK = 1 << 16
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW

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


@dataclass(frozen=True)
class Hostile:
    """An archive that must be refused as Corrupted, and why."""

    name: str
    archive: bytes
    meta: bytes | None
    limits: dict[str, int] = field(default_factory=dict)


def meta_of(archive: bytes) -> bytes:
    return f"sha256:{hashlib.sha256(archive).hexdigest()}\nsize:{len(archive)}\n".encode()


def tar_of(*members: tuple[str, bytes, dict[str, Any]]) -> bytes:
    """A tar made by somebody else's program: names, contents and fields as given."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def squeezed(tar: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(tar)


FOLDER: dict[str, Any] = {"type": tarfile.DIRTYPE, "mode": 0o755}


def link(target: str) -> dict[str, Any]:
    return {"type": tarfile.SYMTYPE, "linkname": target}


def hard(target: str) -> dict[str, Any]:
    return {"type": tarfile.LNKTYPE, "linkname": target}


def make_hostile_archives(outside: str) -> list[Hostile]:
    """`outside` is a folder beside the volume that must stay as it is."""
    plain = tar_of(("fine", b"fine" * 1000, {}))
    whole = squeezed(plain)
    members: dict[str, list[tuple[str, bytes, dict[str, Any]]]] = {
        "absolute path": [(f"{outside}/stolen", b"x", {})],
        "parent folder": [("../stolen", b"x", {})],
        "parent folder inside a path": [("a", b"", FOLDER), ("a/../../stolen", b"x", {})],
        "write through a symbolic link": [("way", b"", link(outside)), ("way/stolen", b"x", {})],
        "write through a relative link": [("way", b"", link("..")), ("way/stolen", b"x", {})],
        "folder through a symbolic link": [("way", b"", link(outside)), ("way/stolen", b"", FOLDER)],
        "link replaced by a folder": [("way", b"", link(outside)), ("way", b"", FOLDER), ("way/stolen", b"x", {})],
        "file over a symbolic link": [("way", b"", link(f"{outside}/stolen")), ("way", b"x", {})],
        "hard link to an absolute path": [("stolen", b"", hard(f"{outside}/kept"))],
        "hard link to a parent folder": [("stolen", b"", hard("../outside/kept"))],
        "hard link to a symbolic link": [("way", b"", link(f"{outside}/kept")), ("stolen", b"", hard("way"))],
        "hard link through a symbolic link": [("way", b"", link(outside)), ("stolen", b"", hard("way/kept"))],
        "hard link to a folder": [("a", b"", FOLDER), ("b", b"", hard("a"))],
        "hard link to nothing": [("b", b"", hard("missing"))],
        "character device": [("null", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})],
        "block device": [("disk", b"", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})],
        "same file twice": [("a", b"1", {}), ("a", b"2", {})],
        "same folder twice": [("a", b"", FOLDER), ("a", b"", FOLDER)],
        "root twice": [("./", b"", FOLDER), (".", b"", FOLDER)],
        "root as a file": [("./", b"x", {})],
        "file in a folder that is not there": [("a/b", b"x", {})],
        "file below a file": [("a", b"x", {}), ("a/b", b"x", {})],
        "name that is too long": [("n" * 256, b"x", {})],
        "empty component": [("a", b"", FOLDER), ("a//b", b"x", {})],
        "link without a target": [("a", b"", link(""))],
        "attribute of another kind": [("a", b"x", {"pax_headers": {"SCHILY.xattr.trusted.overlay.opaque": "y"}})],
        "sparse file of an unknown form": [("a", b"x", {"pax_headers": {"GNU.sparse.map": "0,1"}})],
        "negative size": [("a", b"x", {"pax_headers": {"size": "-512"}})],
        "more content than declared": [("a", b"x" * 5000, {"pax_headers": {"size": "100"}})],
        "less content than declared": [("a", b"x" * 5000, {"pax_headers": {"size": "500000"}})],
    }
    found = [Hostile(name, squeezed(tar_of(*entries)), None) for name, entries in members.items()]
    found += [Hostile(f"sparse: {name}", squeezed(sparse_tar(*args)), None) for name, args in SPARSE.items()]
    found = [Hostile(each.name, each.archive, meta_of(each.archive)) for each in found]
    return found + damaged(plain, whole) + bombs()


# Map, content and declared length of sparse files that do not add up.
SPARSE: dict[str, tuple[bytes, bytes, int]] = {
    "map past the end": (b"1\n1000000\n4\n", b"data", 4096),
    "map out of order": (b"2\n8192\n4\n0\n4\n", b"datadata", 100_000),
    "more content than the map": (b"1\n0\n4\n", b"data" * 1000, 100_000),
    "less content than the map": (b"1\n0\n4000\n", b"data", 100_000),
    "map of words": (b"one\ntwo\n", b"", 4096),
    "map without an end": (b"99999999\n1\n1\n", b"", 4096),
    "negative map": (b"1\n-4\n4\n", b"data", 4096),
}


def sparse_tar(table: bytes, data: bytes, size: int) -> bytes:
    headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "s",
        "GNU.sparse.realsize": str(size),
    }
    padded = table + bytes(-len(table) % 512) + data
    return tar_of(("GNUSparseFile.0/s", padded, {"pax_headers": headers}))


def damaged(plain: bytes, whole: bytes) -> list[Hostile]:
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0x10
    bad_sum = bytearray(plain)
    bad_sum[0] ^= 1
    no_end = plain[: 512 + 4096]
    changes: list[tuple[str, bytes, Callable[[bytes], bytes | None]]] = [
        ("truncated", whole[:-20], lambda _: meta_of(whole)),
        ("truncated, with a meta of its own", whole[:-20], meta_of),
        ("empty object", b"", meta_of),
        ("bit flipped", bytes(flipped), lambda _: meta_of(whole)),
        ("bit flipped, with a meta of its own", bytes(flipped), meta_of),
        ("trailing garbage", whole + b"garbage!", lambda _: meta_of(whole)),
        ("trailing garbage, with a meta of its own", whole + b"garbage!", meta_of),
        ("tar without an end", squeezed(no_end), meta_of),
        ("tar cut inside a block", squeezed(plain[:1000]), meta_of),
        ("something after the end", squeezed(plain + b"\0" * 512 + b"more" * 128), meta_of),
        ("wrong checksum of a header", squeezed(bytes(bad_sum)), meta_of),
        ("no tar", squeezed(os.urandom(4096)), meta_of),
        ("no zstd", os.urandom(4096), meta_of),
        ("meta missing", whole, lambda _: None),
        ("meta empty", whole, lambda _: b""),
        ("meta without a size", whole, lambda archive: meta_of(archive).splitlines(keepends=True)[0]),
        ("meta with another checksum", whole, lambda _: f"sha256:{'0' * 64}\nsize:{len(whole)}\n".encode()),
        ("meta with another size", whole, lambda archive: meta_of(archive + b"x")),
    ]
    return [Hostile(name, archive, meta(archive)) for name, archive, meta in changes]


def bombs() -> list[Hostile]:
    zeros = squeezed(tar_of(("zeros", bytes(64 << 20), {})))
    many = squeezed(tar_of(*((f"f{number}", b"", {}) for number in range(2000))))
    wide = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    ).compressobj()
    window = wide.compress(bytes(1 << 20)) + wide.flush()
    return [
        Hostile("more bytes than the volume", zeros, meta_of(zeros), {"bytes": 1 << 20}),
        Hostile("more files than the volume", many, meta_of(many), {"files": 100}),
        Hostile("window that needs too much memory", window, meta_of(window)),
    ]
