"""What people are told of a failure is a sentence."""

import pytest

from codehub.model.failure import Fault
from codehub.model.sentences import log_ends, number_of, sentence
from codehub.model.workspace import ErrorReason

TRACEBACK = (
    'Traceback (most recent call last):\n  File "/app/main.py", line 3, in <module>\nValueError: no such port\n\n'
)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("", ""),
        (" \n", ""),
        ("the checksum is wrong", "The checksum is wrong."),
        ("It is over.", "It is over."),
        ("Is it over?", "Is it over?"),
        ("two\n  lines", "Two lines."),
    ],
)
def test_whatever_was_said_is_told_in_a_sentence(said: str, told: str) -> None:
    assert sentence(said) == told
    assert Fault(ErrorReason.ACTION_FAILED, said).message == told


def test_of_a_log_only_the_last_line_is_told() -> None:
    assert log_ends(TRACEBACK) == "Its log ends with: ValueError: no such port."
    assert log_ends("\n \x1b\n") == "It has written no log."
    assert len(log_ends("x" * 1000)) < 300
    assert "\x1b" not in log_ends("\x1b[31mred")


def test_numbers_agree_with_what_they_count() -> None:
    assert [number_of(n, "workspace") for n in (0, 1, 2)] == ["0 workspaces", "1 workspace", "2 workspaces"]
    assert [number_of(n, "archive was", "archives were") for n in (1, 3)] == ["1 archive was", "3 archives were"]
