"""Which processes may still write into a home whose workspace does not run, found without the help of its record.

With a sandbox there are none: its pid namespace took everything along. Without one, what a workspace starts is known by
the user id that is its alone (as root), or by the home that it carries in its environment (as an ordinary user): those
are ended. A process that has the home open and does not carry it may be a person's own shell: it is never killed, but
named, and until it is gone the home is not deleted.

Processes of other users need not be looked at: nothing that a workspace runs can become another user
(no-new-privileges). What hides from its environment and its files was ended by the subreaper; should that have been
killed, what may have been left is told by lost_subreapers.py.
"""

import os
import time
from pathlib import Path

import structlog

from codehub.drivers.process import identity
from codehub.drivers.process.homes import Home
from codehub.drivers.process.identity import Proc
from codehub.drivers.process.looks import looks, values_of
from codehub.drivers.process.lost_subreapers import LostSubreapers
from codehub.drivers.process.machine import Machine
from codehub.errors import ActionFailed, Unreachable

log = structlog.get_logger()

HOME_MARK = "CODEHUB_HOME"  # where there is no sandbox: the folder that a workspace's programs work in
_END_SECONDS = 10.0
_POLL_SECONDS = 0.01
_MOST_NAMED = 5


class HomeProcesses:
    """May be used by any number of threads; who asks holds the lock of the home's workspace."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._lost = LostSubreapers(machine.layout)

    def end(self, home: Home) -> None:
        """Return when nothing is left that is known to be the workspace's. It has neither an instance nor a job."""
        if self._machine.bwrap is not None:
            return
        until = time.monotonic() + _END_SECONDS
        while found := [each for each in looks.fresh().living if self._is_ours(each, home)]:
            if time.monotonic() > until:
                raise ActionFailed(f"Processes of the workspace do not end although they were killed: {_named(found)}.")
            for each in found:
                identity.kill(each)
            log.warning("a process outlived its workspace and was ended", home=str(home.path), pids=_named(found))
            while any(map(identity.is_there, found)) and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)

    def others(self, home: Home) -> tuple[str, str] | None:
        """Who may write there besides the workspace, and until when; None once it is proven that nobody does."""
        if self._machine.bwrap is not None or self._machine.is_root:
            return None
        look = looks.fresh()
        if found := [each for each in look.living if _has_open(each.pid, home.path)]:
            return f"Programs that are not the workspace's have it open: {_named(found)}.", "once they have ended"
        if found := self._lost.left(home, look):
            why = f"Its supervisor was killed, and these may be its programs: {_named(found)}."
            return why, f"once they have ended, or once you have removed {self._lost.path(home.uid)}"
        return None

    def check_unused(self, home: Home) -> None:
        """Unreachable while it cannot be proven that nothing writes there any more: waited for, never counted."""
        if (others := self.others(home)) is not None:
            why, until = others
            raise Unreachable(f"The home is kept. {why}", f"It is deleted {until}.")

    def _is_ours(self, found: Proc, home: Home) -> bool:
        if self._machine.is_own(home.user) and home.user in identity.users_of(found.pid):
            return True
        return str(home.path) in values_of(found.pid, HOME_MARK)


def _has_open(pid: int, home: Path) -> bool:
    """As far as it may be read: of a process of ours that may not be, such as an agent's, the kernel says nothing."""
    places = [f"/proc/{pid}/{name}" for name in ("cwd", "root", "exe")]
    try:
        places += [entry.path for entry in os.scandir(f"/proc/{pid}/fd")]
        if any(_is_below(place, home) for place in places):
            return True
        with open(f"/proc/{pid}/maps", "rb") as maps:  # noqa: PTH123 - a Path for each of thousands costs more
            return f" {home}/".encode() in maps.read()
    except OSError:
        return False


def _is_below(link: str, home: Path) -> bool:
    try:
        target = os.readlink(link)  # noqa: PTH115 - as above
    except OSError:  # it was closed meanwhile
        return False
    return target == str(home) or target.startswith(f"{home}/")


def _named(found: list[Proc]) -> str:
    words = [f"{_program_of(each.pid)} ({each.pid})" for each in found[:_MOST_NAMED]]
    more = [f"{len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return ", ".join([*words, *more])


def _program_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return "ended"
