"""What life.py takes for a good end of a command that Ctrl-C was pressed at."""

import importlib
import signal

import pytest


@pytest.mark.parametrize(
    ("code", "line", "complaint"),
    [
        (0, "Stopped.", None),
        (130, "Setup was interrupted. Run make again to finish it.", None),
        (-signal.SIGINT, "make: *** [Makefile:62: setup-run] Error 130", None),
        (-signal.SIGINT, "make: *** [Makefile:78: up] Interrupt", None),
        (-signal.SIGINT, "make: *** [Makefile:78: up] Error 1", "it failed instead of stopping"),
        (-signal.SIGINT, "Traceback (most recent call last):", "a stack trace is shown"),
        (1, "codehub: The port is in use.", "it ended with 1"),
        (-signal.SIGKILL, "Stopping …", "it ended with -9"),
    ],
)
def test_how_a_command_may_end(monkeypatch: pytest.MonkeyPatch, code: int, line: str, complaint: str | None) -> None:
    monkeypatch.setenv("CODEHUB_PORT", "8080")
    life = importlib.import_module("tests.bare.life")
    found = life.bad_end(code, [line])
    assert found == complaint or (found and complaint and found.startswith(complaint))
