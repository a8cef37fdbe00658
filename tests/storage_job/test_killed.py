"""Killed at every point, then run again: the result is exactly right, and no half archive ever counts as whole."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codehub.storage_job.marker import ATTRIBUTE
from tests.storage_job.homes import Picture, make_nasty_home, remove, snapshot
from tests.storage_job.hostile import meta_of
from tests.storage_job.job import Store, done, restored_from, run, run_here

# Of each verb, spread evenly, besides those around every call that decides something.
of_some_points = pytest.mark.parametrize("points", [4, pytest.param(46, marks=pytest.mark.exhaustive)])


def command(when: str, into: Path | None = None) -> list[str]:
    return [sys.executable, "-m", "tests.storage_job.killed_at", when, *([str(into)] if into else [])]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Small, but with something of everything."""
    path = tmp_path_factory.mktemp("killed") / "home"
    make_nasty_home(path, sparse=False)
    yield path
    remove(path)


@pytest.fixture(scope="module")
def wanted(home: Path) -> dict[bytes, Picture]:
    return snapshot(home)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "volume"
    path.mkdir()
    yield path
    remove(path)


def spread(request: dict[str, Any], into: Path, points: int) -> list[str]:
    """Numbers of calls, spread over all that an undisturbed run makes."""
    got = run(request, command("never", into))
    assert got.code == 0, got.lines
    calls = len(into.read_text().splitlines())
    assert calls > 3 * points
    return [str(1 + number * (calls - 4) // (points - 1)) for number in range(points)]


def counts(request: dict[str, Any]) -> bool:
    """Whether there is an archive that counts; if so, it is whole."""
    target = Path(request["archive_url"].removeprefix("file://"))
    meta = target.with_name(target.name + ".meta")
    if not meta.exists():
        return False
    assert meta.read_bytes() == meta_of(target.read_bytes())
    return True


@of_some_points
def test_while_archiving(home: Path, wanted: dict[bytes, Picture], volume: Path, tmp_path: Path, points: int) -> None:
    store = Store((tmp_path / "store").as_uri())
    (tmp_path / "store").mkdir()
    chosen = spread(store.request("archive", home), tmp_path / "calls", points)
    # Before and after the archive appears, before and after its meta does, and before the result is written.
    chosen += [f"os.rename.*{name}#:1+{after}" for name in ("zst", "meta") for after in (0, 1)]
    chosen += [r"open.*\.result\.new:2+0"]
    counted: list[bool] = []
    for when in chosen:
        request = store.request("archive", home)
        got = run({**request, "result_path": str(tmp_path / "result")}, command(when))
        assert got.code == -signal.SIGKILL, when
        counted.append(counts(request))
        assert run_here(request).skipped == counted[-1]
        assert counts(request)
        folder = Path(request["archive_url"].removeprefix("file://")).parent
        assert sorted(path.name for path in folder.iterdir()) == ["home.tar.zst", "home.tar.zst.meta"], (
            "nothing unfinished is left"
        )
        run_here(restored_from(request, volume))
        assert snapshot(volume) == wanted, when
    assert set(counted) == {True, False}


@of_some_points
def test_while_restoring(home: Path, wanted: dict[bytes, Picture], volume: Path, tmp_path: Path, points: int) -> None:
    archived = Store((tmp_path / "store").as_uri()).request("archive", home)
    done(archived)
    chosen = spread(restored_from(archived, volume), tmp_path / "calls", points)
    chosen += [f"os.setxattr.*{ATTRIBUTE}:1+{after}" for after in (0, 1)]  # around the note that all is there
    chosen += ["os.removexattr:1+0", "os.removexattr:1+1", r"open.*\.result\.new:2+0"]
    marked: list[bool] = []
    for when in chosen:
        request = restored_from(archived, volume)
        got = run({**request, "result_path": str(tmp_path / "result")}, command(when))
        assert got.code == -signal.SIGKILL, when  # into whatever was left there before
        marked.append(is_marked(volume, request["op_id"]))
        assert run_here(request).skipped == marked[-1]
        assert snapshot(volume) == wanted, when
    assert set(marked) == {True, False}


def is_marked(volume: Path, op_id: str) -> bool:
    return ATTRIBUTE in os.listxattr(volume) and os.getxattr(volume, ATTRIBUTE).decode() == op_id
