"""The processes that make files: none outlives its job, none fails unnoticed, nothing leaks when one cannot start."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from codehub.storage_job import volume as volumes
from codehub.storage_job.makers import Makers
from codehub.storage_job.protocol import Exit, TryAgain
from tests.storage_job.homes import snapshot
from tests.storage_job.job import Store, done, ended, kill, restored_from, run_here, start
from tests.support import eventually


def archived(tmp_path: Path, files: int = 3000) -> dict[str, Any]:
    """An archive of many files, and an empty volume."""
    home = tmp_path / "home"
    (home / "many").mkdir(parents=True)
    (tmp_path / "volume").mkdir()
    for number in range(files):
        (home / "many" / f"{number}").write_bytes(b"x" * number)
    request = Store((tmp_path / "store").as_uri()).request("archive", home)
    done(request)
    return request


def started(request: dict[str, Any]) -> "tuple[subprocess.Popen[bytes], list[int]]":
    """The job, stopped as soon as its makers are there, and their pids."""
    child = start(request)
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while len(children.read_text().split()) < 2:
        assert child.poll() is None
    os.kill(child.pid, signal.SIGSTOP)
    makers = [int(pid) for pid in children.read_text().split()]
    eventually(lambda: all(map(is_ready, makers)), "they wait for orders")
    return child, makers


def is_ready(pid: int) -> bool:
    """It has the shared memory, which is the last thing before its first order."""
    return "memfd:slabs" in Path(f"/proc/{pid}/maps").read_text()


def is_there(pid: int) -> bool:
    """Also one that is stopped, but not one that only waits to be buried."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_one_that_dies_fails_the_try(tmp_path: Path) -> None:
    """The job notices, tries again by itself, and the result is exact."""
    request = archived(tmp_path)
    child, makers = started(restored_from(request, tmp_path / "volume"))
    os.kill(makers[0], signal.SIGKILL)
    os.kill(child.pid, signal.SIGCONT)
    got = ended(child)
    assert got.code == Exit.DONE, got.lines
    assert snapshot(tmp_path / "volume") == snapshot(tmp_path / "home")


@pytest.mark.exhaustive
def test_one_that_dies_when_all_is_given_out(tmp_path: Path) -> None:
    """The job only waits for it then: what it did not make must not be missing."""
    request = archived(tmp_path)
    result = tmp_path / "result"
    child, makers = started(restored_from(request, tmp_path / "volume", result_path=str(result)))
    os.kill(makers[0], signal.SIGSTOP)
    os.kill(child.pid, signal.SIGCONT)
    eventually(lambda: json.loads(result.read_text())["files_done"] == 3002, "all is read")
    os.kill(makers[0], signal.SIGKILL)
    got = ended(child)
    assert got.code == Exit.DONE, got.lines
    assert snapshot(tmp_path / "volume") == snapshot(tmp_path / "home")


def test_they_die_with_their_job_and_only_then_the_volume_is_free(tmp_path: Path) -> None:
    """Even one that is stopped, which would not hear that nobody gives it orders any more."""
    request = archived(tmp_path)
    again = restored_from(request, tmp_path / "volume")
    child, makers = started(again)
    os.kill(makers[0], signal.SIGSTOP)
    with pytest.raises(TryAgain, match="another job"), volumes.opened_volume(str(tmp_path / "volume"), 0.1):
        pass
    kill(child)
    eventually(lambda: not any(map(is_there, makers)), "they are gone")
    assert not run_here(again).skipped
    assert snapshot(tmp_path / "volume") == snapshot(tmp_path / "home")


def test_nothing_is_left_of_those_that_cannot_start() -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    ours = set(children.read_text().split())  # servers that other tests share
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - names only
    with pytest.raises((OSError, subprocess.SubprocessError)):
        Makers(root_fd=9999)
    assert os.listdir("/proc/self/fd") == before  # noqa: PTH208 - as above
    assert set(children.read_text().split()) <= ours


def test_a_restore_leaves_nothing_open(tmp_path: Path) -> None:
    request = archived(tmp_path, files=50)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - as above
    for _ in range(3):
        run_here(restored_from(request, tmp_path / "volume"))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above
