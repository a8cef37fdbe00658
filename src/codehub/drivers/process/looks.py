"""Looks through all of /proc, each for everybody who asks before it begins.

Finding every process of one workspace means reading something of each process of the machine. Where a hundred stop at
once each would do that for itself, several times: so those who ask while somebody looks wait, and share the next look.
What whoever asks did before (killing something, say) is in it: a look that had begun by then is not given out.
"""

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from codehub.drivers.process import identity
from codehub.drivers.process.identity import Proc

MARK = "CODEHUB_MARK"


@dataclass(frozen=True)
class Look:
    """Every living process, and what tells whose it is."""

    living: Sequence[Proc]
    marks: Mapping[int, frozenset[str]]  # by pid; none of those whose environment cannot be read

    @functools.cached_property
    def users(self) -> Mapping[int, frozenset[int]]:
        """The user ids of each; read for whoever asks, since most never do."""
        return {found.pid: identity.users_of(found.pid) for found in self.living}

    @functools.cached_property
    def children(self) -> Mapping[int, Sequence[int]]:
        found: dict[int, list[int]] = {}
        for each in self.living:
            found.setdefault(each.parent, []).append(each.pid)
        return found


class Looks:
    """May be used by any number of threads."""

    def __init__(self, look: Callable[[], Look]) -> None:
        self._look = look
        self._turn = threading.Lock()  # held by who looks
        self._coming = _Coming()

    def fresh(self) -> Look:
        """One that begins after this call."""
        mine = self._coming
        with self._turn:
            if mine.look is None:  # nobody has made it while we waited
                self._coming = _Coming()  # whoever asks from now on gets the next one
                mine.look = self._look()
        return mine.look


class _Coming:
    """A look that has not begun, until it has been made."""

    look: Look | None = None


def look_now() -> Look:
    living = list(identity.everything())
    return Look(living, {found.pid: marks for found in living if (marks := marks_of(found.pid))})


def marks_of(pid: int) -> frozenset[str]:
    """All that it has: a program may have added a further one to its environment."""
    return values_of(pid, MARK)


def values_of(pid: int, name: str) -> frozenset[str]:
    """What the environment it was started with says of a name; nothing, if that cannot be read."""
    prefix = f"{name}=".encode()
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123 - a Path would cost more again
            content = file.readall()
    except OSError:
        return frozenset()
    if prefix not in content:
        return frozenset()
    words = (word for word in content.split(b"\0") if word.startswith(prefix))
    return frozenset(os.fsdecode(word.removeprefix(prefix)) for word in words)


looks = Looks(look_now)  # of the one /proc that there is
