"""What a person sees while `codehub up` starts, at terminals of every kind, and what is in the log instead."""

import json
import os
import pty
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.cli.codehub import environment, running
from tests.embedded.support import copy_of, processes_at
from tests.support import eventually

LINK = re.compile(r"http\S+/api/v1/login/link\?code=\S+")
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
UTF8 = {"TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": ""}


@pytest.fixture
def data(place: Path, used_data: Path) -> Path:
    return copy_of(used_data, place / "d")


def at_a_terminal(
    data: Path,
    moment: str,
    variables: Mapping[str, str],
    how: signal.Signals = signal.SIGINT,
    answers: Sequence[str] = (),
) -> bytes:
    """Everything that is written to it, stopped at this moment; the next answer is typed at each question mark."""
    ours, theirs = pty.openpty()
    given = {"CODEHUB_DATA_DIR": str(data), "CODEHUB_PORT": "0", "CODEHUB_IMAGES": "test", **variables}
    command = [sys.executable, "-m", "codehub", "up"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**given), start_new_session=True
    )
    os.close(theirs)
    seen, is_told, to_type = b"", False, list(answers)
    try:
        while select.select([ours], [], [], 60)[0]:
            seen += os.read(ours, 65536)
            if to_type and seen.endswith(b"?: "):
                os.write(ours, to_type.pop(0).encode() + b"\n")
            if not is_told and moment.encode() in seen:
                is_told = True
                process.send_signal(how)
    except OSError:  # the other end is closed: it has ended
        pass
    finally:
        os.close(ours)
        if not is_told:
            process.kill()
    assert process.wait(30) == 0, seen.decode(errors="replace")
    return seen


def lines_of(seen: bytes) -> list[str]:
    return seen.decode().replace("\r\n", "\n").splitlines()


def test_at_a_terminal(data: Path) -> None:
    seen = at_a_terminal(data, "Ctrl-C", UTF8)
    text = seen.decode()
    for words in ("✓", "Database", "Self-check", "Web server", "─" * 70, "CodeHub", "Stopping …", "Stopped."):
        assert words in text
    assert LINK.search(text)
    assert str(data / "logs" / "codehub.log") in text
    assert '{"' not in text, "no JSON between words"
    assert "Starting Valkey" not in [line.strip() for line in lines_of(seen)], "details are no lines"
    assert seen.rfind(SHOW) > seen.rfind(HIDE) >= 0, "the cursor is back"
    assert seen.rfind(SHOW) < seen.index(b"URL"), "before anything that stays"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["Database", "PostgreSQL", "Self-check"])
def test_a_signal_while_the_bar_is_drawn(data: Path, moment: str, how: signal.Signals) -> None:
    seen = at_a_terminal(data, moment, UTF8, how)
    assert seen.rfind(SHOW) > seen.rfind(HIDE) >= 0, "the cursor is back"
    assert seen.decode().rstrip().endswith("Stopped.")
    assert "Stopping …" in seen.decode()
    assert "Traceback" not in seen.decode()
    assert processes_at(data) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["python", "pydantic_core", "uvloop"])
def test_a_signal_before_anything_is_shown(data: Path, how: signal.Signals, module: str) -> None:
    """While modules are imported: from the first moment, and when one that comes early or late is there."""
    command = [sys.executable, "-m", "codehub", "up"]
    settings = environment(CODEHUB_DATA_DIR=str(data), CODEHUB_PORT="0", CODEHUB_IMAGES="test")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings, text=True) as process:
        eventually(lambda: _handles(process.pid, signal.SIGTERM), "it hears signals")
        maps = Path(f"/proc/{process.pid}/maps")
        eventually(lambda: module in maps.read_text(), f"{module} is imported")
        process.send_signal(how)
        out, error = process.communicate(timeout=30)
    assert process.returncode == 0, error
    assert out.endswith("Stopping …\nStopped.\n"), out
    assert "Traceback" not in error


def _handles(pid: int, number: signal.Signals) -> bool:
    found = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("plain", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str)
def test_a_plain_terminal(data: Path, plain: dict[str, str]) -> None:
    seen = at_a_terminal(data, "Ctrl-C", {**UTF8, **plain})
    assert b"\x1b" not in seen
    lines = lines_of(seen)
    assert [line for line in lines if line.endswith("…")] == [
        "Database …",
        "Self-check …",
        "Web server …",
        "Stopping …",
    ]


@pytest.mark.parametrize("locale", [{"LANG": "C"}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "ascii"}], ids=str)
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_that_knows_only_ascii(data: Path, locale: dict[str, str], term: str) -> None:
    nothing = {"LC_ALL": "", "LC_CTYPE": "", "LANG": "C.UTF-8", "NO_COLOR": ""}
    seen = at_a_terminal(data, "Ctrl-C", {**nothing, "TERM": term, **locale})
    assert seen.isascii(), seen
    assert b"-" * 70 in seen
    assert b"Stopping ..." in seen
    assert b"Stopped." in seen


def test_without_a_terminal_it_is_a_line_for_each_step(data: Path, place: Path) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
    words = [line for line in codehub.printed.splitlines() if not line.startswith("{")]
    steps = [line for line in words if line.endswith(" …")]
    assert steps == ["Database …", "Self-check …", "Web server …", "Stopping …"]
    assert [json.loads(line) for line in codehub.printed.splitlines() if line.startswith("{")], "logs as before"


def test_the_log_is_a_file_for_its_owner(data: Path, place: Path) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
        log = data / "logs" / "codehub.log"
        events = [json.loads(line)["event"] for line in log.read_text().splitlines()]
        assert events[0] == "starting"
        assert "codehub is running" in events
        assert stat.S_IMODE(log.stat().st_mode) == 0o600
        assert LINK.search(codehub.printed) is None, "a journal has other readers"
        assert "codehub login-link" in codehub.printed
        link = new_link(data)
        assert httpx.get(link).headers["location"] == "/"
        assert httpx.get(link).headers["location"] == "/login?error=link_used"
        assert codehub.stop() == 0
    code = link.partition("code=")[2]
    assert code not in log.read_text()
    assert code not in codehub.printed


def test_the_link_is_for_this_machine(data: Path, place: Path) -> None:
    """At the public port, as whoever comes through a proxy meets it."""
    with running(data, place / "out", CODEHUB_HOST="0.0.0.0", CODEHUB_TRUSTED_PROXIES="127.0.0.1") as codehub:
        assert codehub.url
        link = new_link(data)
        host = urlsplit(link).hostname or ""
        assert link.startswith(codehub.url), "a name is used only where it surely leads to us"
        assert host in ("localhost", "127.0.0.1")
        for headers in (
            {"X-Forwarded-For": "127.0.0.1"},
            {"X-Forwarded-For": "192.0.2.7"},
            {"X_Forwarded_For": "127.0.0.1"},
            {"Forwarded": "for=localhost"},
        ):
            assert httpx.get(link, headers=headers).status_code == 403, headers
        assert httpx.get(link, headers={"Host": "codehub.example.com"}).status_code == 421
        for address in own_addresses():
            assert httpx.get(link.replace(host, address)).status_code == 403
            assert httpx.get(link.replace(host, address), headers={"Host": "localhost"}).status_code == 403
        assert httpx.get(link).headers["location"] == "/", "none of them used it up"


def own_addresses() -> list[str]:
    """Of this machine, beside loopback."""
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return [each for each in found if "." in each and not each.startswith("127.")][:1]


def test_the_link_with_a_public_address(data: Path, place: Path) -> None:
    with running(data, place / "out", CODEHUB_PUBLIC_URL="https://codehub.example.com") as codehub:
        assert codehub.url
        assert "Public     https://codehub.example.com" in codehub.printed
        link = new_link(data)
        assert link.startswith(codehub.url), "the local one"
        answer = httpx.get(link)
        assert answer.headers["location"] == "/"
        assert "__Host-codehub_session=" in answer.headers["set-cookie"]


def test_an_address_that_is_not_loopback_has_no_link(data: Path, place: Path) -> None:
    for address in own_addresses():
        with running(data, place / "out", CODEHUB_HOST=address) as codehub:
            assert codehub.url
            code, _, error = command(data, "login-link")
            assert (code, "no login links" in error) == (1, True), error


def command(data: Path, *arguments: str, **more: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "codehub", *arguments],
        env=environment(CODEHUB_DATA_DIR=str(data), **more), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def new_link(data: Path) -> str:
    code, link, error = command(data, "login-link")
    assert code == 0, error
    return link.strip()


def test_a_new_link_while_it_runs(data: Path, place: Path) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.url
        code, link, error = command(data, "login-link")
        assert code == 0, error
        with httpx.Client() as client:
            assert client.get(link.strip()).headers["location"] == "/"
            assert client.get(f"{codehub.url}api/v1/session").json()["user"]["username"] == "admin"
        _, printed, _ = command(data, "login-link", "--json")
        assert json.loads(printed)["username"] == "admin"
        assert codehub.stop() == 0
    code, _, error = command(data, "login-link")
    assert (code, error.startswith(f"codehub: No CodeHub runs on {data}.")) == (1, True), error


def test_a_browser_is_opened_with_it(data: Path, place: Path) -> None:
    script = place / "browser"
    script.write_text(f'#!/bin/sh\nprintf %s "$1" > {place}/opened.new && mv {place}/opened.new {place}/opened\n')
    script.chmod(0o755)
    given = {"BROWSER": f"{script} %s", "DISPLAY": ":0"}
    with running(data, place / "out", "--open", **given) as codehub:
        assert codehub.url
        opened = place / "opened"
        eventually(opened.exists, "a browser is opened")
        page = Path(opened.read_text().removeprefix("file://"))
        assert LINK.search(page.read_text())
        assert LINK.search(opened.read_text()) is None, "everybody can read the arguments of a program"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert codehub.stop() == 0
    assert not page.exists()


def test_no_display_is_no_failure(data: Path, place: Path) -> None:
    with running(data, place / "out", "--open", DISPLAY="", WAYLAND_DISPLAY="") as codehub:
        assert codehub.is_ready()
        eventually(lambda: "No display: open the link above" in codehub.printed, "it is said")


def test_without_a_home(data: Path, place: Path) -> None:
    with running(data, place / "out", HOME="") as codehub:
        assert codehub.is_ready()


def test_a_strict_umask(place: Path) -> None:
    """A first start; what workspaces run must be readable for their users all the same."""
    was = os.umask(0o077)
    try:
        with running(place / "d", place / "out", CODEHUB_ADMIN_PASSWORD="correct horse battery") as codehub:
            url = codehub.url
            with httpx.Client(base_url=f"{url}api/v1") as client:
                client.post("/login", json={"username": "admin", "password": "correct horse battery"})
                made = client.post("/workspaces", json={"name": "w", "desired_state": "RUNNING"}).json()
                path = f"/workspaces/{made['id']}"
                eventually(lambda: client.get(path).json()["phase"] == "RUNNING", "it runs", 60)
                client.patch(path, json={"desired_state": "STANDBY"})
                eventually(lambda: client.get(path).json()["phase"] == "STANDBY", "it is stopped", 60)
    finally:
        os.umask(was)


def test_a_second_start_is_quick(data: Path, place: Path) -> None:
    """Three seconds on a quiet machine; here only that nothing waits for something that is not there."""
    began = time.monotonic()
    with running(data, place / "out") as codehub:
        assert codehub.url
        assert time.monotonic() - began < 15
