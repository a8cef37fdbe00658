"""Whether a data directory is the one it was at its last start, or a copy of one that may still be in use elsewhere.

`directory.json` names the directory: where it is (path, machine) and which one it is (the inodes of itself and of its
lock, which no copy shares). A copy that took itself for its original would stop the original's workspaces and delete
its archives. A directory that was moved, or restored from a backup, is taken as it is wherever that is safe.
"""

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Self

from codehub.embedded.datadir import DataDir, write_durably
from codehub.errors import StartError

FILE = "directory.json"
_MACHINE = Path("/etc/machine-id")
_TOKEN_BYTES = 8


class Verdict(Enum):
    SAME = auto()
    """Nothing changed, or its name alone: what it started is still its own."""
    REPLACED = auto()
    """Other files than at the last start, and no original that this start could harm: moved, or restored."""
    UNSURE = auto()
    """A copy, or moved: only a person knows."""


@dataclass(frozen=True, slots=True)
class Directory:
    """What `directory.json` says, or would say now."""

    id: str
    path: str
    inodes: tuple[int, int]
    machine: str | None
    outside: Mapping[str, str]
    """What it uses that is not inside of it, by setting, without passwords."""

    @classmethod
    def now(cls, path: Path, outside: Mapping[str, str]) -> Self:
        return cls(secrets.token_hex(_TOKEN_BYTES), str(path), _inodes(path), _machine(), dict(outside))

    @classmethod
    def noted(cls, path: Path) -> Self | None:
        """None for one that no start has named yet."""
        try:
            found = json.loads((path / FILE).read_text())
            inodes = (int(found["inodes"][0]), int(found["inodes"][1]))
            return cls(str(found["id"]), str(found["path"]), inodes, found["machine"], dict(found["outside"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            raise StartError(
                f"{path / FILE} cannot be read: {error}.", "Restore it from a backup, or remove it and start again."
            ) from error

    def note(self, data: DataDir) -> None:
        text = {
            "id": self.id, "path": self.path, "inodes": self.inodes, "machine": self.machine, "outside": self.outside
        }  # fmt: skip
        try:
            write_durably(data.path / FILE, json.dumps(text))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(f"{data.path / FILE} cannot be written: {reason}.") from error

    def called(self, identity: str) -> Self:
        return replace(self, id=identity)


def verdict(noted: Directory, now: Directory) -> Verdict:
    """`noted` by its last start, `now` where and what it is."""
    is_this_machine = noted.machine is None or now.machine is None or noted.machine == now.machine
    if noted.path != now.path and is_this_machine and _is_elsewhere(noted, now):
        return Verdict.UNSURE
    if noted.inodes == now.inodes and is_this_machine:
        return Verdict.SAME
    took_its_place = noted.machine is not None and noted.machine == now.machine and noted.path == now.path
    return Verdict.REPLACED if took_its_place or not (noted.outside or now.outside) else Verdict.UNSURE


def shared(noted: Directory, now: Directory) -> list[str]:
    """The settings that name the original's things."""
    return sorted(name for name, value in now.outside.items() if noted.outside.get(name) == value)


def _is_elsewhere(noted: Directory, now: Directory) -> bool:
    """Whether the original is where it was."""
    there = Path(noted.path)
    try:
        if _inodes(there) == now.inodes:
            return False  # another name of this very directory
        original = Directory.noted(there)
    except FileNotFoundError:
        return False
    except (OSError, StartError):  # somebody's, and not for us to look at
        return True
    return original is not None and original.id == noted.id


def _inodes(path: Path) -> tuple[int, int]:
    return os.stat(path).st_ino, os.stat(path / "lock").st_ino  # noqa: PTH116


def _machine() -> str | None:
    """None where the machine has no name of its own, as in most containers."""
    try:
        return _MACHINE.read_text().strip() or None
    except (OSError, ValueError):
        return None
