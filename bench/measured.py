"""What a program and everything it started use: memory as the kernel shares it out (PSS), and processor time."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> set[int]:
    """It and all that it has started and that is still its own."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, todo = set(), [pid]
    while todo:
        one = todo.pop()
        found.add(one)
        todo += children.get(one, [])
    return found


def megabytes(pids: Iterable[int]) -> float:
    """Their memory: what several of them share is counted once."""
    return sum(_pss(pid) for pid in pids) / 1024


def cpu_seconds(pids: Iterable[int]) -> float:
    return sum(_cpu(pid) for pid in pids)


def _pss(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def _cpu(pid: int) -> float:
    """With that of children that have ended: programs that come and go count too."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICKS
    return 0.0


def name_of(pid: int) -> str:
    """As a person would call it: the program, and what it is at."""
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ").split()
        return " ".join(word.rpartition("/")[2] for word in words[:4] if not word.startswith("-"))
    return "?"
