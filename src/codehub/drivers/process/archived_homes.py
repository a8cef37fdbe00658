"""Whether a home is still what its archive has: what a person wrote after the job had read it is nowhere else.

When the first job of an operation begins, the file system's own clock is noted beside the home. A home in which
anything changed after that is newer than the archive. Such a home is left untouched, and so is one that somebody else
has open: the reason is noted beside it, until it is archived again.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from codehub.drivers.process.homes import Home
from codehub.drivers.process.layout import write_durably
from codehub.errors import Unreachable
from codehub.model.workspace import OpId


def begin(home: Home, op_id: OpId) -> None:
    """A job of this operation is about to read the home; the caller holds the workspace's lock."""
    try:
        if not _is_noted(home, op_id):
            write_durably(home.archiving, f"{op_id}\n")
        home.kept.unlink(missing_ok=True)
    except OSError as error:  # a full disk, for example
        raise Unreachable(f"{home.archiving} cannot be written: {error.strerror}.") from error


def keep(home: Home, why: str) -> None:
    try:
        write_durably(home.kept, why)
    except OSError as error:
        raise Unreachable(f"{home.kept} cannot be written: {error.strerror}.") from error


def change_since(home: Home, op_id: OpId) -> Path | None:
    """Something in the home that changed after a job of this operation began; None also if no such job is known of."""
    if not _is_noted(home, op_id):
        return None
    began = home.archiving.stat().st_mtime_ns
    return next((path for path, seen in _everything(home.path) if _changed_at(seen) > began), None)


def _is_noted(home: Home, op_id: OpId) -> bool:
    try:
        return home.archiving.read_text().strip() == str(op_id)
    except FileNotFoundError:
        return False


def _changed_at(seen: os.stat_result) -> int:
    """Of what its owner closed to himself the job changes the mode for a moment, which changes no content."""
    is_open_file = stat.S_ISREG(seen.st_mode) and seen.st_mode & stat.S_IRUSR
    return max(seen.st_mtime_ns, seen.st_ctime_ns) if is_open_file else seen.st_mtime_ns


def _everything(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """What cannot be read cannot be said to be unchanged: OSError."""
    waiting = [folder]
    while waiting:
        above = waiting.pop()
        yield above, above.lstat()
        try:
            with os.scandir(above) as entries:
                found = list(entries)
        except PermissionError:  # closed to its owner, too: what is below it cannot be written without opening it
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                yield Path(entry.path), entry.stat(follow_symlinks=False)
