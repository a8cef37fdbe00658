"""`.ci/run` ends with everything that it began: shown with programs that are stand-ins."""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

from tests.support import eventually

RUN = Path(__file__).parents[2] / ".ci" / "run"


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_told_to_stop_it_leaves_no_process_and_then_takes_its_cluster_down(tmp_path: Path) -> None:
    tree, programs, told = tmp_path / "tree", tmp_path / "programs", tmp_path / "told"
    told.mkdir()
    (tree / ".ci").mkdir(parents=True)
    shutil.copy(RUN, tree / ".ci" / "run")
    needed = re.search(r"if ! has ([\w -]+) \|\|", RUN.read_text())
    assert needed
    for name in needed[1].split():
        program(programs / name, ":")
    program(programs / "apt-get", "exit 1")  # nothing is missing, so nothing is installed
    # What is under way when it is told: a step, with a process of its own, and one beside it.
    program(programs / "make", f"[ $1 != check ] && [ $1 != ide-lab ] || {{ sleep 600 & echo $! >{told}/$1; wait; }}")
    program(tree / "tests/lab/docker.sh", ":")
    program(
        tree / "tests/lab/k8s.sh",
        f"[ $1 = down ] || exit 0; echo $CODEHUB_LAB_OWNER >{told}/down; "
        # Whoever was told to end has a moment to, and is nobody's to wait for but the machine's.
        f"for pid in $(cat {told}/check {told}/ide-lab); do for n in {{1..100}}; do "
        "[ -e /proc/$pid ] && ! grep -q ') Z' /proc/$pid/stat || continue 2; sleep 0.02; done; "
        f"echo $pid >>{told}/alive; done",
    )
    given = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    with subprocess.Popen([str(tree / ".ci/run")], env=given) as run:
        try:
            begun = [told / "check", told / "ide-lab"]
            eventually(lambda: all(each.exists() and each.read_text() for each in begun), "both are under way", 60)
            pids = [int(each.read_text()) for each in begun]
            run.send_signal(signal.SIGTERM)
            assert run.wait(60) == 143
        finally:
            run.kill()
    try:
        assert (told / "down").read_text().strip() == str(run.pid), "a cluster of others is not its to take"
        assert not any(map(lives, pids))
        assert not (told / "alive").exists(), "they ended before the cluster went"
    finally:
        for pid in filter(lives, pids):
            os.kill(pid, signal.SIGKILL)
