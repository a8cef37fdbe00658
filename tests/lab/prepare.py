"""Before the tests: what they need and root can install is installed, with a line for each package.

    python -m tests.lab.prepare

Nothing is installed as an ordinary user, nor with CODEHUB_LAB_INSTALL=no: the table at the end of the tests says what
was skipped for it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from codehub.drivers.process.install_sandbox import apt_ways

# By the program that is looked for: Debian's packages, and what they are for.
WANTED: Mapping[str, tuple[str, str]] = {
    "bwrap": ("bubblewrap", "the sandbox of workspaces"),
    "chromium": ("chromium fonts-noto-cjk libatomic1", "the dashboard in a browser"),
    "curl": ("curl", "what workspaces reach of the network"),
}
_SECONDS = 600  # for a download; what is installed then has no limit


def lacking() -> dict[str, tuple[str, str]]:
    return {program: what for program, what in WANTED.items() if shutil.which(program) is None}


def may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None and os.environ.get("CODEHUB_LAB_INSTALL") != "no"


def install(lack: Mapping[str, tuple[str, str]]) -> None:
    for packages, purpose in lack.values():
        _say(f"==> installing {packages} ({purpose})")
        if not any(all(map(run, way)) for way in apt_ways(packages.split(), _SECONDS)):
            _say(f"    it cannot be installed: tests of {purpose} are skipped")


def run(command: Sequence[str]) -> bool:
    """Ctrl-C waits for its end: killed, it may leave the system half installed."""
    given = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        process = subprocess.Popen(
            command, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError:
        return False
    try:
        return process.wait() == 0
    except KeyboardInterrupt:
        _say("Waiting for apt-get to finish …")
        process.wait()
        raise


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    lack = lacking()
    if lack and may_install():
        install(lack)
