"""`make test-all`: step after step, whether those before have failed or not, and at the end what came of each.

    python -m tests.lab.everything [arguments of pytest]

What only root can have is left out for others, with a line. The Docker engine that one of its steps has started it
stops again; any other one it leaves alone.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[2]
DOCKER = str(ROOT / "tests/lab/docker.sh")
STARTED = "CODEHUB_LAB_STARTED"  # see docker.sh


@dataclass(frozen=True)
class Step:
    """A command; its name is what people would type."""

    name: str
    command: Sequence[str]
    as_root: bool = False
    environment: dict[str, str] = field(default_factory=dict)


def steps(arguments: Sequence[str]) -> Iterator[Step]:
    python = [sys.executable, "-m"]
    yield Step("packages", [*python, "tests.lab.prepare"])
    yield Step("make docker-lab", [DOCKER, "up"], as_root=True)
    yield Step("make ide-lab", ["make", "--silent", "ide-lab"])
    yield Step("a bare machine", ["tests/bare/machine.sh", "run", "tests/bare", "true"], as_root=True)
    yield Step("tests", [*python, "tests.lab.again", *arguments])
    yield Step("make test-simulation", [*python, "tests.simulation"], environment={"SEEDS": "200"})
    yield Step("make test-crash", [*python, "tests.crash"], environment={"POINTS": os.environ.get("POINTS", "::10")})
    yield Step("make test-compose", ["make", "--silent", "test-compose"], as_root=True)
    yield Step("make test-k8s", ["make", "--silent", "test-k8s"], as_root=True)
    bare = ["make", "--silent", "test-bare"]
    yield Step("make test-bare", bare, as_root=True)
    yield Step("… INTERRUPT=10", [*bare, "INTERRUPT=10", "QUICK=1", "ONLY=trixie"], as_root=True)


class Ended(BaseException):
    """Somebody ends it."""


def run(step: Step) -> str:
    """How it went, in a few words."""
    if step.as_root and os.geteuid() != 0:
        return "left out: only root can"
    sys.stdout.write(f"==> {step.name}\n")
    sys.stdout.flush()
    began = time.monotonic()
    # A group of its own: when it is ended, nothing of it is left.
    with subprocess.Popen(step.command, cwd=ROOT, env={**os.environ, **step.environment}, process_group=0) as process:
        try:
            code = process.wait()
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    return f"{'passed' if code == 0 else f'FAILED ({code})'} in {time.monotonic() - began:.0f} s"


def main(arguments: Sequence[str]) -> int:
    def end(_: int, __: FrameType | None) -> None:
        raise Ended

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    results: dict[str, str] = {}
    with tempfile.NamedTemporaryFile("r") as started:
        os.environ[STARTED] = started.name
        try:
            for step in steps(arguments):
                results[step.name] = run(step)
        except Ended:
            results["ended"] = "FAILED: somebody ended it"
        finally:
            del os.environ[STARTED]
            if engine := started.read().strip():  # it may have ended since, and somebody have started another one
                sys.stdout.write("==> stopping the Docker engine that was started\n")
                subprocess.run([DOCKER, "stop", engine], check=False, timeout=120)
    sys.stdout.write("\n".join(f"{name:<22}{result}" for name, result in results.items()) + "\n")
    return 1 if any("FAILED" in result for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
