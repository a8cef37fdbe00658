"""Tar headers as bytes: POSIX pax with GNU's sparse map 1.0, which GNU tar, bsdtar and Python read too.

Pure functions. Written headers keep nanoseconds, raw names and extended attributes in pax records. Read headers are
held to be hostile: whatever is not understood completely is Corrupted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .protocol import Corrupted

BLOCK = 512
ZEROS = bytes(BLOCK)
END = bytes(2 * BLOCK)
FILE, HARD_LINK, SYMLINK, FOLDER, FIFO, PAX, PAX_GLOBAL = b"0", b"1", b"2", b"5", b"6", b"x", b"g"
GNU_NAME, GNU_LINK = b"L", b"K"
EXTENSIONS = PAX + PAX_GLOBAL + GNU_NAME + GNU_LINK
EXTENSION_BYTES = 16 << 20  # of one entry: names and extended attributes together stay far below
RECORDS = 20_000  # of one entry: the kernel lists at most 64 KB of names of attributes
XATTR = b"SCHILY.xattr."
NANO = 1_000_000_000
_OCTAL_7, _OCTAL_11 = 8**7, 8**11
_NO_ID = (1 << 32) - 1  # to the kernel: leave it as it is
_END_OF_TIME = NANO << 63
_OLD_KINDS = {b"\0": FILE, b"7": FILE}
_MAGIC = b"ustar\x0000"
_TAIL = _MAGIC + bytes(BLOCK - 265)  # no user and group names: owners are numbers
_MAGIC_SUM = sum(_MAGIC) + 8 * ord(" ")  # the checksum counts its own field as spaces


def padding(size: int) -> int:
    """How many zero bytes follow content of this size."""
    return -size % BLOCK


def header(name: bytes, numbers: tuple[int, int, int, int, int], kind: bytes, link: bytes = b"") -> bytes:
    """One block. The numbers are mode, uid, gid, size and seconds; all fit, or `describe` put them into a record."""
    digits = b"%07o\0%07o\0%07o\0%011o\0%011o\0" % numbers
    # Only bytes that are not zero count, so there is no need to sum up 512 of them.
    total = sum(name) + sum(digits) + sum(link) + kind[0] + _MAGIC_SUM
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


def parse(block: bytes, extra: Mapping[bytes, bytes]) -> Entry:
    """A header block with what the extensions before it said."""
    check_sum(block)
    name = _text(block[:100])
    kind = block[156:157]
    link = _text(block[157:257]) if block[157] else b""
    try:
        try:  # a plain number in each field, as nearly always
            mode, uid, gid = int(block[100:107], 8), int(block[108:115], 8), int(block[116:123], 8)
            size, seconds = int(block[124:135], 8), int(block[136:147], 8)
        except ValueError:
            mode, uid, gid = number(block[100:108]), number(block[108:116]), number(block[116:124])
            size, seconds = number(block[124:136]), number(block[136:148])
        entry = Entry(name, _OLD_KINDS.get(kind, kind), mode & 0o7777, uid, gid, size, seconds * NANO, link)
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
    if block.endswith(_TAIL):  # ours: most of it is zeros, which add nothing and take long to add
        names = sum(block[:100].rstrip(b"\0")) + sum(block[157:257].rstrip(b"\0"))
        total = names + sum(block[100:148]) + block[156] + _MAGIC_SUM
    else:
        total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    if total != said:
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
    if b"//" in wrapped or b"/./" in wrapped or b"/../" in wrapped or b"\0" in wrapped:
        raise Corrupted(f"an entry leads out of the home: {raw[:200]!r}")
    return name
