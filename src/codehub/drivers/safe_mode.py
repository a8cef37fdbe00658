"""Safe mode in a container: its programs look for their user's settings elsewhere, and find none.

The home itself stays mounted where it is, and CODEHUB_SAFE_MODE says where. An image of one's own has to do nothing for
that; ours give their terminals the home back, with shells that read no start-up files (images/workspace/start.sh).
"""

from collections.abc import Mapping

_EMPTY = "/tmp"  # noqa: S108 - of the container: new at each start


def home_variables(home: str, *, safe_mode: bool) -> Mapping[str, str]:
    """What a container is told of its user's home."""
    return {"HOME": _EMPTY, "CODEHUB_SAFE_MODE": home} if safe_mode else {"HOME": home}
