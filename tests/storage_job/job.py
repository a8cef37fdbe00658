"""Running the job as a driver would: a real child process, one request on its standard input."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from codehub.storage_job import archive, restore
from codehub.storage_job.protocol import Exit, Outcome, Tally, parse_request
from tests.support import skip

REPOSITORY = Path(__file__).parents[2]


@dataclass
class Store:
    """Where archives go: the beginning of every URL, and the options for obstore."""

    base: str
    options: dict[str, Any] = field(default_factory=dict)

    def request(self, verb: str, directory: Path, op_id: str | None = None, **more: Any) -> dict[str, Any]:
        op_id = op_id or uuid4().hex
        url = f"{self.base}/{op_id}/home.tar.zst"
        known = {
            "verb": verb,
            "directory": str(directory),
            "op_id": op_id,
            "archive_url": url,
            "meta_url": f"{url}.meta",
        }
        return {**known, "archive_key": f"key of {op_id}", "store": self.options, **more}


@dataclass(frozen=True)
class Ended:
    """What a job answered."""

    code: int
    lines: list[dict[str, Any]]

    @property
    def result(self) -> dict[str, Any]:
        return self.lines[-1]


COMMAND = [sys.executable, "-m", "codehub.storage_job"]


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def unprivileged(become: tuple[str, ...], module: str = "codehub.storage_job") -> list[str]:
    """The job as somebody with fewer rights."""
    return [*python_of(become), "-m", module]


@cache
def python_of(become: tuple[str, ...]) -> list[str]:
    """Our interpreter may be in a home that is closed to others; the system's then does, with our packages."""
    packages = f"PYTHONPATH={REPOSITORY / 'src'}:{sysconfig.get_path('purelib')}"
    become = (*become, "env", packages)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}"):
        # Twice, because the first is started with privileges that only the second lacks for good.
        probe = f"import subprocess; subprocess.run([{python!r}, '-c', 'import obstore'], check=True)"
        if subprocess.run([*become, python, "-c", probe], capture_output=True, check=False).returncode == 0:
            return [*become, python]
    return skip("a Python that other users may run", "make test PYTHON=/usr/bin/python3")


def start(request: dict[str, Any], command: list[str] | None = None) -> "subprocess.Popen[bytes]":
    child = subprocess.Popen(command or COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY)
    assert child.stdin is not None
    child.stdin.write(json.dumps(request).encode())
    child.stdin.close()
    child.stdin = None
    return child


def ended(child: "subprocess.Popen[bytes]", seconds: float = 120) -> Ended:
    output, _ = child.communicate(timeout=seconds)
    return Ended(child.returncode, [json.loads(line) for line in output.splitlines()])


def run(request: dict[str, Any], command: list[str] | None = None) -> Ended:
    return ended(start(request, command))


def done(request: dict[str, Any]) -> dict[str, Any]:
    """Run it; it must succeed."""
    got = run(request)
    assert got.code == Exit.DONE, got.lines
    assert got.result["state"] == "done"
    return got.result


def restored_from(archived: dict[str, Any], directory: Path, op_id: str | None = None, **more: Any) -> dict[str, Any]:
    """The request for a restore of what another request archived, under an op_id of its own."""
    return {**archived, "verb": "restore", "directory": str(directory), "op_id": op_id or uuid4().hex, **more}


def encoded(request: dict[str, Any]) -> bytes:
    return json.dumps(request).encode()


def run_here(request: dict[str, Any]) -> Outcome:
    """One try in this process: quick, and what went wrong is raised."""
    verbs = {"archive": archive.archive, "restore": restore.restore, "empty": archive.empty}
    before = os.umask(0)
    try:
        return verbs[request["verb"]](parse_request(encoded(request)), Tally())
    finally:
        os.umask(before)


def kill(child: "subprocess.Popen[bytes]") -> None:
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
