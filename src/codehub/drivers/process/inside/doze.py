"""Waits for work at the price of a bare interpreter, then becomes the one who does it.

    doze.py PROGRAM …   descriptor 3 listens; whoever connects first holds the leash, the next one is work

The leash is a workspace's (beside.py): when it is let go, or nobody takes it for a minute, there is nobody left to
wait for. PROGRAM, a script for the same Python, gets `--leash` with the number of its descriptor behind its arguments.
"""

import _socket  # `socket` would double what this costs
import os
import select
import sys

INHERITED = 3
_TAKEN_MILLISECONDS = 60_000


def main() -> None:
    script = os.open(sys.argv[1], os.O_RDONLY)  # now: an upgrade may have replaced it by then
    listener = _socket.socket(fileno=INHERITED)
    waiting = select.poll()
    waiting.register(INHERITED, select.POLLIN)
    if not waiting.poll(_TAKEN_MILLISECONDS):
        return
    leash, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001
    waiting.register(leash, select.POLLIN)
    if any(number == leash for number, _ in waiting.poll()):
        return
    listener.detach()
    for number in (INHERITED, leash, script):
        os.set_inheritable(number, True)
    command = [sys.executable, "-I", "-S", "-B", f"/proc/self/fd/{script}", *sys.argv[2:], "--leash", str(leash)]
    os.execv(sys.executable, command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main()
