"""What is on record of instances and jobs, and how it compares with the processes that really run.

A record appears by one rename before its process is started, so nothing runs that is not on record; the process itself
adds who it is (launch.py), and bubblewrap the pid of the first process in the sandbox.
"""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from codehub.drivers.process.identity import Identity
from codehub.drivers.process.layout import file_lock, read_json
from codehub.drivers.process.tree import Tree
from codehub.errors import Unreachable
from codehub.model.workspace import Incarnation, OpId, VolumeRef

LOG_BYTES = 4 << 20
_KEPT_BYTES = 1 << 20
_TAIL_BYTES = 256 << 10
_LAST_WORDS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Record:
    """A folder below instances/ or jobs/."""

    folder: Path
    content: dict[str, Any]

    @classmethod
    def read(cls, folder: Path, file: str) -> "Record | None":
        content = read_json(folder / file)
        return cls(folder, content) if content is not None else None

    @property
    def op_id(self) -> OpId:
        return OpId(UUID(self.content["op_id"]))

    @property
    def volume(self) -> VolumeRef:
        return VolumeRef(Incarnation(self.content["incarnation"]), self.content["uid"])

    @property
    def mark(self) -> str:
        return str(self.content["mark"])

    def main(self) -> Identity | None:
        """The process itself, once it has written down who it is."""
        process = read_json(self.folder / "process.json")
        return Identity(process["pid"], process["started"], process["boot"]) if process else None

    def tree(self, spared: tuple[str, ...] = ()) -> Tree:
        sandbox = read_json(self.folder / "sandbox.json")
        return Tree(
            mark=self.mark,
            main=self.main(),
            first=sandbox["child-pid"] if sandbox else None,
            user=self.content.get("own_user"),
            spared=spared,
            is_subreaper=self.content.get("is_subreaper", False),
        )


def tail(path: Path, lines: int) -> str:
    """The last lines of a log that a workspace writes: whatever it holds, however large."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _TAIL_BYTES))
            found = file.read(_TAIL_BYTES).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    kept = found[-lines:] if lines > 0 else []
    return "".join(f"{line}\n" for line in kept)


def last_words(path: Path, lines: int) -> str:
    """The same of what has ended, once all that it said is there: who writes it holds a lock (launch.py, `piped`)."""
    with suppress(Unreachable, FileNotFoundError), file_lock(path, fcntl.LOCK_EX, _LAST_WORDS_SECONDS):
        return tail(path, lines)
    return tail(path, lines)


def trim_log(path: Path) -> None:
    """Cut it to its end when it is too long. Only what a version before this one started writes there by itself."""
    try:
        if path.stat().st_size <= LOG_BYTES:
            return
        with path.open("rb+") as file:
            file.seek(-_KEPT_BYTES, os.SEEK_END)
            kept = file.read(_KEPT_BYTES)
            file.truncate(0)
            file.seek(0)
            file.write(kept)
    except FileNotFoundError:
        return
