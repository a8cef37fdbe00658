"""Archives that mean harm: each must be refused as Corrupted."""

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import zstandard

from codehub.storage_job.tarformat import TIME_HEADER, record


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
        "impossible owner": [("a", b"x", {"pax_headers": {"uid": str(1 << 40)}})],
        "owner that means none": [("a", b"x", {"pax_headers": {"gid": str((1 << 32) - 1)}})],
        "impossible time": [("a", b"x", {"pax_headers": {"mtime": "9" * 30}})],
        "time in words": [("a", b"x", {"pax_headers": {"mtime": "abcdefghij.123456789"}})],
        "folder with an impossible owner": [("a", b"", {**FOLDER, "pax_headers": {"uid": str(1 << 40)}})],
        "link with a zero byte": [("a", b"", {**link("x"), "pax_headers": {"linkpath": "x\0y"}})],
        "name with a zero byte": [("a", b"x", {"pax_headers": {"path": "x\0y"}})],
        "attribute with a zero byte": [("a", b"x", {"pax_headers": {"SCHILY.xattr.user.x\0y": "z"}})],
        "attribute with a name that is too long": [
            ("a", b"x", {"pax_headers": {f"SCHILY.xattr.user.{'n' * 300}": "z"}})
        ],
        "attribute that is too long": [("a", b"x", {"pax_headers": {"SCHILY.xattr.user.x": "z" * 100_000}})],
        "more attributes than any file has": [
            ("a", b"x", {"pax_headers": {f"SCHILY.xattr.user.{number}": "" for number in range(21_000)}})
        ],
        "more content than declared": [("a", b"x" * 5000, {"pax_headers": {"size": "100"}})],
        "less content than declared": [("a", b"x" * 5000, {"pax_headers": {"size": "500000"}})],
    }
    found = [Hostile(name, squeezed(tar_of(*entries)), None) for name, entries in members.items()]
    found += [Hostile(f"sparse: {name}", squeezed(sparse_tar(*args)), None) for name, args in SPARSE.items()]
    found = [Hostile(each.name, each.archive, meta_of(each.archive)) for each in found]
    return found + odd_headers(plain) + damaged(plain, whole) + bombs()


def odd_headers(plain: bytes) -> list[Hostile]:
    """Extended headers that are fine by themselves, before an entry that is too."""

    def extended(kind: bytes, records: bytes) -> bytes:
        info = tarfile.TarInfo("header")
        info.type, info.size = kind, len(records)
        return info.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)

    heavy = b"".join(extended(tarfile.XHDTYPE, record(b"%d" % number, bytes(1_000_000))) for number in range(20))
    tars = {
        "time in words where it is read quickly": TIME_HEADER
        + b"30 mtime=abcdefghij.123456789\n".ljust(512, b"\0")
        + plain,
        "header for all entries": extended(tarfile.XGLTYPE, b"20 path=elsewhere/x\n") + plain,
        "headers without an end": heavy + plain,
        "header of nothing": extended(tarfile.XHDTYPE, b"") + plain,
        "header whose length is wrong": extended(tarfile.XHDTYPE, b"99 mtime=1\n") + plain,
        "header before the end": extended(tarfile.XHDTYPE, b"30 mtime=1700000000.123456789\n") + bytes(1024),
    }
    return [Hostile(name, squeezed(tar), meta_of(squeezed(tar))) for name, tar in tars.items()]


# Map, content and declared length of sparse files that do not add up.
SPARSE: dict[str, tuple[bytes, bytes, int]] = {
    "map past the end": (b"1\n1000000\n4\n", b"data", 4096),
    "map out of order": (b"2\n8192\n4\n0\n4\n", b"datadata", 100_000),
    "more content than the map": (b"1\n0\n4\n", b"data" * 1000, 100_000),
    "less content than the map": (b"1\n0\n4000\n", b"data", 100_000),
    "map of words": (b"one\ntwo\n", b"", 4096),
    "map without an end": (b"99999999\n1\n1\n", b"", 4096),
    "negative map": (b"1\n-4\n4\n", b"data", 4096),
    "nothing at all": (b"", b"", 4096),
    "less than a block": (b"", b"1\n", 4096),
    "map of a block, and no more": (b"99\n" + b"1\n" * 200, b"", 4096),
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
        ("meta empty", whole, lambda _: b""),
        ("old meta with another checksum", whole, lambda _: f"sha256:{'0' * 64}\n".encode()),
        ("meta with half a size", whole, lambda archive: meta_of(archive)[:-4] + b"\n"),
        ("meta with more lines", whole, lambda archive: meta_of(archive) + b"size:1\n"),
        ("meta with another checksum", whole, lambda _: f"sha256:{'0' * 64}\nsize:{len(whole)}\n".encode()),
        ("meta with another size", whole, lambda archive: meta_of(archive).replace(b"size:", b"size:1")),
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
