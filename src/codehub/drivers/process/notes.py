"""What is on record of every instance, read again only when its folder has changed.

A tick looks at all of them, many times while many start: reading three files of each would cost more than starting
them. What stands in a folder is written once, under its name by a rename or by making the file, and either changes the
folder's time; a folder that has changed in the last seconds is read again, as the clock of files may be coarse.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codehub.drivers.process.identity import Identity
from codehub.drivers.process.layout import Layout, parse_id
from codehub.drivers.process.records import Record
from codehub.errors import Unreachable
from codehub.model.workspace import WorkspaceId

RECORD = "instance.json"
READY = "ready"
_SETTLED_NANOSECONDS = 3_000_000_000  # some file systems count in whole seconds, or two

_Key = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Note:
    """One instance."""

    workspace_id: WorkspaceId
    record: Record
    main: Identity | None
    is_ready: bool  # has answered once

    def is_alive(self) -> bool:
        return self.main is not None and self.main.find() is not None


class Notes:
    """May be used by any number of threads."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._known: dict[str, tuple[_Key, Note | None]] = {}

    def all(self) -> Iterator[Note]:
        known = self._known
        self._known = {}
        for name in self._layout.list(self._layout.instances):
            folder = self._layout.instances / name
            key = _key_of(folder)
            if key is None:
                continue
            was, note = known.get(name, (None, None))
            if was != key:
                note = _read(folder)
            if time.time_ns() - key[1] > _SETTLED_NANOSECONDS:  # never, if its clock is ahead of ours
                self._known[name] = (key, note)
            if note is not None:
                yield note


def note_ready(folder: Path) -> None:
    """A second name for what is there costs less than a new file, which a start has many of."""
    try:
        (folder / READY).hardlink_to(folder / RECORD)
    except FileExistsError:
        return
    except OSError:  # a file system without such names
        (folder / READY).touch()


def _key_of(folder: Path) -> _Key | None:
    try:
        found = folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreachable(f"{folder} cannot be read: {error.strerror}.") from error
    return found.st_ino, found.st_mtime_ns


def _read(folder: Path) -> Note | None:
    workspace_id = parse_id(folder.name, "ws-")
    record = Record.read(folder, RECORD) if workspace_id is not None else None
    if workspace_id is None or record is None:
        return None
    return Note(WorkspaceId(workspace_id), record, record.main(), (folder / READY).exists())
