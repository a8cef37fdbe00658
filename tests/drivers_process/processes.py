"""What really runs, read from /proc without the driver's help."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codehub.drivers.process.cgroups import Cgroups
from codehub.drivers.process.layout import Layout
from codehub.errors import Unreachable
from tests.support import eventually


@dataclass(frozen=True)
class Launched:
    """What a record says, and the mark that everything outside the sandbox carries."""

    mark: str
    pids: tuple[int, ...]  # bubblewrap, and the first process of the sandbox


def record_of(folder: Path) -> Launched:
    content = json.loads((folder / _name(folder)).read_text())
    pids = []
    with suppress(FileNotFoundError):
        pids.append(json.loads((folder / "process.json").read_text())["pid"])
    with suppress(FileNotFoundError, ValueError):
        pids.append(json.loads((folder / "sandbox.json").read_text())["child-pid"])
    return Launched(content["mark"], tuple(pids))


def sandboxed_record_of(folder: Path) -> Launched:
    """Once bubblewrap has written down the first process: a moment after the launch."""
    eventually(lambda: len(record_of(folder).pids) == 2, "a sandbox")
    return record_of(folder)


def _name(folder: Path) -> str:
    return "job.json" if "job" in folder.name else "instance.json"


def living_of(launched: Launched) -> set[int]:
    """Every living process on record or with the mark, in the pid namespace of one, or descending from one."""
    parents = dict(_parents())
    # One that is just ending has lost its environment, and the mark with it, a moment before it has ended.
    ours = {pid for pid in parents if pid in launched.pids or _has_mark(pid, launched.mark)}
    own = _namespace("self")
    namespaces = {_namespace(pid) for pid in ours} - {own, None}
    ours |= {pid for pid in parents if _namespace(pid) in namespaces}
    while grown := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= grown
    return ours


def living_with(user: int) -> set[int]:
    """Every living process of a user of the machine."""
    found = set()
    for pid, _ in _parents():
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
            found |= {pid for line in lines if line.startswith("Uid:") and line.split()[1] == str(user)}
    return found


def remove_groups(layout: Layout) -> None:
    """The cgroups of an installation whose processes were killed; its driver would have, had it stopped them."""
    try:
        groups = Cgroups.find(layout.installation())
    except Unreachable:  # no driver was ever opened here
        return
    if groups is not None:
        for group in groups.parent.glob("*/"):
            groups.kill(group.name)
            groups.remove(group.name)


def _parents() -> list[tuple[int, int]]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                found.append((int(entry.name), int(fields[1])))
    return found


def _has_mark(pid: int, mark: str) -> bool:
    with suppress(OSError):
        return f"CODEHUB_MARK={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def _namespace(pid: int | str) -> str | None:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    return None
