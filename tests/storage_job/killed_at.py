"""The storage job, killed by SIGKILL just before a chosen system call that opens or changes something.

Python's audit events announce such calls; no product code takes part. Run as a program:

    python -m tests.storage_job.killed_at WHEN LIST

WHEN is "NUMBER": before that call; "PATTERN:K+J": J calls after the K-th whose description matches; "never".
The calls go to the file LIST, one per line, if it is given.
"""

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from codehub.storage_job.main import main

CALLS = {
    "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.utime",
    "os.chmod", "os.chown", "os.setxattr", "os.removexattr", "os.listxattr", "os.scandir",
}  # fmt: skip


class Death:
    """Counts calls, and kills this process when the time has come."""

    def __init__(self, when: str, into: Path | None) -> None:
        found = re.fullmatch(r"(.*):(\d+)\+(\d+)", when)
        self._text, self._nth, self._left = found[1] if found else "", int(found[2]) if found else 0, -1
        self._after = int(found[3]) if found else 0
        if when.isdigit():
            self._left = int(when)
        self._list = os.open(into, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if into else None

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CALLS:
            return
        line = f"{event} {arguments!r}"
        if self._list is not None:
            os.write(self._list, f"{line}\n".encode())
        if self._nth and re.search(self._text, line):
            self._nth -= 1
            if not self._nth:
                self._left = self._after + 1
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.addaudithook(Death(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None))
    sys.exit(main())
