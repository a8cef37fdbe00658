"""Runs an installer apart from whoever started CodeHub: apart.py USER online|offline COMMAND…

It gets a session keyring of its own and no new privileges; where USER is a number it runs under that user id alone, and
`offline`, where the system allows that, without a network. Without a COMMAND whatever runs under USER is killed.
A script of its own, since an installer is started from a process with threads, where nothing can be done after a fork.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

CLONE_NEWNET = 0x40000000


def main(user: str, network: str, *command: str) -> NoReturn:
    sys.path.append(str(Path(__file__).parent))
    import launch  # type: ignore[import-not-found]  # noqa: PLC0415 - beside us; this is run with no path at all

    if network == "offline":
        ctypes.CDLL(None).unshare(CLONE_NEWNET)  # a container's root may not
    try:
        launch.drop_rights({"user": None if user == "-" else int(user), "seccomp": None}, filtered=False)
        if command:
            os.execvp(command[0], command)  # noqa: S606 - no shell is the point
        if os.getuid() == int(user) != 0:
            os.kill(-1, signal.SIGKILL)
    except (OSError, launch.Failed) as error:
        sys.exit(f"{command[:1]}: {error}")
    sys.exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
