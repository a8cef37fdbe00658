"""Logs: one line per event, in one form, without secrets."""

import io
import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

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


CONFIG = LogConfig(level="info", format="auto")


@pytest.fixture
def unconfigured() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    ours = root.handlers
    root.handlers, root.level = handlers, level
    for handler in ours:  # only now: one that is closed opens its file again for whatever is logged meanwhile
        handler.close()
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("unconfigured")
@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_a_file_has_everything_from_the_start(tmp_path: Path, stream: io.StringIO) -> None:
    config, path = CONFIG, tmp_path / logs.FILE
    logs.configure_for_file(config, stream)
    structlog.get_logger("here").info("before", password="hunter2")
    logs.open_file(config, path)
    structlog.get_logger("here").info("after")
    written = path.read_text()
    assert [json.loads(line)["event"] for line in written.splitlines()] == ["before", "after"]
    assert "hunter2" not in written
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stream.getvalue() == ("" if stream.isatty() else written), "a terminal is for people"


@pytest.mark.usefixtures("unconfigured")
def test_files_are_bounded_and_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "FILE_BYTES", 2000)
    logs.configure_for_file(CONFIG, Terminal())
    logs.open_file(CONFIG, tmp_path / logs.FILE)
    for number in range(200):
        structlog.get_logger("here").info("it happened", number=number)
    files = sorted(tmp_path.iterdir())
    assert len(files) == logs.FILES
    assert sum(path.stat().st_size for path in files) <= 2000 * logs.FILES
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


@pytest.mark.usefixtures("unconfigured")
def test_a_file_that_fails_loses_lines_and_stops_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_for_file(CONFIG, Terminal())
    logs.open_file(CONFIG, tmp_path / logs.FILE)
    (file,) = logging.getLogger().handlers
    assert isinstance(file, logging.FileHandler)
    assert file.stream is not None
    file.stream.close()  # what is written fails from now on
    structlog.get_logger("here").info("it happened")
    file.stream = None
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("unconfigured")
def test_a_link_in_the_file_s_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / logs.FILE).symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        logs.open_file(CONFIG, tmp_path / logs.FILE)
