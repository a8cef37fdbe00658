"""Which commit this CodeHub was made of, for `codehub --version`.

A build has it in commit.txt (hatch_build.py); in a checkout git knows; otherwise nobody does.
"""

import os
import shutil
import subprocess
from pathlib import Path

FILE = "commit.txt"


def commit(package: Path = Path(__file__).parent) -> str | None:
    """As `abc1234`, or `abc1234-dirty` where files differ from it."""
    try:
        return (package / FILE).read_text().strip() or None
    except OSError:
        return _described(package.parents[1])


def _described(checkout: Path) -> str | None:
    git = shutil.which("git")
    if git is None or not (checkout / ".git").exists():
        return None
    # Of this folder, whoever owns it and whatever repository a hook of git is at work in.
    words = [git, "-c", f"safe.directory={checkout}", "-C", str(checkout), "describe", "--always", "--dirty"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(  # noqa: S603 - no word of it is anybody else's
            [*words, "--abbrev=7", "--exclude=*"], env=env, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
