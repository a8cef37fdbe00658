"""Reading tar headers: ours, and what GNU tar, bsdtar and Python write.

Pure functions. Every header is held to be hostile: whatever is not understood completely is Corrupted.
"""

from collections.abc import Mapping
from functools import lru_cache

from .protocol import Corrupted
from .tarformat import FILE, NANO, XATTR, Entry, byte_sum

RECORDS = 20_000  # of one entry: the kernel lists at most 64 KB of names of attributes
_OLD_KINDS = {b"\0": FILE, b"7": FILE}
_NO_ID = (1 << 32) - 1  # to the kernel: leave it as it is
_END_OF_TIME = NANO << 63


def parse(block: bytes, extra: Mapping[bytes, bytes]) -> Entry:
    """A header block with what the extensions before it said."""
    check_sum(block)
    name = _text(block[:100])
    kind = block[156:157]
    link = _text(block[157:257]) if block[157] else b""
    try:
        mode, uid, gid = _owner(block[100:124])
        try:  # a plain number in each field, as nearly always
            size, seconds = int(block[124:135], 8), int(block[136:147], 8)
        except ValueError:
            size, seconds = number(block[124:136]), number(block[136:148])
        entry = Entry(name, _OLD_KINDS.get(kind, kind), mode, uid, gid, size, seconds * NANO, link)
        if block[345] and block[257:263] == b"ustar\0":
            entry.name = _text(block[345:500]) + b"/" + name
        if extra:
            _apply(entry, extra)
    except ValueError:
        raise Corrupted(f"an entry's header holds something that is no number: {block[:100]!r}") from None
    if not (
        0 <= entry.uid < _NO_ID
        and 0 <= entry.gid < _NO_ID
        and 0 <= entry.size < 1 << 62
        and (entry.real_size or 0) >= 0
        and -_END_OF_TIME <= entry.mtime_ns < _END_OF_TIME
    ):
        raise Corrupted(f"an entry's header holds an impossible number: {entry.name!r}")
    return entry


@lru_cache(256)  # a home has few of them
def _owner(fields: bytes) -> tuple[int, int, int]:
    return number(fields[:8]) & 0o7777, number(fields[8:16]), number(fields[16:])


def _apply(entry: Entry, extra: Mapping[bytes, bytes]) -> None:
    entry.name = extra.get(b"path", entry.name)
    entry.link = extra.get(b"linkpath", entry.link)
    entry.uid = int(extra.get(b"uid", entry.uid))
    entry.gid = int(extra.get(b"gid", entry.gid))
    entry.size = int(extra.get(b"size", entry.size))
    if b"mtime" in extra:
        entry.mtime_ns = _nanoseconds(extra[b"mtime"])
    if any(key.startswith(b"GNU.sparse.") for key in extra):
        if extra.get(b"GNU.sparse.major") != b"1" or extra.get(b"GNU.sparse.minor") != b"0":
            raise Corrupted(f"a sparse file in a form that is not known here: {entry.name!r}")
        entry.name = extra.get(b"GNU.sparse.name", entry.name)
        entry.real_size = int(extra[b"GNU.sparse.realsize"]) if b"GNU.sparse.realsize" in extra else -1
    entry.xattrs = {
        key[len(XATTR) :].replace(b"%3D", b"=").replace(b"%25", b"%"): value
        for key, value in extra.items()
        if key.startswith(XATTR)
    }
    if b"\0" in entry.link or any(b"\0" in key for key in entry.xattrs):
        raise ValueError


def parse_records(data: bytes) -> dict[bytes, bytes]:
    """The records of a pax header."""
    found: dict[bytes, bytes] = {}
    at = 0
    while at < len(data):
        digits, space, _ = data[at : at + 20].partition(b" ")
        length = int(digits) if digits.isdigit() and space else 0
        key, equals, value = data[at + len(digits) + 1 : at + length].partition(b"=")
        if not length or at + length > len(data) or not key or not equals or value[-1:] != b"\n":
            raise Corrupted("an extended header is damaged")
        found[key] = value[:-1]
        at += length
        if len(found) > RECORDS:
            raise Corrupted("an extended header holds more than any file has")
    return found


def check_sum(block: bytes) -> None:
    """A header whose checksum is wrong is no header."""
    try:
        said = number(block[148:156])
    except ValueError:
        said = -1
    if byte_sum(block[:256]) + byte_sum(block[256:]) - byte_sum(block[148:156]) + 8 * ord(" ") != said:
        raise Corrupted("a header's checksum is wrong")


def number(text: bytes) -> int:
    """An octal field, or GNU's binary form of it."""
    if text[0] & 0x80:
        value = int.from_bytes(text, "big") - (0x80 << 8 * (len(text) - 1))
        return value if not text[0] & 0x40 else value - (0x80 << 8 * (len(text) - 1))
    return int(text.rstrip(b" \0") or b"0", 8)


def _text(raw: bytes) -> bytes:
    return raw.partition(b"\0")[0]


def _nanoseconds(text: bytes) -> int:
    whole, _, fraction = text.partition(b".")
    sign = -1 if whole.startswith(b"-") else 1
    nanos = int(fraction[:9].ljust(9, b"0")) if fraction else 0
    return int(whole) * NANO + sign * nanos


def parse_name(raw: bytes) -> bytes:
    """The path below the root, empty for the root itself; Corrupted for one that leads out of it."""
    name = raw.removesuffix(b"/")
    name = b"" if name == b"." else name.removeprefix(b"./")
    if not name:
        if raw in (b".", b"./"):
            return b""
        raise Corrupted("an entry without a name")
    # One search finds every empty, "." and ".." component; absolute paths begin with an empty one.
    wrapped = b"/" + name + b"/"
    if b"//" in wrapped or b"\0" in wrapped or (b"/." in wrapped and (b"/./" in wrapped or b"/../" in wrapped)):
        raise Corrupted(f"an entry leads out of the home: {raw[:200]!r}")
    return name
