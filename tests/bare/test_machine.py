"""A bare machine ends with whoever started it, however that ends, and leaves nothing behind."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bare import __main__ as bare
from tests.support import eventually, missing, needs_root

BASES = Path(os.environ.get("CODEHUB_LAB_DIR", "/var/cache/codehub-lab")) / "bare"
SLEEP = "sleep 98765.4"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A cache of its own, with a base that is there already."""
    found = next((path.parent for path in BASES.glob("bookworm-*/.ready")), None)
    needs_root("who can make machines")
    if found is None:
        missing("a base of a bare machine", "make test-bare QUICK=1")
    (tmp_path / "bare").mkdir()
    for base in BASES.glob("bookworm-*/.ready"):
        (tmp_path / "bare" / base.parent.name).symlink_to(base.parent)
    (tmp_path / "clone").mkdir()
    return tmp_path


def start(lab: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [str(bare.MACHINE), "run", str(lab / "clone"), f"echo up; {SLEEP}; echo over"],
        env={**os.environ, "CODEHUB_LAB_DIR": str(lab)}, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


def sleepers() -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_text().rstrip("\0").replace("\0", " ") == SLEEP:
                yield int(path.parent.name)
        except OSError:
            continue


def folders(lab: Path) -> list[Path]:
    return list((lab / "bare").glob("run.*"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_ends_the_machine_before_its_folder_goes(lab: Path, number: signal.Signals) -> None:
    process = start(lab)
    os.killpg(process.pid, number)
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert not list(sleepers())
    assert not folders(lab)


@pytest.mark.exhaustive
def test_a_killed_one_ends_its_machine_and_the_next_removes_what_it_left(lab: Path) -> None:
    living, killed = start(lab), start(lab)
    assert len(folders(lab)) == 2
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=30)
    eventually(lambda: len(list(sleepers())) == 1, "its machine is gone")
    third = start(lab)
    assert len(folders(lab)) == 2, "that of the living one and that of the third"
    for process in (living, third):
        process.terminate()
        process.communicate(timeout=30)
    assert not folders(lab)


def test_one_that_does_not_end_in_time_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "machine.sh"
    script.write_text(f"#!/bin/sh\ntrap 'touch {tmp_path}/ended; exit 143' TERM\necho '{{}}'\nsleep 60 & wait\n")
    script.chmod(0o755)
    monkeypatch.setattr(bare, "MACHINE", script)
    monkeypatch.setattr(bare, "SECONDS", 1.0)
    assert bare.try_out(bare.Variant(), tmp_path) == {"failed": "it did not end within 1 s"}
    assert (tmp_path / "ended").exists()
    capsys.readouterr()
