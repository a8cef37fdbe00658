"""Where CodeHub runs, and where it is only a client."""

import sys

from codehub.errors import StartError


def require_linux(command: str, platform: str = sys.platform) -> None:
    """Servers use what only Linux has: a signal when a parent dies, namespaces, and the wheels of their databases."""
    if platform != "linux":
        raise StartError(
            f"`codehub {command}` runs on Linux only.",
            "Here the commands for a CodeHub elsewhere work: codehub login URL, codehub ws, codehub user and others.",
        )
