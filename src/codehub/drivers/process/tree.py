"""Everything that one launched thing runs, found and killed to the last process.

Four ways of belonging, any of which is enough: being the launched process or the first process of its pid namespace;
carrying its mark in the environment; running under a user id that is its alone (minus what is excluded); descending
from one of those. In a sandbox killing the first process is all the kernel needs; without one the other ways catch
daemons that left their session and their parent.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass

from codehub.drivers.process import identity
from codehub.drivers.process.identity import Identity, Proc
from codehub.errors import ActionFailed

MARK = "CODEHUB_MARK"
_KILL_SECONDS = 15.0
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Tree:
    """What is known of a launched thing from its record."""

    mark: str  # drawn for this launch alone
    main: Identity | None  # None: it died, or we did, before it could be written down
    first: int | None  # pid of the sandbox's first process, if there is a sandbox
    user: int | None = None  # the user id that nothing else runs under, None if there is no such
    spared: tuple[str, ...] = ()  # marks of other things that run under the same user id

    def is_alive(self) -> bool:
        """Whether the program itself runs: bubblewrap stays exactly as long as what it was asked to run."""
        return self.main is not None and self.main.find() is not None

    def is_working(self) -> bool:
        """Whether anything of it may still change files: more than its program, should that have died first."""
        return self.is_alive() or self._first() is not None

    def members(self) -> list[Proc]:
        """Every living process of it."""
        living = list(identity.everything())
        ours = {found.pid for found in living if self._belongs(found)}
        _add_descendants(ours, living)
        return [found for found in living if found.pid in ours]

    def kill(self, seconds: float = _KILL_SECONDS) -> None:
        """Return when no process of it is left."""
        until = time.monotonic() + seconds
        while members := self.members():
            for found in members:
                identity.kill(found)
            if time.monotonic() > until:
                pids = " ".join(str(found.pid) for found in members)
                raise ActionFailed(f"Processes do not end although they were killed: {pids}.")
            time.sleep(_POLL_SECONDS)

    def _first(self) -> Proc | None:
        found = identity.proc(self.first) if self.first is not None else None
        # Its start is not on record, but its mark is its own.
        return found if found and not found.is_zombie and identity.has_mark(found.pid, self._mark) else None

    @property
    def _mark(self) -> str:
        return f"{MARK}={self.mark}"

    def _belongs(self, found: Proc) -> bool:
        if self.main is not None and (found.pid, found.started) == (self.main.pid, self.main.started):
            return self.main.boot == identity.boot_id()
        if identity.has_mark(found.pid, self._mark):
            return True
        if self.user is None or not identity.has_user(found.pid, self.user):
            return False
        return not any(identity.has_mark(found.pid, f"{MARK}={mark}") for mark in self.spared)


def _add_descendants(ours: set[int], living: Collection[Proc]) -> None:
    grown = True
    while grown:
        children = {found.pid for found in living if found.parent in ours} - ours
        grown = bool(children)
        ours |= children
