"""Tar headers as bytes: POSIX pax with GNU's sparse map 1.0, which GNU tar, bsdtar and Python read too.

Pure functions. What is written keeps nanoseconds, raw names and extended attributes in pax records; `tarparse.py`
reads it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from zlib import adler32

BLOCK = 512
ZEROS = bytes(BLOCK)
END = bytes(2 * BLOCK)
FILE, HARD_LINK, SYMLINK, FOLDER, FIFO, PAX, PAX_GLOBAL = b"0", b"1", b"2", b"5", b"6", b"x", b"g"
GNU_NAME, GNU_LINK = b"L", b"K"
EXTENSIONS = PAX + PAX_GLOBAL + GNU_NAME + GNU_LINK
EXTENSION_BYTES = 16 << 20  # of one entry: names and extended attributes together stay far below
XATTR = b"SCHILY.xattr."
NANO = 1_000_000_000
_OCTAL_7, _OCTAL_11 = 8**7, 8**11
_MAGIC = b"ustar\x0000"
_TAIL = _MAGIC + bytes(BLOCK - 265)  # no user and group names: owners are numbers
_MAGIC_SUM = sum(_MAGIC) + 8 * ord(" ")  # the checksum counts its own field as spaces


def byte_sum(data: bytes) -> int:
    """Of at most 256 bytes: one more than that is the lower half of Adler's checksum, which is counted quickly."""
    return (adler32(data) & 0xFFFF) - 1


def padding(size: int) -> int:
    """How many zero bytes follow content of this size."""
    return -size % BLOCK


def header(name: bytes, numbers: tuple[int, int, int, int, int], kind: bytes, link: bytes = b"") -> bytes:
    """One block. The numbers are mode, uid, gid, size and seconds; all fit, or `describe` put them into a record."""
    digits = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % numbers
    # Only bytes that are not zero count, and those that are always the same are counted already.
    total = byte_sum(name + digits + kind + link) + _MAGIC_SUM
    start = name.ljust(100, b"\0") + digits + b"%06o\0 " % total
    return start + kind + link.ljust(100, b"\0") + _TAIL


def record(key: bytes, value: bytes) -> bytes:
    """`length key=value\\n`, where the length counts itself."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def pax_header(records: bytes) -> bytes:
    """The extra entry that goes before the one it describes."""
    head = header(b"././@PaxHeader", (0o644, 0, 0, len(records), 0), PAX)
    return head + records + bytes(padding(len(records)))


# By far the most frequent one: nothing but a time with nanoseconds, whose record is always 30 bytes long.
TIME_RECORD_BYTES = 30
TIME_HEADER = pax_header(bytes(TIME_RECORD_BYTES))[:BLOCK]
_TIME_PADDING = bytes(padding(TIME_RECORD_BYTES))
_TIME_FROM, _TIME_TO = 10**9, 10**10  # seconds of ten digits: 2001 to 2286


def decimal_time(nanoseconds: int) -> bytes:
    sign = b"-" if nanoseconds < 0 else b""
    return b"%s%d.%09d" % (sign, *divmod(abs(nanoseconds), NANO))


@dataclass(slots=True)
class Entry:
    """One thing in an archive. `size` is what follows in the stream; `real_size` what a sparse file is long."""

    name: bytes
    kind: bytes
    mode: int = 0
    uid: int = 0
    gid: int = 0
    size: int = 0
    mtime_ns: int = 0
    link: bytes = b""
    xattrs: Mapping[bytes, bytes] = field(default_factory=dict)
    real_size: int | None = None


def describe(entry: Entry) -> bytes:
    """The header blocks of an entry, with a pax header before it where the plain one is too small."""
    seconds, nanos = divmod(entry.mtime_ns, NANO)
    plain = (
        len(entry.name) <= 100
        and len(entry.link) <= 100
        and entry.uid < _OCTAL_7
        and entry.gid < _OCTAL_7
        and entry.size < _OCTAL_11
        and not entry.xattrs
        and entry.real_size is None
        and entry.name.isascii()
        and entry.link.isascii()
    )
    if plain and _TIME_FROM <= seconds < _TIME_TO:
        head = header(entry.name, (entry.mode, entry.uid, entry.gid, entry.size, seconds), entry.kind, entry.link)
        if not nanos:
            return head
        return b"%s30 mtime=%d.%09d\n%s%s" % (TIME_HEADER, seconds, nanos, _TIME_PADDING, head)
    numbers = (
        entry.mode,
        entry.uid if entry.uid < _OCTAL_7 else 0,
        entry.gid if entry.gid < _OCTAL_7 else 0,
        entry.size if entry.size < _OCTAL_11 else 0,
        seconds if 0 <= seconds < _OCTAL_11 else 0,
    )
    return pax_header(_records(entry)) + header(entry.name[:100], numbers, entry.kind, entry.link[:100])


def _records(entry: Entry) -> bytes:
    found: list[tuple[bytes, bytes]] = []
    if not (_is_utf8(entry.name) and _is_utf8(entry.link)):
        found.append((b"hdrcharset", b"BINARY"))
    found.append((b"mtime", decimal_time(entry.mtime_ns)))
    if entry.real_size is not None:
        found += [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", entry.name)]
        found.append((b"GNU.sparse.realsize", b"%d" % entry.real_size))
    elif len(entry.name) > 100 or not entry.name.isascii():
        found.append((b"path", entry.name))
    if len(entry.link) > 100 or not entry.link.isascii():
        found.append((b"linkpath", entry.link))
    for key, value, limit in (
        (b"uid", entry.uid, _OCTAL_7), (b"gid", entry.gid, _OCTAL_7), (b"size", entry.size, _OCTAL_11),
    ):  # fmt: skip
        if value >= limit:
            found.append((key, b"%d" % value))
    for key, content in entry.xattrs.items():
        # As GNU tar does: a record's key ends at the first "=".
        found.append((XATTR + key.replace(b"%", b"%25").replace(b"=", b"%3D"), content))
    return b"".join(record(key, value) for key, value in found)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def sparse_map(extents: Iterable[tuple[int, int]]) -> bytes:
    """The map that goes before the content of a sparse file: a count, then offset and length of each piece."""
    pieces = list(extents)
    text = b"%d\n" % len(pieces) + b"".join(b"%d\n%d\n" % piece for piece in pieces)
    return text + bytes(padding(len(text)))
