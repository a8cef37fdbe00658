"""Safe mode: a way into a home whose own settings keep an IDE from starting.

    safe_mode.py COMMAND…   become COMMAND, with an empty folder for its user's settings

HOME is that folder, so whatever IDE, shell or Python is run reads nothing that its user wrote. The home itself stays
where it is: CODEHUB_SAFE_MODE says where, and terminals take it for their HOME again.
"""

import os
import sys
import tempfile

HOME = "CODEHUB_SAFE_MODE"
_SHELL = f"HOME=${HOME} INPUTRC=/dev/null PS1='[safe mode] \\w\\$ ' exec /bin/bash --noprofile --norc"


def shell() -> list[str]:
    """What a terminal runs: it reads none of its user's files by itself."""
    return ["/bin/sh", "-c", _SHELL]


def main(command: list[str]) -> None:
    os.environ[HOME] = os.path.expanduser("~")  # noqa: PTH111 - pathlib is dear here
    os.environ["HOME"] = tempfile.mkdtemp(prefix="codehub-safe-mode-")
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1:])
