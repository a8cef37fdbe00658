"""What docker.sh and k8s.sh start outlives the test run that asked for it; only our own engine is ever stopped.

Shown with stand-ins: an engine that only waits, and a part of a cluster.
"""

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab import runs
from tests.lab.docker import SCRIPT as DOCKER
from tests.lab.k8s import SCRIPT as K8S
from tests.support import eventually

# Tells what it was given, and ends when it is told to.
DAEMON = """#!/bin/sh
env >{told}.part && mv {told}.part {told}
while [ $# -gt 0 ]; do [ "$1" != --pidfile ] || echo $$ >"$2"; shift; done
trap 'exit 0' TERM
while :; do sleep 0.05; done
"""


@dataclass(frozen=True)
class Lab:
    folder: Path

    @property
    def engine(self) -> Path:
        """The file that names its process."""
        return self.folder / "lab/docker/pid"

    @property
    def told(self) -> Path:
        return self.folder / "told"

    def program(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)
        (self.folder / path).chmod(0o755)

    def run(self, *command: object, **more: str) -> None:
        given = os.environ | {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "CODEHUB_LAB_DIR": str(self.folder / "lab"),
            runs.VARIABLE: "some", **more,
        }  # fmt: skip
        given.pop("DOCKER_HOST", None)
        subprocess.run([*map(str, command)], check=True, capture_output=True, timeout=60, env=given)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    made.program("bin/dockerd", DAEMON.format(told=made.told))
    made.program("bin/docker", f"#!/bin/sh\n[ -e {made.engine} ]\n")
    made.program("bin/iptables", "#!/bin/sh\n")
    made.program("bin/id", "#!/bin/sh\necho 0\n")
    yield made
    for file in (made.engine, tmp_path / "started"):
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def test_an_engine_has_no_mark_of_a_run_and_is_stopped(lab: Lab) -> None:
    started = lab.folder / "started"
    lab.run(DOCKER, "engine", CODEHUB_LAB_STARTED=str(started))
    eventually(lab.told.exists, "it runs")
    assert runs.VARIABLE not in lab.told.read_text()
    pid = lab.engine.read_text()
    assert started.read_text() == pid
    lab.run(DOCKER, "stop", int(pid) + 1)
    assert Path(f"/proc/{pid.strip()}/cmdline").read_bytes(), "another one was meant"
    lab.run(DOCKER, "stop", pid.strip())
    eventually(lambda: not _lives(int(pid)), "it has ended")


def _lives(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False


@pytest.mark.parametrize("words", [["sleep", "600"], ["sh", "-c", "read x; :", "dockerd", "--pidfile", "/another"]])
def test_whoever_has_the_engine_s_number_now_is_not_stopped(lab: Lab, words: list[str]) -> None:
    lab.engine.parent.mkdir(parents=True)
    with subprocess.Popen(words, stdin=subprocess.PIPE) as other:
        lab.engine.write_text(f"{other.pid}\n")
        lab.run(DOCKER, "stop")
        try:
            assert other.poll() is None
        finally:
            other.kill()


@pytest.mark.parametrize("text", ["", "nonsense", "999999999"])
def test_a_file_that_names_nobody_stops_nobody(lab: Lab, text: str) -> None:
    lab.engine.parent.mkdir(parents=True)
    lab.engine.write_text(text)
    lab.run(DOCKER, "stop")
    lab.engine.unlink()  # it names nobody whom this test started


def test_a_part_of_a_cluster_has_no_mark_of_a_run(lab: Lab) -> None:
    programs = hashlib.sha256(K8S.with_name("k8s-build.sh").read_bytes()).hexdigest()[:12]
    lab.program(f"lab/k8s/bin-{programs}/etcd", DAEMON.format(told=lab.told))
    (lab.folder / "lab/k8s/run").mkdir()
    lab.run(K8S, "start", "etcd")
    try:
        eventually(lab.told.exists, "it runs")
        assert runs.VARIABLE not in lab.told.read_text()
    finally:
        lab.run(K8S, "kill", "etcd")
