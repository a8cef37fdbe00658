"""What running workspaces use: processor time and memory of all their processes, and the ports that they listen on.

One look through /proc serves all workspaces, and each process counts for one of them. Where a workspace has a control
group, the kernel has added it up already. Ports are read in the workspace's own network namespace only: where it has
none, they would be the machine's.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from codehub.drivers.base import InstanceUsage
from codehub.drivers.process import network
from codehub.drivers.process.identity import Proc
from codehub.drivers.process.looks import Look
from codehub.drivers.process.machine import Machine
from codehub.drivers.process.notes import Note
from codehub.model.names import instance_name
from codehub.model.workspace import WorkspaceId

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_LISTENING = b"0A"  # in /proc/net/tcp
_MAX_TABLE_BYTES = 4 << 20  # a workspace may have as many connections as it likes
_BLOCK_BYTES = 1 << 16
_MAX_PORTS = 100
_FIRST_FORWARDED = 1024
_FIRST_EPHEMERAL = 32768  # the kernel gives these to programs that name no port, such as notebook kernels


@dataclass(slots=True)
class _Sum:
    cpu_seconds: float = 0.0
    memory_bytes: int = 0


def usage_of(machine: Machine, notes: Iterable[Note], look: Look) -> Mapping[WorkspaceId, InstanceUsage]:
    """Of every instance that lives."""
    living = [note for note in notes if note.is_alive()]
    sums = _sums(living, look)
    found = {}
    for note in living:
        one = _of_group(machine, note) or sums[note.workspace_id]
        found[note.workspace_id] = InstanceUsage(
            cpu_seconds=one.cpu_seconds, memory_bytes=one.memory_bytes, ports=_ports(machine, note)
        )
    return found


def _of_group(machine: Machine, note: Note) -> _Sum | None:
    """What the kernel has added up; None where it does not."""
    groups = machine.cgroups
    if groups is None or not groups.controllers >= {"memory", "cpu"}:
        return None
    group = groups.parent / instance_name(note.workspace_id)
    try:
        memory, cpu = _facts(group / "memory.stat"), _facts(group / "cpu.stat")
        return _Sum(cpu["usage_usec"] / 1e6, memory["anon"] + memory["shmem"] + memory.get("kernel", 0))
    except (OSError, KeyError, ValueError):
        return None


def _facts(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) == 2}


def _sums(living: Iterable[Note], look: Look) -> dict[WorkspaceId, _Sum]:
    sums = {note.workspace_id: _Sum() for note in living}
    for proc, workspace_id in owned(living, look):
        with suppress(OSError, ValueError, IndexError):  # it has ended
            sums[workspace_id].cpu_seconds += _cpu_seconds(proc.pid)
            sums[workspace_id].memory_bytes += _memory_bytes(proc.pid)
    return sums


def owned(living: Iterable[Note], look: Look) -> Iterable[tuple[Proc, WorkspaceId]]:
    """Each process with its workspace: by its mark, its user, or whoever started it (tree.py)."""
    marks = {note.record.mark: note.workspace_id for note in living}
    mains = {note.main.pid: note.workspace_id for note in living if note.main is not None}
    users = {user: note.workspace_id for note in living if (user := note.record.content.get("own_user")) is not None}
    owner: dict[int, WorkspaceId] = {}
    for proc in look.living:
        found = mains.get(proc.pid)
        its = look.marks.get(proc.pid, frozenset())
        for mark in its & marks.keys():
            found = marks[mark]
        if found is None and not its and users:
            found = next((users[user] for user in look.users[proc.pid] if user in users), None)
        if found is not None:
            owner[proc.pid] = found
    todo = list(owner)
    while todo:
        parent = todo.pop()
        for child in look.children.get(parent, ()):
            if child not in owner:
                owner[child] = owner[parent]
                todo.append(child)
    return [(proc, owner[proc.pid]) for proc in look.living if proc.pid in owner]


def _cpu_seconds(pid: int) -> float:
    """Its own time, and that of its children which have ended: so the sum of a workspace's processes never shrinks."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND


def _memory_bytes(pid: int) -> int:
    """Without the pages of files, which many processes share and the system can take back."""
    kilobytes = 0
    for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
        if line.startswith(("RssAnon:", "RssShmem:")):
            kilobytes += int(line.split()[1])
    return kilobytes << 10


def _ports(machine: Machine, note: Note) -> tuple[int, ...] | None:
    if not network.has_ports(machine):
        return None
    first = note.record.tree().first
    if first is None:
        return None
    ports: set[int] = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError), Path(f"/proc/{first}/net/{name}").open("rb", buffering=0) as table:
            ports.update(port for port in listening(table) if is_worth_telling(port))
    return tuple(sorted(ports)[:_MAX_PORTS])


def listening(table: BinaryIO) -> Iterator[int]:
    """The ports of a table such as /proc/net/tcp that somebody listens on, as far as it is read."""
    rest, left = b"", _MAX_TABLE_BYTES
    while left > 0 and (block := table.read(min(_BLOCK_BYTES, left))):
        left -= len(block)
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            words = line.split(maxsplit=4)
            if len(words) > 3 and words[3] == _LISTENING:
                yield int(words[1].rpartition(b":")[2], 16)


def is_worth_telling(port: int) -> bool:
    """Whether a person chose it, and a visitor can open it."""
    return _FIRST_FORWARDED <= port < _FIRST_EPHEMERAL and port != network.PORT
