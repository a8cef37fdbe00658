"""Gives a home that has no settings yet ours, and becomes the program. What its user changed stays.

settle.py SETTINGS PLACE COMMAND…   copy the file SETTINGS to PLACE (below the home) unless something is there
"""

import contextlib
import os
import sys
from pathlib import Path


def settle(settings: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError), place.open("x") as file:
        file.write(settings.read_text())


def main(settings: str, place: str, command: list[str]) -> None:
    with contextlib.suppress(OSError):  # without them it works too, only not as well
        settle(Path(settings), Path.home() / place)
    os.execvp(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
