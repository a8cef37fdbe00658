"""What is mounted inside a home or a volume is not part of it: not archived, never emptied."""

import os
import subprocess
from pathlib import Path

import pytest

from codehub.storage_job.protocol import Exit
from tests.storage_job.job import COMMAND, Store, done, restored_from, run
from tests.support import AS_ROOT, first_of, missing

NAMESPACE = ["unshare", "--mount", "sh", "-ec"]


@pytest.fixture(autouse=True)
def _may_mount(tmp_path: Path) -> None:
    probe = [*NAMESPACE, f"mount -t tmpfs none '{tmp_path}'"]
    if os.geteuid() != 0 or subprocess.run(probe, capture_output=True, check=False).returncode:
        missing("root, who may mount", AS_ROOT)


def with_mounts(*commands: str) -> list[str]:
    """The job, with something mounted that nobody else sees."""
    return [*NAMESPACE, "; ".join([*commands, 'exec "$@"']), "sh", *COMMAND]


def outside(tmp_path: Path) -> Path:
    """Somebody else's folder on the same disk."""
    folder = tmp_path / "outside"
    (folder / "inner").mkdir(parents=True)
    for path in (folder / "file", folder / "inner" / "file"):
        path.write_text("somebody else's")
    return folder


def test_it_is_left_out_when_archiving(tmp_path: Path) -> None:
    """Another disk, a folder of the same disk, and a single file; even where a path has odd characters in it."""
    home, volume, other = tmp_path / "a home\\ö", tmp_path / "volume", outside(tmp_path)
    volume.mkdir()
    for name in ("disk", "folder", "plain/deep"):
        (home / name).mkdir(parents=True)
    for name in ("bound", "plain/file"):
        (home / name).write_text("the home's")
    request = Store((tmp_path / "store").as_uri()).request("archive", home)
    command = with_mounts(
        f"mount -t tmpfs none '{home}/disk'",
        f"touch '{home}/disk/file'",
        f"mount --bind '{other}' '{home}/folder'",
        f"mount --bind '{other}/file' '{home}/bound'",
    )
    got = run(request, command)
    assert got.code == Exit.DONE, got.lines
    assert got.result["left_out"] == 3
    done(restored_from(request, volume))
    found = {str(path.relative_to(volume)) for path in volume.rglob("*")}
    assert found == {"disk", "folder", "plain", "plain/deep", "plain/file"}


@pytest.mark.parametrize("what", first_of(["deep", "disk", "folder", "file"]))
def test_it_is_left_alone_when_emptying(tmp_path: Path, what: str) -> None:
    """A volume that somebody mounted something into is not restored: that is said, and nothing of it is lost."""
    volume, other = tmp_path / "volume", outside(tmp_path)
    (volume / "left" / "over").mkdir(parents=True)
    (volume / "left" / "file").write_text("x")
    place = {"disk": "left", "folder": "left", "deep": "left/over", "file": "left/file"}[what]
    if what == "disk":
        mounting = [f"mount -t tmpfs none '{volume}/{place}'", f"cp -r '{other}/.' '{volume}/{place}'"]
        # What is mounted is gone with the job: its content is said on the way out.
        mounting += [f"trap \"test -e '{volume}/{place}/inner/file' || exit 99\" EXIT"]
        command = [part.replace('exec "$@"', '"$@"') for part in with_mounts(*mounting)]
    else:
        source = other / "file" if what == "file" else other
        command = with_mounts(f"mount --bind '{source}' '{volume}/{place}'")
    empty = Store((tmp_path / "store").as_uri()).request("empty", volume)
    done(empty)
    got = run(restored_from(empty, volume), command)
    assert (got.code, got.result["reason"]) == (Exit.RETRY, "ActionFailed"), got.lines
    assert "the volume" in got.result["message"]
    assert {str(path.relative_to(other)) for path in other.rglob("*")} == {"file", "inner", "inner/file"}
    assert all(path.read_text() == "somebody else's" for path in (other / "file", other / "inner" / "file"))
