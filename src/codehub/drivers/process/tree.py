"""Everything that one launched thing runs, found and killed to the last process.

Four ways of belonging, any of which is enough: being the launched process or the first process of its pid namespace;
carrying its mark in the environment; running under a user id that is its alone (minus what is excluded); descending
from one of those. In a sandbox killing the first process is all the kernel needs; without one the other ways catch
daemons that left their session and their parent. Of an ordinary user's workspace without a sandbox the launched process
is its subreaper, which is asked first: whatever left its mark as well is its descendant for as long as it lives.
"""

import signal
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from codehub.drivers.process import identity
from codehub.drivers.process import subreaper as subreaper_script
from codehub.drivers.process.identity import Identity, Proc
from codehub.drivers.process.looks import Look, looks, marks_of
from codehub.errors import ActionFailed

_KILL_SECONDS = 15.0
_SUBREAPER_SECONDS = 5.0
_ENDING_SECONDS = 0.5  # then they are looked for again, with what they may have started meanwhile
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Tree:
    """What is known of a launched thing from its record."""

    mark: str  # drawn for this launch alone
    main: Identity | None  # None: it died, or we did, before it could be written down
    first: int | None  # pid of the sandbox's first process, if there is a sandbox
    user: int | None = None  # the user id that nothing else runs under, None if there is no such
    spared: tuple[str, ...] = ()  # marks of other things that run under the same user id
    is_subreaper: bool = False  # whether the launched process ends what it has adopted (subreaper.py)

    def is_alive(self) -> bool:
        """Whether the program itself runs: bubblewrap stays exactly as long as what it was asked to run."""
        return self.main is not None and self.main.find() is not None

    def is_working(self) -> bool:
        """Whether anything of it may still change files: more than its program, should that have died first."""
        return self.is_alive() or self._first() is not None

    def members(self, look: Look | None = None) -> list[Proc]:
        """Every living process of it."""
        look = look or looks.fresh()
        ours = {found.pid for found in look.living if self._belongs(found, look)}
        _add_descendants(ours, look)
        return [found for found in look.living if found.pid in ours]

    def kill(self, seconds: float = _KILL_SECONDS) -> None:
        """Return when no process of it is left."""
        until = time.monotonic() + seconds
        if self.is_subreaper and self.main is not None and (subreaper := self.main.find()) is not None:
            identity.kill(subreaper, subreaper_script.END)
            _wait_for_the_end_of([subreaper], _SUBREAPER_SECONDS)
        while members := self.members():
            for found in members:
                identity.kill(found)
            if time.monotonic() > until:
                pids = " ".join(str(found.pid) for found in members)
                raise ActionFailed(f"Processes do not end although they were killed: {pids}.")
            _wait_for_the_end_of(members)

    def ask_to_end(self, seconds: float) -> None:
        """SIGTERM for the programs themselves, and time to end; what holds them together (a sandbox) ends with them."""
        if self.is_subreaper and self.main is not None and (subreaper := self.main.find()) is not None:
            identity.kill(subreaper, subreaper_script.GRACE)
        holders = {self.first}
        if self.main is not None and (self.first is not None or self.is_subreaper):
            holders.add(self.main.pid)
        programs = [found for found in self.members() if found.pid not in holders]
        for found in programs:
            identity.kill(found, signal.SIGTERM)
        _wait_for_the_end_of(programs, seconds)

    def _first(self) -> Proc | None:
        found = identity.proc(self.first) if self.first is not None else None
        # Its start is not on record, but its mark is its own.
        return found if found and not found.is_zombie and self.mark in marks_of(found.pid) else None

    def _belongs(self, found: Proc, look: Look) -> bool:
        if self.main is not None and (found.pid, found.started) == (self.main.pid, self.main.started):
            return self.main.boot == identity.boot_id()
        marks = look.marks.get(found.pid, frozenset())
        if self.mark in marks:
            return True
        return self.user is not None and self.user in look.users[found.pid] and marks.isdisjoint(self.spared)


def _add_descendants(ours: set[int], look: Look) -> None:
    todo: Collection[int] = list(ours)
    while todo:
        todo = {child for pid in todo for child in look.children.get(pid, ())} - ours
        ours |= todo


def _wait_for_the_end_of(members: Sequence[Proc], seconds: float = _ENDING_SECONDS) -> None:
    """Looking at these few costs next to nothing, looking for all of them does not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
        members = [found for found in members if identity.is_there(found)]
        if not members:
            return
