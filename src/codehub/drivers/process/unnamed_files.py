"""What processes hold of a disk without a name there: files that were unlinked while they were open or mapped.

Such a file takes its room until the last of them ends, and no look through folders finds it. The kernel shows them per
process; how many that are is a workspace's choice, so the look has an end: what is beyond counts as not measured.
Files that are only on their way from one process to another (SCM_RIGHTS) are not seen.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from stat import S_ISREG

MAX_LOOKED_AT = 100_000  # descriptors and mappings of one workspace
_MAX_MAPS_BYTES = 16 << 20
_DELETED = " (deleted)"


@dataclass(slots=True)
class Unnamed:
    """Of one workspace."""

    bytes: int = 0
    files: int = 0
    is_whole: bool = True  # whether all was looked at


def unnamed_files(pids: Iterable[int], device: int, most: int = MAX_LOOKED_AT) -> Unnamed:
    """Those on the file system `device`, each counted once."""
    found, known, left = Unnamed(), set[int](), most
    for pid in pids:
        for path in (*_of_folder(f"/proc/{pid}/fd"), *_mapped(pid)):
            left -= 1
            if left < 0:
                found.is_whole = False
                return found
            with suppress(OSError):  # it has been closed meanwhile, or is not for us to look at
                if not os.readlink(path).endswith(_DELETED):  # noqa: PTH115 - as below
                    continue
                stat = os.stat(path)  # noqa: PTH116 - one of very many
                if S_ISREG(stat.st_mode) and stat.st_dev == device and stat.st_nlink == 0 and stat.st_ino not in known:
                    known.add(stat.st_ino)
                    found.bytes += stat.st_blocks * 512
                    found.files += 1
    return found


def _of_folder(folder: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            yield entry.path


def _mapped(pid: int) -> Iterator[str]:
    """Mappings of files without a name; to look behind them takes root."""
    with suppress(OSError), open(f"/proc/{pid}/maps", "rb", buffering=0) as file:  # noqa: PTH123 - as above
        rest, left = b"", _MAX_MAPS_BYTES
        while left > 0 and (block := file.read(1 << 16)):
            left -= len(block)
            *lines, rest = (rest + block).split(b"\n")
            for line in lines:
                if line.endswith(b" (deleted)"):
                    start, _, end = line.partition(b" ")[0].partition(b"-")
                    yield f"/proc/{pid}/map_files/{start.lstrip(b'0').decode()}-{end.lstrip(b'0').decode()}"
