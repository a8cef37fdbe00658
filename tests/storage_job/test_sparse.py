"""Sparse files that are cut up beyond reason: what describes them stays small, and nothing is lost."""

import os
from itertools import pairwise
from pathlib import Path

from codehub.storage_job.holes import extents
from codehub.storage_job.sparse import SparseFile
from codehub.storage_job.tarformat import FILE, Entry, sparse_map


def test_a_map_stays_small_and_covers_everything(tmp_path: Path) -> None:
    """Small holes are given up, large ones stay."""
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT, 0o600)
    at = 0
    for number in range(60):
        os.pwrite(fd, b"%d" % number, at)
        at += 64 << 20 if number % 20 == 0 else 16 << 10
    os.ftruncate(fd, at)
    exact = extents(fd, at)
    assert len(exact) >= 60
    small = extents(fd, at, most=10)
    assert len(small) <= 12
    assert small[-1] == (at, 0)
    for start, length in exact:
        assert any(first <= start and start + length <= first + much for first, much in small), (start, length)
    assert all(sum(before) <= after[0] for before, after in pairwise(small))
    assert sum(length for _, length in small) < 2 << 20
    os.close(fd)


def test_a_long_map_in_any_pieces(tmp_path: Path) -> None:
    pieces = [(number * 8192, 4) for number in range(5000)]
    stream = sparse_map(pieces) + b"data" * len(pieces)
    for step in (512, 1024, len(stream)):
        fd = os.open(tmp_path / f"{step}", os.O_RDWR | os.O_CREAT, 0o600)
        file = SparseFile(fd, Entry(b"name", FILE, size=len(stream), real_size=5000 * 8192))
        for start in range(0, len(stream), step):
            file.write(memoryview(stream)[start : start + step])
        file.finish()
        assert os.pread(fd, 8, 4999 * 8192) == b"data\0\0\0\0"
        assert [os.pread(fd, 4, start) for start, _ in pieces] == [b"data"] * len(pieces)
        os.close(fd)
