"""One table tells what was not tested, why, and which command gets it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.skips import reason, table

ROOT = Path(__file__).parents[2]
SOME = """
import pytest
from tests.support import missing, skip

def test_done(): pass

@pytest.mark.parametrize("n", range(3))
def test_away(n): missing("a moon", "apt install moon")

def test_elsewhere(): skip("another planet", "make rocket")

@pytest.mark.exhaustive
def test_slow(): pass
"""


def run(tmp_path: Path, *arguments: str, **given: str) -> tuple[int, str]:
    test = ROOT / "tests" / "lab" / f"skipping_{os.getpid()}.py"
    test.write_text(SOME)
    dropped = ("PYTEST_", "CODEHUB_TEST_RUN", "CODEHUB_REQUIRE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not exhaustive", *arguments, str(test)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env={**env, **given}, capture_output=True, text=True, timeout=120, check=False
        )
    finally:
        test.unlink()
    return done.returncode, done.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_run_ends_with_it(tmp_path: Path, workers: str) -> None:
    code, said = run(tmp_path, "-n", workers)
    assert code == 0, said
    rows = [line.split() for line in said.partition("not tested here")[2].splitlines()[1:5]]
    assert rows[0] == ["tests", "what", "they", "need", "get", "it"]
    assert rows[1] == ["3", "a", "moon", "apt", "install", "moon"]
    assert sorted((row[0], *row[-2:]) for row in rows[2:]) == [("1", "make", "rocket"), ("1", "make", "test-all")]


def test_where_everything_is_required_what_is_missing_fails(tmp_path: Path) -> None:
    code, said = run(tmp_path, "-n", "0", CODEHUB_REQUIRE="all")
    assert code == 1
    assert "required here, and missing: a moon (get it: apt install moon)" in said
    assert "make rocket" in said, "what cannot be had by anybody is skipped still"


def test_the_same_reason_is_one_row_and_the_most_frequent_is_first() -> None:
    lines = table([reason("b", "x"), *2 * [reason("a", "y")], "of its own"], {reason("c", "z"): 5})
    assert [line.split()[0] for line in lines] == ["tests", "5", "2", "1", "1"]
    assert lines[-1].endswith("-"), "no command gets it"


def test_a_long_reason_is_shown_as_a_whole() -> None:
    assert table([reason("x" * 200, "make it")], {})[-1].split() == ["1", "x" * 200, "make", "it"]


def test_nothing_skipped_no_table() -> None:
    assert table([], {}) == []


def test_no_test_is_skipped_in_another_way() -> None:
    """One would pass where everything is required, and the table would not say how to get what it lacks."""
    raw = re.compile(r"^\s+pytest\.skip\(|^@pytest\.mark\.skipif\((?!.*reason=reason\()", re.MULTILINE)
    found = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py") if raw.search(path.read_text())}
    assert found == {"tests/support.py", "tests/lab/test_again.py"}, (
        "the one way, and what pytest itself says of a skip"
    )
