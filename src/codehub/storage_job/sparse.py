"""A sparse file on its way out of an archive: first its map, then only the pieces that have content."""

import os

from .home import shown
from .protocol import Corrupted
from .tarformat import BLOCK, Entry

MAP_BYTES = 16 << 20  # twice what the longest map that is ever written has (holes.py)


class SparseFile:
    """Takes the content of one entry in pieces of any size."""

    def __init__(self, fd: int, entry: Entry) -> None:
        self._fd = fd
        self._name = shown(entry.name)
        self._real_size = entry.real_size or 0
        self._table: bytearray | None = bytearray()
        self._lines = 0  # in the table so far
        self._expected = 1  # how many it has; the first says so
        self._pieces: list[tuple[int, int]] = []
        self._at = self._left = 0

    def write(self, data: memoryview) -> None:
        if self._table is not None:
            data = self._read_table(data)
        while data:
            if not self._left:
                if not self._pieces:
                    raise Corrupted(f"a sparse file holds more than its map says: {self._name}")
                self._at, self._left = self._pieces.pop()
                continue
            done = os.pwrite(self._fd, data[: self._left], self._at)
            self._at += done
            self._left -= done
            data = data[done:]

    def finish(self) -> None:
        if self._table is not None or self._left or any(length for _, length in self._pieces):
            raise Corrupted(f"a sparse file holds less than its map says: {self._name}")
        os.ftruncate(self._fd, self._real_size)

    def _read_table(self, data: memoryview) -> memoryview:
        """Collect whole blocks until the map is complete; what is left is content."""
        assert self._table is not None
        while data and self._lines < self._expected:
            block, data = bytes(data[:BLOCK]), data[BLOCK:]
            if not self._table:
                self._expected += 2 * self._number(block.partition(b"\n")[0])
            self._table += block
            self._lines += block.count(b"\n")
            if len(self._table) > MAP_BYTES:
                raise Corrupted(f"a sparse file's map is impossibly long: {self._name}")
        if self._lines >= self._expected:
            self._parse()
            self._table = None
        return data

    def _parse(self) -> None:
        assert self._table is not None
        numbers = [self._number(text) for text in bytes(self._table).split(b"\n")[1 : self._expected]]
        pieces = list(zip(numbers[::2], numbers[1::2], strict=True))
        end = 0
        for offset, length in pieces:
            if offset < end:
                raise Corrupted(f"a sparse file's map is out of order: {self._name}")
            end = offset + length
        if end > self._real_size or self._real_size >= 1 << 62:
            raise Corrupted(f"a sparse file's map leads past its end: {self._name}")
        self._pieces = [piece for piece in reversed(pieces) if piece[1]]

    def _number(self, text: bytes) -> int:
        if not text.isdigit() or len(text) > 19:
            raise Corrupted(f"a sparse file's map is damaged: {self._name}")
        return int(text)
