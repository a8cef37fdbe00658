"""A tar stream into a volume, in one pass: one thread reads headers, a few others make the files.

The stream comes in slabs of a fixed size. The reader makes folders itself, so that they are there before what is in
them, keeps hard links and the final state of folders for the end, and gives files to the makers a slab at a time. The
kernel's work of creating files, most of the time that a restore takes, is thus spread over the cores.
"""

import itertools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from .create import Creator, refusal
from .protocol import Corrupted, Limits, Tally, TryAgain
from .sparse import SparseFile
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
    parse,
    parse_name,
    parse_records,
)

SLAB = 1 << 20
SLABS = 24
MAKERS = 2
LINKS_AT_ONCE = 10_000

# An entry to make with its first bytes, or None and more bytes of the entry before.
Item = tuple[Entry | None, memoryview]


class Slab:
    """One buffer; free again when every maker that was given a part of it is done."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(SLAB))
        self.parts = 0
        self._done = itertools.count(1)

    def is_free_after(self) -> bool:
        if next(self._done) < self.parts:  # counts without a lock: one step of a C iterator
            return False
        self._done = itertools.count(1)
        return True


class Maker:
    """A thread that makes files from the items it is given, in their order."""

    def __init__(self, root_fd: int, free: "SimpleQueue[Slab]", failed: Callable[[BaseException], None]) -> None:
        self.creator = Creator(root_fd)
        self.queue: SimpleQueue[tuple[Slab, list[Item]] | threading.Event | None] = SimpleQueue()
        self._free = free
        self._failed = failed
        self._broken = False
        self._fd = -1
        self._entry: Entry | None = None
        self._left = 0
        self._sparse: SparseFile | None = None
        self.thread = threading.Thread(target=self._run, name="make", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while (order := self.queue.get()) is not None:
            if isinstance(order, threading.Event):
                order.set()
                continue
            slab, items = order
            if not self._broken:
                self._make_all(items)
            del items, order
            if slab.is_free_after():
                self._free.put(slab)
        self._abandon()
        self.creator.close()

    def _make_all(self, items: list[Item]) -> None:
        name = b""
        try:
            for entry, data in items:
                if entry is None:
                    self._more(data)
                else:
                    name = entry.name
                    if entry.kind == FILE:
                        self._file(entry, data)
                    elif entry.kind == SYMLINK:
                        self.creator.symlink(entry)
                    else:
                        self.creator.fifo(entry)
        except OSError as error:
            self._fail(refusal(error, name or (self._entry.name if self._entry else b"")))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that reads
            self._fail(error)

    def _file(self, entry: Entry, data: memoryview) -> None:
        self._fd = fd = self.creator.new_file(entry)
        if entry.real_size is None and len(data) == entry.size:
            if data:
                write_all(fd, data)
        else:
            self._entry, self._left = entry, entry.size
            self._sparse = SparseFile(fd, entry) if entry.real_size is not None else None
            return self._more(data)
        return self._finish(fd, entry)

    def _more(self, data: memoryview) -> None:
        assert self._entry is not None
        if self._sparse:
            self._sparse.write(data)
        else:
            write_all(self._fd, data)
        self._left -= len(data)
        if not self._left:
            if self._sparse:
                self._sparse.finish()
            self._finish(self._fd, self._entry)
            self._entry = self._sparse = None

    def _finish(self, fd: int, entry: Entry) -> None:
        self.creator.finish_file(fd, entry)
        os.close(fd)
        self._fd = -1

    def _fail(self, error: BaseException) -> None:
        self._broken = True
        self._failed(error)

    def _abandon(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


class Unpacker:
    """Takes the stream in slabs; `finish` when it ended."""

    def __init__(self, root_fd: int, limits: Limits, tally: Tally) -> None:
        self._creator = Creator(root_fd)
        self._limits = limits
        self._tally = tally
        self._error: BaseException | None = None
        self._free: SimpleQueue[Slab] = SimpleQueue()
        for _ in range(SLABS):
            self._free.put(Slab())
        self._makers = [Maker(root_fd, self._free, self._failed) for _ in range(MAKERS)]
        self._turn = itertools.cycle(self._makers)
        self._sticky = self._makers[0]  # who has the file that goes on in the next slab
        self._folders: list[Entry] = []
        self._links: list[Entry] = []
        self._extra: dict[bytes, bytes] = {}
        self._extension: bytearray | None = None  # of the header that is being read
        self._extension_kind = b""
        self._missing = 0  # bytes of content that are still to come
        self._gap = 0  # padding that is still to come
        self._has_root = self._ended = False

    @property
    def dropped(self) -> int:
        return self._creator.dropped + sum(maker.creator.dropped for maker in self._makers)

    def slab(self) -> Slab:
        """An empty slab, to be filled and given to `take`."""
        return self._free.get()

    def take(self, slab: Slab, size: int) -> None:
        if self._error:
            raise self._error
        if size % BLOCK:
            raise Corrupted("the archive ends in the middle of a block")
        items: list[Item] = []
        try:
            self._read(slab.view[:size], items)
        except OSError as error:
            raise refusal(error, b"") from error
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
        for maker in self._makers:
            maker.queue.put(None)
        for maker in self._makers:
            maker.thread.join()
        self._creator.close()

    def _failed(self, error: BaseException) -> None:
        self._error = self._error or error

    def _hand_out(self, slab: Slab, items: list[Item]) -> None:
        """What goes on from the slab before to the maker that has it; the rest to the next one."""
        going_on = 1 if items and items[0][0] is None else 0
        parts = [part for part in (items[:going_on], items[going_on:]) if part]
        slab.parts = len(parts)
        if not parts:
            self._free.put(slab)
        for part in parts:
            if part[0][0] is not None:
                self._sticky = next(self._turn)
            self._sticky.queue.put((slab, part))

    def _make_links(self) -> None:
        """After every file that was given out is made."""
        for maker in self._makers:
            idle = threading.Event()
            maker.queue.put(idle)
            idle.wait()
        if self._error:
            raise self._error
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
                self._content(view[at : at + taken], items)
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

    def _content(self, data: memoryview, items: list[Item]) -> None:
        self._missing -= len(data)
        if self._extension is None:
            items.append((None, data))
            self._tally.bytes_done += len(data)
            return
        self._extension += data
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
                entry.mtime_ns = int(time[9:19]) * NANO + int(time[20:29])
            else:
                self._extra = parse_records(time)
                return at - BLOCK
        else:
            block = block[:BLOCK]
            at += BLOCK
            if block == ZEROS:
                self._ended = True
                return at
            if block[156] in EXTENSIONS:
                self._begin_extension(parse(block, {}))
                return at
            entry = parse(block, self._extra)
            self._extra = {}
        return self._begin(entry, view, at, end, items)

    def _begin_extension(self, entry: Entry) -> None:
        if not 0 < entry.size <= EXTENSION_BYTES:
            raise Corrupted("an extended header of an impossible size")
        self._extension, self._extension_kind = bytearray(), entry.kind
        self._missing, self._gap = entry.size, padding(entry.size)

    def _extend(self, data: bytes) -> None:
        if self._extension_kind == PAX:
            self._extra |= parse_records(data)
        elif self._extension_kind == PAX_GLOBAL:
            parse_records(data)  # comments; what would change every entry after it is not understood here
        else:
            self._extra[b"path" if self._extension_kind == GNU_NAME else b"linkpath"] = data.rstrip(b"\0")

    def _begin(self, entry: Entry, view: memoryview, at: int, end: int, items: list[Item]) -> int:
        entry.name = parse_name(entry.name)
        self._tally.files_done += 1
        if self._limits.files is not None and self._tally.files_done > self._limits.files:
            raise Corrupted("the archive holds more files than the volume may have")
        if entry.kind == FILE:
            return self._begin_file(entry, view, at, end, items)
        if entry.size:
            raise Corrupted(f"an entry that has no content says that it has some: {entry.name!r}")
        if entry.kind == FOLDER:
            self._begin_folder(entry)
        elif not entry.name:
            raise Corrupted("the root is no folder")
        elif entry.kind == HARD_LINK:
            self._links.append(entry)
        elif entry.kind in (SYMLINK, FIFO):
            items.append((entry, view[:0]))
        else:
            raise Corrupted(f"an entry of a kind that is never archived: {entry.name!r}")
        return at

    def _begin_folder(self, entry: Entry) -> None:
        if entry.name:
            self._creator.folder(entry)
        elif self._has_root:
            raise Corrupted("the root is there twice")
        else:
            self._has_root = True
        self._folders.append(entry)

    def _begin_file(self, entry: Entry, view: memoryview, at: int, end: int, items: list[Item]) -> int:
        if not entry.name:
            raise Corrupted("the root is no folder")
        size = entry.size
        if self._limits.bytes is not None and self._tally.bytes_done + size > self._limits.bytes:
            raise Corrupted("the archive holds more than the volume may have")
        taken = min(size, end - at)
        items.append((entry, view[at : at + taken]))
        self._tally.bytes_done += taken
        self._missing, self._gap = size - taken, padding(size)
        return at + taken


def write_all(fd: int, data: memoryview) -> None:
    while len(written := data[os.write(fd, data) :]):
        data = written


__all__ = ["SLAB", "Slab", "TryAgain", "Unpacker", "write_all"]
