"""The program around the verbs: its request, its answers, and the ways it is run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from codehub.model.workspace import ErrorReason
from codehub.storage_job.main import Reporter, receive
from codehub.storage_job.protocol import REASONS, BadRequest, Exit, parse_request
from tests.storage_job.homes import make_nasty_home, remove, snapshot
from tests.storage_job.job import (
    COMMAND,
    NOBODY,
    REPOSITORY,
    Store,
    encoded,
    ended,
    restored_from,
    run,
    start,
    unprivileged,
)
from tests.support import eventually, needs_root, short_folder


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store((tmp_path / "store").as_uri())


def test_a_request_must_come_in_time() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"{")
    with pytest.raises(BadRequest, match="within"):
        receive(reading, 0.05)
    os.close(writing)
    os.close(reading)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"verb": "archive"}',
        '{"verb": "sing", "op_id": "o", "archive_url": "file:///a", "meta_url": "file:///b", "directory": "/d"}',
        '{"verb": "archive", "op_id": "o", "archive_url": "file:///a", "meta_url": "file:///b", "directory": "d"}',
        '{"verb": "archive", "op_id": "", "archive_url": "file:///a", "meta_url": "file:///b", "directory": "/d"}',
        '{"verb": "archive", "op_id": "o", "archive_url": "ftp://a", "meta_url": "ftp://b", "directory": "/d"}',
        '{"verb": "archive", "op_id": "o", "archive_url": "s3://a", "meta_url": "s3://b", "directory": "/d"}',
        '{"verb": "archive", "op_id": "o", "secret": "sesame"}',
    ],
)
def test_what_is_no_request_is_refused(text: str) -> None:
    got = subprocess.run(COMMAND, input=text.encode(), capture_output=True, cwd=REPOSITORY, check=False)
    assert got.returncode == Exit.BAD_REQUEST, got
    assert json.loads(got.stdout.splitlines()[-1])["reason"] == "BadRequest"
    assert b"sesame" not in got.stdout + got.stderr


def test_every_failure_is_one_that_the_model_knows() -> None:
    """Drivers take over the reason, or know the code; a request that makes no sense is a mistake of ours."""
    known = {reason.value for reason in ErrorReason} | {"BadRequest"}
    assert set(REASONS) == set(Exit) - {Exit.DONE}
    assert set(REASONS.values()) <= known


def test_the_result_file_is_the_last_line(tmp_path: Path, store: Store) -> None:
    home, result = tmp_path / "home", tmp_path / "result"
    make_nasty_home(home, sparse=False)
    got = run(store.request("archive", home, result_path=str(result)))
    assert json.loads(result.read_text()) == got.result
    assert got.lines[0]["state"] == "running"
    assert got.result["bytes_done"] > 4_000_000
    failed = run(store.request("restore", home, result_path=str(result)))
    assert failed.code == Exit.RETRY
    assert json.loads(result.read_text()) == failed.result
    remove(home)


def test_the_result_file_changes_only_with_progress(tmp_path: Path, store: Store) -> None:
    result = tmp_path / "result"
    reporter = Reporter(parse_request(encoded(store.request("empty", tmp_path, result_path=str(result)))), 0.01)
    reporter.start()
    first = result.stat()
    reporter.tally.files_done = 7
    eventually(lambda: json.loads(result.read_text())["files_done"] == 7, "progress is told")
    second = result.stat()
    assert second.st_ino != first.st_ino
    reporter.finish({"state": "running"})
    assert result.stat().st_ino == second.st_ino, "nothing moved, nothing is written"


def test_a_result_that_cannot_be_written_is_no_success(tmp_path: Path, store: Store) -> None:
    """Whoever reads the result file would wait for ever; run again it has nothing left to do."""
    home = tmp_path / "home"
    home.mkdir()
    request = store.request("archive", home)
    child = subprocess.run(
        COMMAND,
        input=encoded({**request, "result_path": str(tmp_path / "missing" / "result")}),
        capture_output=True,
        cwd=REPOSITORY,
        check=False,
    )
    assert child.returncode == Exit.RETRY
    assert b"result" in child.stderr
    assert b"Traceback" not in child.stderr
    assert run(request).result["skipped"] is True


def test_nobody_listens(tmp_path: Path, store: Store) -> None:
    """Whoever started it is gone; the work is done all the same."""
    home = tmp_path / "home"
    home.mkdir()
    request = store.request("archive", home, result_path=str(tmp_path / "result"))
    child = start(request)
    assert child.stdout is not None
    child.stdout.close()
    assert child.wait(30) == Exit.DONE
    assert json.loads((tmp_path / "result").read_text())["state"] == "done"


def test_the_folder_alone_is_enough(tmp_path: Path, store: Store) -> None:
    """As in an image: no codehub package, only this folder, obstore and zstandard."""
    shutil.copytree(REPOSITORY / "src" / "codehub" / "storage_job", tmp_path / "app" / "storage_job")
    home, volume = tmp_path / "home", tmp_path / "volume"
    home.mkdir()
    volume.mkdir()
    (home / "file").write_text("content")
    request = store.request("archive", home)
    for each in (request, restored_from(request, volume)):
        command = [sys.executable, "-c", f"import sys; sys.path[:0] = [{str(tmp_path / 'app')!r}]; {RUN}"]
        got = ended(start(each, command))
        assert got.code == Exit.DONE, got.lines
    assert snapshot(volume) == snapshot(home)


RUN = (
    "sys.modules['codehub'] = None; import runpy; runpy.run_module('storage_job', run_name='__main__', alter_sys=True)"
)


def test_an_ordinary_user() -> None:
    """Without privileges everything but foreign owners is kept."""
    needs_root("who can become an ordinary user")
    base = short_folder()
    home, volume = base / "home", base / "volume"
    make_nasty_home(home, sparse=False)
    subprocess.run(["chown", "-R", "--no-dereference", "65534:65534", str(base)], check=True)
    volume.mkdir()
    os.chown(volume, 65534, 65534)
    as_nobody = unprivileged(NOBODY)
    request = Store((base / "store").as_uri()).request("archive", home)
    home.chmod(0o555)
    restore = restored_from(request, volume)
    for each in (request, restore, {**restore, "op_id": "again"}):  # the last empties closed folders
        got = ended(start(each, as_nobody))
        assert got.code == Exit.DONE, got.lines
        assert got.result["dropped"] == 0
    before, after = snapshot(home), snapshot(volume)
    assert after == before
    remove(base)
