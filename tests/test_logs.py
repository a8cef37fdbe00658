"""Logs: one line per event, in one form, without secrets."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from codehub import logs
from codehub.config import LogConfig


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the logs of one test go; afterwards logging is as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    written = io.StringIO()
    logs.configure(LogConfig(level="info", format="json"), written)
    yield written
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_its_values(stream: io.StringIO) -> None:
    structlog.get_logger("here").info("it happened", workspace="w1")
    (line,) = lines(stream)
    assert line["event"] == "it happened"
    assert line["workspace"] == "w1"
    assert line["level"] == "info"


def test_the_standard_library_s_logs_come_out_the_same_way(stream: io.StringIO) -> None:
    logging.getLogger("some.library").warning("careful with %s", "this")
    (line,) = lines(stream)
    assert line["event"] == "careful with this"
    assert line["logger"] == "some.library"


def test_an_exception_stays_on_its_line(stream: io.StringIO) -> None:
    try:
        int("inside")
    except ValueError:
        structlog.get_logger("here").exception("it failed")
    (line,) = lines(stream)
    assert "inside" in str(line["exception"])


@pytest.mark.parametrize("name", ["password", "api_token", "Authorization", "session_cookie", "client_secret"])
def test_a_value_under_a_secret_s_name_is_masked(stream: io.StringIO, name: str) -> None:
    structlog.get_logger("here").info("login", **{name: "hunter2"})
    assert "hunter2" not in stream.getvalue()


def test_a_secret_inside_a_value_is_masked(stream: io.StringIO) -> None:
    structlog.get_logger("here").info("loaded", config={"password": "hunter2", "urls": ["redis://:hunter3@h/0"]})
    assert "hunter" not in stream.getvalue()


@pytest.mark.parametrize("password", ["hun/ter", "p@hunter", "hunter"])
def test_any_password_in_a_url_is_masked(stream: io.StringIO, password: str) -> None:
    structlog.get_logger("here").info("connecting", url=f"redis://:{password}@host/0")
    assert password not in stream.getvalue()


def test_a_traceback_shows_no_local_variables() -> None:
    written = io.StringIO()
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    logs.configure(LogConfig(level="info", format="text"), written)
    url = "postgresql://me:hunter2@host/db"
    try:
        int(url[:3])
    except ValueError:
        structlog.get_logger("here").exception("it failed")
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()
    assert "ValueError" in written.getvalue()
    assert "hunter2" not in written.getvalue()


def test_a_password_in_a_url_is_masked(stream: io.StringIO) -> None:
    logging.getLogger("some.library").warning("connecting to postgresql://me:hunter2@host/db")
    assert "hunter2" not in stream.getvalue()
    assert "postgresql://me:***@host/db" in stream.getvalue()


def test_less_important_messages_are_left_out(stream: io.StringIO) -> None:
    structlog.get_logger("here").debug("detail")
    assert lines(stream) == []
