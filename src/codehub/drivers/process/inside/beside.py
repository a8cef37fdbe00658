"""Runs an IDE in a sandbox beside what carries bytes out of it and into it.

    beside.py PORT SOCKET PORTS COMMAND…   become COMMAND; a child waits until somebody is to be carried

A command that is a script for the same bare interpreter is run by this one: another would double the price of a start.

PORT and SOCKET: whoever connects to 127.0.0.1:PORT is led to the unix socket. Programs find the port in HTTP_PROXY and
its like. Who listens behind the socket, and what it refuses: egress.py. PORTS: a listening socket that we inherit, by
its number, for visitors of the sandbox's own ports. A `-` instead: there is no such thing.

Every start of a workspace waits for this program, and most workspaces are never asked to carry anything: so it takes
a bare interpreter (_socket is what `socket` is made of, which would double its price), and the child becomes carry.py
only when the first connection is there. The command runs when both listeners are open and the leash is held: it never
finds the port closed, and whoever reaches the socket first is the leash.
"""

import _socket
import os
import select
import sys
from _frozen_importlib_external import SourceFileLoader  # what importlib.machinery shows, which would be dear

_HERE = os.path.dirname(os.path.abspath(__file__)).removesuffix("/__pycache__")  # noqa: PTH100, PTH120
_CARRY = f"{_HERE}/carry.py"
_BACKLOG = 128
_NONE = "-"
_BARE = ("-I", "-S", "-B")


def port_open(number: int) -> int:
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", number))
    listener.listen(_BACKLOG)
    return listener.detach()


def leash_to(path: str) -> int | None:
    """Held as long as this sandbox lives, however it ends; without a way out a workspace still has visitors."""
    leash = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        leash.connect(path)
    except OSError:
        return None
    return leash.detach()


def keep_open(kept: list[int]) -> None:
    """The IDE's own socket, for one, is none of our business."""
    for number in {int(name) for name in os.listdir("/proc/self/fd")} - {*kept, 0, 1, 2}:  # noqa: PTH208
        try:  # noqa: SIM105 - contextlib would be one import more
            os.close(number)
        except OSError:
            pass
    for number in kept:
        os.set_inheritable(number, True)


def wait(listeners: list[int]) -> None:
    """Return when somebody knocks."""
    waiting = select.poll()
    for number in listeners:
        waiting.register(number, select.POLLIN)
    waiting.poll()


def become(command: list[str]) -> None:
    bare = [sys.executable, *_BARE]
    if command[: len(bare)] != bare:
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point
    sys.argv[:] = command[len(bare) :]
    code = SourceFileLoader("__main__", sys.argv[0]).get_code("__main__")  # as it was compiled before, if it was
    assert code is not None
    exec(code, {"__name__": "__main__", "__file__": sys.argv[0]})  # noqa: S102 - it is a program like any other


def main() -> None:
    port, path, ports, *command = sys.argv[1:]
    outward = port_open(int(port)) if port != _NONE else None
    leash = leash_to(path) if port != _NONE else None
    inward = int(ports) if ports != _NONE else None
    listeners = [number for number in (outward, inward) if number is not None]
    if os.fork() == 0:
        carry = os.open(_CARRY, os.O_RDONLY)  # now: an upgrade may have replaced it by then
        keep_open([carry, *listeners, *([leash] if leash is not None else [])])
        wait(listeners)
        words = [_NONE if number is None else str(number) for number in (outward, inward)]
        os.execv(sys.executable, [sys.executable, *_BARE, f"/proc/self/fd/{carry}", *words, path])  # noqa: S606
    for number in (*listeners, leash):
        if number is not None:
            os.close(number)
    become(command)


if __name__ == "__main__":
    main()
