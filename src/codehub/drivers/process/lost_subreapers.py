"""What may be left of a workspace whose subreaper (subreaper.py) was killed before it could end everything.

What it had adopted went to an ancestor of its own, or to the first process of the machine. So whatever is left is, or
descends from, a process of our user that is a child of one of those, is younger than the subreaper, is in its control
group, and carries no mark of another launch. Where there is no such process nothing is left. Where there is one nobody
can tell whose it is: a note stays beside the homes until those have ended, the machine has, or a person removes it.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codehub.drivers.process import identity
from codehub.drivers.process.homes import Home
from codehub.drivers.process.identity import Proc
from codehub.drivers.process.layout import Layout, read_json, write_json
from codehub.drivers.process.looks import Look, looks
from codehub.drivers.process.records import Record

ENDED, WHERE = "ended", "subreaper.json"  # what a subreaper writes beside its record
_FIRST_PROCESS = 1


@dataclass(frozen=True, slots=True)
class LostSubreapers:
    """The notes of one installation, one for each home that something may be left of."""

    layout: Layout

    def note(self, record: Record) -> None:
        """Call this when everything with its mark was killed, and before its record goes."""
        main, where = record.main(), read_json(record.folder / WHERE)
        if main is None or where is None or (record.folder / ENDED).exists():
            return
        lost = {"started": main.started, "boot": main.boot, **where}
        path = self.path(str(record.content["uid"]))
        if not path.exists() and _left(lost, looks.fresh()):  # an earlier one covers this one too
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_json(path, lost)

    def left(self, home: Home, look: Look) -> list[Proc]:
        """Those that may be the workspace's; none if no subreaper of it was lost."""
        lost = read_json(self.path(home.uid))
        found = _left(lost, look) if lost is not None else []
        if not found:
            self.forget(home)
        return found

    def forget(self, home: Home) -> None:
        self.path(home.uid).unlink(missing_ok=True)

    def path(self, uid: str) -> Path:
        return self.layout.root / "lost" / uid


def _left(lost: dict[str, Any], look: Look) -> list[Proc]:
    if lost["boot"] != identity.boot_id():
        return []
    parents = {_FIRST_PROCESS, *lost["ancestors"]}
    if os.getpid() != _FIRST_PROCESS:
        parents.discard(os.getpid())  # what we have started ourselves
    young = (each for each in look.living if each.parent in parents and each.started >= lost["started"])
    return [each for each in young if not look.marks.get(each.pid) and _may_be(each.pid, lost["cgroup"])]


def _may_be(pid: int, cgroup: str) -> bool:
    if pid == os.getpid() or pid in _our_ancestors():
        return False
    try:
        there = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    except OSError:
        return False
    return there == cgroup and os.geteuid() in identity.users_of(pid)


def _our_ancestors() -> set[int]:
    found, pid = set[int](), os.getppid()
    while pid and (parent := identity.proc(pid)) is not None:
        found.add(pid)
        pid = parent.parent
    return found
