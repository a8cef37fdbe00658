"""Where a sparse file has content. However much it is cut up, what describes it stays small."""

import errno
import os
from itertools import pairwise

MOST_PIECES = 200_000  # of one file: a map of a few megabytes, here and where it is unpacked

Pieces = list[tuple[int, int]]


def extents(fd: int, size: int, most: int = MOST_PIECES) -> Pieces:
    """Offset and length of each piece, in order; a hole at the end is an empty piece there."""
    found: Pieces = []
    at = 0
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            raise
        at = min(os.lseek(fd, start, os.SEEK_HOLE), size)
        found.append((start, at - start))
        if len(found) > most:
            found = without_small_holes(found)
    os.lseek(fd, 0, os.SEEK_SET)
    if not found or sum(found[-1]) < size:
        found.append((size, 0))
    return found


def without_small_holes(pieces: Pieces) -> Pieces:
    """At most half as many: the smaller holes become zeros, which compress to next to nothing."""
    holes = sorted(after[0] - sum(before) for before, after in pairwise(pieces))
    small = holes[len(holes) // 2]
    merged = pieces[:1]
    for start, length in pieces[1:]:
        first, before = merged[-1]
        if start - (first + before) <= small:
            merged[-1] = (first, start + length - first)
        else:
            merged.append((start, length))
    return merged
