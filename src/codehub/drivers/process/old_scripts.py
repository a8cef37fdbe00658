"""Copies of our scripts (scripts.py) that nobody needs any more, as upgrades leave them, go when a driver is opened.

Three may need one, and each is asked: a sandbox that runs shows it among its mounts, whichever version started it; a
driver that is open holds a lock on it; and a coordinator of a version that held none may run beside us for as long as
an upgrade takes, so a copy goes only days after it was first seen without use. What cannot be known counts as use.
"""

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from codehub.drivers.process.instances import job_records
from codehub.drivers.process.layout import Layout, is_token, read_json, remove_tree
from codehub.drivers.process.notes import RECORD
from codehub.drivers.process.records import Record

KEPT_SECONDS = 7 * 86400.0
_SINCE = ".unused"  # beside a copy: made when it was first seen so
_HAS_ENDED = {errno.ENOENT, errno.ESRCH, errno.EINVAL}
_ROOT = 3  # the field of a mount that says what of its file system it shows


def remove_old_scripts(layout: Layout, *copies: Path, kept_seconds: float = KEPT_SECONDS) -> None:
    """All but ours. Raises Unreachable or OSError, having removed what it could."""
    ours = {copy.name for copy in copies}
    found = layout.list(layout.scripts)
    others = [name for name in found if is_token(name) and name not in ours]
    shown = _shown(layout) if others else set()
    for name in others:
        place, since = layout.scripts / name, layout.scripts / f"{name}{_SINCE}"
        if shown is None or name in shown:
            since.unlink(missing_ok=True)
        elif not since.exists():
            since.touch()
        elif time.time() - since.stat().st_mtime > kept_seconds:
            _remove_unless_held(layout, place)
    left = {name for name in layout.list(layout.scripts) if is_token(name)} - ours
    for name in found:
        if name.endswith(_SINCE) and name.removesuffix(_SINCE) not in left:
            (layout.scripts / name).unlink(missing_ok=True)


def _remove_unless_held(layout: Layout, place: Path) -> None:
    """Whoever has found it there before we rename it away looks again once it has the lock (scripts.py)."""
    descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        grave = layout.discard(place)
    except BlockingIOError:
        return
    finally:
        os.close(descriptor)
    if grave is not None:
        remove_tree(grave)


def _shown(layout: Layout) -> set[str] | None:
    """The copies that sandboxes show; None if that cannot be known of one that runs."""
    found: set[str] = set()
    for record in _records(layout):
        sandbox = read_json(record.folder / "sandbox.json")
        if sandbox is None:
            if record.tree().is_alive():  # it is just starting, or has none
                return None
            continue
        try:
            mounts = Path(f"/proc/{sandbox['child-pid']}/mountinfo").read_text(errors="replace")
        except OSError as error:
            if error.errno not in _HAS_ENDED:
                return None
            continue
        roots = [Path(line.split()[_ROOT]) for line in mounts.splitlines()]
        found |= {root.name for root in roots if root.parent.name == layout.scripts.name}
    return found


def _records(layout: Layout) -> Iterator[Record]:
    for name in layout.list(layout.instances):
        if (record := Record.read(layout.instances / name, RECORD)) is not None:
            yield record
    yield from job_records(layout)
