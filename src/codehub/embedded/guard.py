"""Becomes a server process that cannot outlive its parent. A script of its own; imports the standard library only.

    guard.py run SIGNAL UID:GID|- PARENT -- COMMAND…   become the account, ask the kernel for SIGNAL at the
                                                       parent's death, become COMMAND (same pid)
    guard.py search UID:GID FOLDER                     print the first part of FOLDER the account may not enter

The order matters: the kernel forgets the request when credentials change, and a parent that died before the request
is noticed by its pid. Where there is no prctl (macOS) the command simply runs.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
COULD_NOT_RUN = 126


def become(account: str) -> None:
    if account != "-":
        uid, gid = map(int, account.split(":"))
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def run(number: int, account: str, parent: int, command: list[str]) -> NoReturn:
    # Dying quietly is right here; Python would turn SIGINT into a traceback in the server's log.
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    become(account)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(COULD_NOT_RUN)
    os.umask(0o077)
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.stderr.write(f"FATAL: {command[0]}: {error.strerror}\n")
        sys.exit(COULD_NOT_RUN)


def search(account: str, folder: Path) -> None:
    become(account)
    for part in [*reversed(folder.parents), folder]:
        if not os.access(part, os.X_OK):
            sys.stdout.buffer.write(os.fsencode(part))
            return


def main(arguments: list[str]) -> None:
    match arguments:
        case ["run", number, account, parent, "--", *command]:
            run(int(number), account, int(parent), command)
        case ["search", account, folder]:
            search(account, Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
