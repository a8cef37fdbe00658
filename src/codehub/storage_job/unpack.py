"""A tar stream into a volume, in one pass: this process reads headers, a few others make the files.

The stream comes in slabs of a fixed size. The reader makes folders itself, so that they are there before what is in
them, keeps hard links and the final state of folders for the end, and gives files to the makers a slab at a time.
"""

from .create import Creator, refusal
from .maker import Item, fields_of
from .makers import SLAB, Makers
from .protocol import Corrupted, Limits, Tally
from .tarformat import (
    BLOCK,
    EXTENSION_BYTES,
    EXTENSIONS,
    FIFO,
    FILE,
    FOLDER,
    GNU_NAME,
    HARD_LINK,
    NANO,
    PAX,
    PAX_GLOBAL,
    SYMLINK,
    TIME_HEADER,
    ZEROS,
    Entry,
    padding,
)
from .tarparse import parse, parse_name, parse_records

LINKS_AT_ONCE = 10_000


class Unpacker:
    """Takes the stream in slabs; `finish` when it ended."""

    def __init__(self, root_fd: int, limits: Limits, tally: Tally) -> None:
        self._creator = Creator(root_fd)
        self._makers = Makers(root_fd)
        self._limits = limits
        self._tally = tally
        self._base = 0  # where the slab that is being read begins in the shared memory
        self._sticky = 0  # the maker that has the file which goes on in the next slab
        self._folders: list[Entry] = []
        self._links: list[Entry] = []
        self._extra: dict[bytes, bytes] = {}
        self._extra_bytes = 0  # of all headers that belong to the next entry
        self._extension: bytearray | None = None  # of the header that is being read
        self._extension_kind = b""
        self._missing = 0  # bytes of content that are still to come
        self._gap = 0  # padding that is still to come
        self._has_root = self._ended = False

    @property
    def dropped(self) -> int:
        return self._creator.dropped + self._makers.dropped

    def slab(self) -> tuple[int, memoryview]:
        """An empty slab, to be filled and given to `take`."""
        slab = self._makers.slab()
        return slab, self._makers.view(slab)

    def take(self, slab: int, view: memoryview) -> None:
        """The next piece of the stream: all or, of the last slab, the beginning."""
        if len(view) % BLOCK:
            raise Corrupted("the archive ends in the middle of a block")
        items: list[Item] = []
        self._base = slab * SLAB
        try:
            self._read(view, items)
        except OSError as error:
            name = self._folders[-1].name if self._folders else b""
            raise refusal(error, name) from error
        self._hand_out(slab, items)
        if len(self._links) >= LINKS_AT_ONCE:
            self._make_links()

    def finish(self) -> None:
        """Everything came: make what waited for the end."""
        if not self._ended:
            raise Corrupted("the archive is cut short")
        self._make_links()
        for entry in reversed(self._folders):
            try:
                self._creator.finish_folder(entry)
            except OSError as error:
                raise refusal(error, entry.name) from error

    def close(self) -> None:
        self._makers.close()
        self._creator.close()

    def _hand_out(self, slab: int, items: list[Item]) -> None:
        """What goes on from the slab before to the maker that has it; the rest to whoever has least to do."""
        if not items:
            return self._makers.release(slab)
        going_on = 1 if items[0][0] is None else 0
        if going_on:
            self._makers.give(self._sticky, slab, items[:1])
        if len(items) > going_on:
            self._sticky = self._makers.least_busy()
            self._makers.give(self._sticky, slab, items[going_on:])
        return None

    def _make_links(self) -> None:
        """After every file that was given out is made."""
        self._makers.settle()
        for entry in self._links:
            try:
                self._creator.hard_link(entry)
            except OSError as error:
                raise refusal(error, entry.name) from error
        self._links.clear()

    def _read(self, view: memoryview, items: list[Item]) -> None:
        at, end = 0, len(view)
        while at < end:
            if self._missing:
                taken = min(self._missing, end - at)
                self._content(view, at, taken, items)
                at += taken
            elif self._gap:
                taken = min(self._gap, end - at)
                self._gap -= taken
                at += taken
            elif self._ended:
                if bytes(view[at:]).strip(b"\0"):
                    raise Corrupted("something follows the end of the archive")
                return
            else:
                at = self._header(view, at, end, items)

    def _content(self, view: memoryview, at: int, size: int, items: list[Item]) -> None:
        self._missing -= size
        if self._extension is None:
            items.append((None, self._base + at, self._base + at + size))
            self._tally.bytes_done += size
            return
        self._extension += view[at : at + size]
        if not self._missing:
            self._extend(bytes(self._extension))
            self._extension = None

    def _header(self, view: memoryview, at: int, end: int, items: list[Item]) -> int:
        """Read the header at `at`; where the next thing begins."""
        block = bytes(view[at : at + 3 * BLOCK])
        if block.startswith(TIME_HEADER) and len(block) == 3 * BLOCK and not self._extra:
            time, block = block[BLOCK : BLOCK + 30], block[2 * BLOCK :]
            at += 3 * BLOCK
            if block[156] not in EXTENSIONS and time.startswith(b"30 mtime=") and time[19] == 46:
                entry = parse(block, {})
                if not (time[9:19] + time[20:29]).isdigit():
                    raise Corrupted(f"an entry's time is no number: {entry.name!r}")
                entry.mtime_ns = int(time[9:19]) * NANO + int(time[20:29])
            else:
                self._extra = parse_records(time)
                return at - BLOCK
        else:
            block = block[:BLOCK]
            at += BLOCK
            if block == ZEROS:
                if self._extra:
                    raise Corrupted("a header that describes nothing")
                self._ended = True
                return at
            if block[156] in EXTENSIONS:
                self._begin_extension(parse(block, {}))
                return at
            entry = parse(block, self._extra)
            self._extra, self._extra_bytes = {}, 0
        return self._begin(entry, at, end, items)

    def _begin_extension(self, entry: Entry) -> None:
        self._extra_bytes += entry.size
        if not entry.size or self._extra_bytes > EXTENSION_BYTES:
            raise Corrupted("an extended header of an impossible size")
        self._extension, self._extension_kind = bytearray(), entry.kind
        self._missing, self._gap = entry.size, padding(entry.size)

    def _extend(self, data: bytes) -> None:
        if self._extension_kind == PAX:
            self._extra |= parse_records(data)
        elif self._extension_kind == PAX_GLOBAL:
            if parse_records(data).keys() - {b"comment"}:
                raise Corrupted("a header for all entries, which is not understood here")
        else:
            self._extra[b"path" if self._extension_kind == GNU_NAME else b"linkpath"] = data.rstrip(b"\0")

    def _begin(self, entry: Entry, at: int, end: int, items: list[Item]) -> int:
        entry.name = parse_name(entry.name)
        self._tally.files_done += 1
        if self._limits.files is not None and self._tally.files_done > self._limits.files:
            raise Corrupted("the archive holds more files than the volume may have")
        if entry.kind == FILE:
            return self._begin_file(entry, at, end, items)
        if entry.size:
            raise Corrupted(f"an entry that has no content says that it has some: {entry.name!r}")
        if entry.kind == FOLDER:
            self._begin_folder(entry)
        elif not entry.name:
            raise Corrupted("the root is no folder")
        elif entry.kind == HARD_LINK:
            self._links.append(entry)
        elif entry.kind in (SYMLINK, FIFO):
            items.append((fields_of(entry), 0, 0))
        else:
            raise Corrupted(f"an entry of a kind that is never archived: {entry.name!r}")
        return at

    def _begin_folder(self, entry: Entry) -> None:
        if entry.name:
            self._folders.append(entry)
            self._creator.folder(entry)
        elif self._has_root:
            raise Corrupted("the root is there twice")
        else:
            self._folders.insert(0, entry)  # finished last, wherever it is: it may be closed to ourselves then
            self._has_root = True

    def _begin_file(self, entry: Entry, at: int, end: int, items: list[Item]) -> int:
        if not entry.name:
            raise Corrupted("the root is no folder")
        size = entry.size
        if self._limits.bytes is not None and self._tally.bytes_done + size > self._limits.bytes:
            raise Corrupted("the archive holds more than the volume may have")
        taken = min(size, end - at)
        items.append((fields_of(entry), self._base + at, self._base + at + taken))
        self._tally.bytes_done += taken
        self._missing, self._gap = size - taken, padding(size)
        return at + taken
