"""Which terminals get a bar, colours and more than ASCII; and what a start says on them."""

import io
import os
import resource
import signal
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from codehub.cli import browser, open_files, terminal
from codehub.cli.welcome import Welcome
from codehub.errors import StartError
from codehub.services.accounts import FirstAdmin
from codehub.web.server import login_base


class Terminal(io.StringIO):
    """One that people look at."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "is_live"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
    ids=str,
)
def test_a_bar_is_for_terminals_that_can_draw_it(environment: dict[str, str], is_live: bool) -> None:
    assert terminal.is_live(Terminal(), environment) is is_live
    assert not terminal.is_live(io.StringIO(), environment)


@pytest.mark.parametrize(
    ("environment", "has_unicode"),
    [
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "ko_KR.utf8"}, True),
        ({"LANG": "de_DE.UTF-8@euro"}, True),
        ({"LANG": "C"}, False),
        ({}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),  # Python's own doing
        ({"LANG": "de_DE", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "POSIX"}, False),
    ],
    ids=str,
)
def test_signs_are_for_terminals_that_know_them(environment: dict[str, str], has_unicode: bool) -> None:
    assert terminal.has_unicode(Terminal(), environment) is has_unicode


@pytest.mark.parametrize(
    ("environment", "files", "parent", "is_watched"),
    [
        ({}, [], 7, True),
        ({"container": "oci"}, [], 7, False),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, [], 7, False),
        ({}, [".dockerenv"], 7, False),
        ({}, ["run/.containerenv"], 7, False),
        ({}, [], 0, False),
    ],
)
def test_a_containers_terminal_is_its_log(
    tmp_path: Path, environment: dict[str, str], files: list[str], parent: int, is_watched: bool
) -> None:
    """With `tty: true` what is written stands in the log, whoever watches; a shell in it has its own."""
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    own, first = tmp_path / "proc/self/stat", tmp_path / "proc/1/stat"
    for stat in (own, first):
        stat.parent.mkdir(parents=True)
        stat.write_text("9 (code) hub) S 1 9 9 34816 9 4194304 1")
    assert terminal.is_watched(Terminal(), environment, tmp_path, parent) is is_watched
    assert not terminal.is_watched(io.StringIO(), environment, tmp_path, parent)
    own.write_text("9 (code) hub) S 1 9 9 34817 9 4194304 1")
    assert terminal.is_watched(Terminal(), environment, tmp_path, parent)


def test_the_image_says_that_it_is_one() -> None:
    assert "container=" in (Path(__file__).parents[2] / "images/codehub/Dockerfile").read_text()


def test_everything_has_an_ascii_form() -> None:
    assert terminal.as_ascii("✓ Stopping … ─→ 한") == "+ Stopping ... --> ?"


def test_a_later_start_shows_no_account() -> None:
    later = "\n".join(Welcome("http://localhost:8080/", Path("/d"), Path("/d/logs/codehub.log")).lines())
    assert "Password" not in later
    assert "Username" not in later
    given = Welcome("http://localhost:8080/", Path("/d"), Path("/d/l"), FirstAdmin("admin", None)).lines()
    assert "   Password   as in CODEHUB_ADMIN_PASSWORD" in given


@pytest.mark.parametrize(
    ("host", "base"),
    [("127.0.0.1", "http://localhost:1/"), ("0.0.0.0", "http://127.0.0.1:{}/"), ("::", "http://[::1]:{}/")],
)
def test_where_links_lead_to(host: str, base: str) -> None:
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        assert login_base(listener, "http://localhost:1/") == base.format(listener.getsockname()[1])


def test_without_a_display_no_browser_takes_the_terminal() -> None:
    assert not browser.has_display({})
    assert browser.has_display({"DISPLAY": ":0"})


async def test_a_page_that_cannot_be_opened_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    said: list[str] = []
    await browser.open_page("http://localhost/", tmp_path / "nowhere", said.append)
    assert said == ["No browser could be opened: open the link above."]


@pytest.mark.parametrize("opened", [True, False])
async def test_what_the_browser_says_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: bool) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda _: opened)
    said: list[str] = []
    await browser.open_page("http://localhost/", tmp_path, said.append)
    assert said == ([] if opened else ["No browser could be opened: open the link above."])


def test_a_browser_that_stays_in_the_foreground_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """Nor is it taken for one that cannot be opened."""
    program = tmp_path / "browser"
    program.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 600 >&-\n")
    program.chmod(0o755)
    code = (
        "import asyncio, pathlib; from codehub.cli import browser; browser._SECONDS = 1.0;"
        f"asyncio.run(browser.open_page('http://localhost/', pathlib.Path({str(tmp_path)!r}), print))"
    )
    environment = {**os.environ, "DISPLAY": ":0", "BROWSER": f"{program} %s"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, timeout=30, check=False
        )
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_low_limit_of_open_files_is_raised_or_told(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [256, 4096]
    monkeypatch.setattr(resource, "getrlimit", lambda _: tuple(limits))
    monkeypatch.setattr(resource, "setrlimit", lambda _, given: limits.__setitem__(slice(None), given))
    open_files.raise_limit()
    assert limits == [4096, 4096]
    limits[:] = [256, 256]
    with pytest.raises(StartError, match="Only 256 files may be open at once"):
        open_files.raise_limit()
