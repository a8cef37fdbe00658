"""docs/cli.md is what the commands say; the codes in it are the codes."""

from pathlib import Path

import pytest

from codehub.cli import reference
from codehub.cli.exits import MEANINGS, CommandError, Exit, exit_code_of
from codehub.client import ApiError
from codehub.errors import SettingsError, StartError, Unavailable

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_page_is_the_code_s() -> None:
    assert PAGE.read_text() == reference.markdown(), "run `make docs`"


def test_every_code_has_a_meaning_and_is_on_the_page() -> None:
    page = PAGE.read_text()
    for code in Exit:
        assert f"| {int(code)} | {MEANINGS[code]} |" in page


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 2), (401, 5), (403, 5), (404, 3), (409, 4), (410, 3), (412, 4), (422, 2), (429, 6), (500, 1), (503, 7)],
)
def test_an_answer_s_status_is_an_exit_code(status: int, code: int) -> None:
    assert exit_code_of(ApiError("x", code="x", status=status)) == code


def test_other_failures() -> None:
    assert exit_code_of(ApiError("x", code="unreachable")) == 7
    assert exit_code_of(ApiError("x", code="unexpected_answer", status=404)) == 7
    assert exit_code_of(StartError("x")) == 1
    assert exit_code_of(SettingsError("x")) == 2
    assert exit_code_of(Unavailable("x")) == 1
    assert exit_code_of(CommandError("x", exit_code=Exit.CONFLICT)) == 4
