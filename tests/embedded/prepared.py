"""Data directories that CodeHub's servers have been made in before: half of a first start, done once for a whole run.

As after a start that found no administrator yet: the servers are initialised, and the schema is the newest.
What starts from nothing has a test of its own (cli/test_up.py).
"""

import asyncio
import fcntl
import subprocess
import sys
from pathlib import Path

from codehub.db import migrate
from codehub.embedded import DataDir, EmbeddedServers
from tests.embedded.support import copy_of
from tests.lab import runs


def prepared(target: Path) -> Path:
    """A data directory of one's own, there."""
    return copy_of(_template(), target)


def _template() -> Path:
    """Whoever needs it first makes it; the other workers wait, and use it too."""
    place = runs.current().folders[0] / "prepared"
    place.mkdir(exist_ok=True)
    place.chmod(0o755)
    with (place / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made, part = place / "d", place / "part"
        if not made.exists():
            # Servers are started from a main thread, and whoever needs them may have a loop that runs.
            subprocess.run([sys.executable, "-m", __name__, str(part)], check=True, timeout=120)
            part.rename(made)
    return made


async def _make(folder: Path) -> None:
    with DataDir.open(folder) as data:
        async with EmbeddedServers(data, durable=False).running() as servers:
            assert servers.database_url
            migrate.upgrade(servers.database_url)


if __name__ == "__main__":
    asyncio.run(_make(Path(sys.argv[1])))
