"""A newcomer's first hour on a bare machine, in one script: the standard library only, run by its own python3.

    life.py COMMAND…                  COMMAND starts CodeHub, such as `make up`
    life.py --interrupt N COMMAND…    Ctrl-C at N random moments of a first start, each time followed by a whole one

Create a workspace → its IDE's page answers → write a file in it → stop → archive → start → the same file → delete, then
Ctrl-C, which must leave nothing running, and a second start. What was done is a JSON object on the last line.
"""

import contextlib
import http.client
import http.cookies
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

PORT = int(os.environ["CODEHUB_PORT"])
FILE, TEXT = "notes/한글 file.txt", "written before the archive"
FIRST_SECONDS, STEP_SECONDS, STOP_SECONDS = 420.0, 90.0, 60.0
_PASSWORD = re.compile(r"Password\s+in (.+)")  # its file: this is no terminal
_FAILED = re.compile(r"\*\*\* \[.*\] Error (?!130$)")  # 130 is Ctrl-C
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Failed(Exception):
    """Ends the script with one line."""


class CodeHub:
    """One start of it, in a session of its own as at a terminal."""

    def __init__(self, command: list[str]) -> None:
        self.began = time.monotonic()
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            sys.stderr.write(line)
            self.lines.append(_COLOURS.sub("", line.rstrip()))

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self.began, 1)

    @property
    def password(self) -> str | None:
        found = _PASSWORD.search("\n".join(self.lines))
        return Path(found[1]).read_text().strip() if found else None

    def wait(self) -> float:
        """Until it announces itself; the seconds that took."""
        until(self.is_announced, "CodeHub is running", FIRST_SECONDS)
        return self.seconds

    def is_announced(self) -> bool:
        if self.process.poll() is not None:
            raise Failed(f"it ended with {self.process.returncode}: {' | '.join(self.lines[-5:])}")
        return any("Ctrl-C" in line for line in self.lines)

    @property
    def is_sandboxed(self) -> bool:
        return not any("without a sandbox" in line for line in self.lines)

    def stop(self) -> None:
        """Ctrl-C at its terminal: to everything in the foreground."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed("Ctrl-C does not end it") from None
        until(lambda: not strangers(), f"nothing is left running, but {strangers()}", 10)


class Browser:
    """Somebody who keeps cookies, each for the host that set it, and goes where a page leads."""

    def __init__(self) -> None:
        self.host = f"localhost:{PORT}"  # of the page that was shown last
        self._cookies: dict[str, dict[str, str]] = {}

    def ask(self, method: str, url: str, body: object = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """`url` is one, or a path on the dashboard's host."""
        parts = urlsplit(url)
        host = parts.netloc or f"localhost:{PORT}"
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        kept = self._cookies.setdefault(host, {})
        sent = {"Host": host, "Origin": f"http://{host}", "Accept": "text/html,*/*", **(headers or {})}
        sent |= {"Cookie": self.cookies(host)}
        sent |= {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} if method == "GET" else {}
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), {**sent, "Content-Type": "application/json"}
            )
            response = connection.getresponse()
            content = response.read()
            for line in response.headers.get_all("Set-Cookie") or []:
                kept |= {name: one.value for name, one in http.cookies.SimpleCookie(line).items()}
            if response.status in (301, 302, 303, 307, 308) and method == "GET":
                return self.ask("GET", urljoin(f"http://{host}{path}", response.headers["Location"]))
        finally:
            connection.close()
        self.host = host
        try:
            return response.status, json.loads(content) if content else None
        except ValueError:
            return response.status, content.decode(errors="replace")

    def cookie(self, host: str, name: str) -> str:
        return self._cookies.get(host, {}).get(name, "")

    def cookies(self, host: str) -> str:
        return "; ".join(f"{name}={value}" for name, value in self._cookies.get(host, {}).items())

    def api(self, method: str, path: str, body: object = None, expected: int = 200) -> Any:
        status, answer = self.ask(method, f"/api/v1{path}", body)
        if status != expected:
            raise Failed(f"{method} {path}: {status} {answer}")
        return answer


def until(condition: Callable[[], object], what: str, seconds: float = STEP_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


def strangers() -> list[str]:
    """Every process of this machine but ourselves, who started us, and zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if words and int(folder.name) not in (1, os.getpid(), os.getppid()):
            found.append(words[:120])
    return found


class Life:
    """One workspace."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        made = browser.api("POST", "/workspaces", {"name": name}, expected=201)
        self.id = made["id"]
        self._host = ""  # where its pages are

    def reach(self, phase: str) -> None:
        def is_there() -> bool:
            seen = self._browser.api("GET", f"/workspaces/{self.id}")
            if seen["phase"] == "ERROR":
                raise Failed(f"the workspace is in ERROR: {json.dumps(seen)[:600]}")
            return bool(seen["phase"] == phase and seen["operation"] == "NONE")

        until(is_there, f"the workspace is {phase}")

    def go(self, phase: str) -> None:
        self._browser.api("PATCH", f"/workspaces/{self.id}", {"desired_state": phase})
        self.reach(phase)

    def page(self) -> None:
        status, content = self._browser.ask("GET", f"/w/{self.id}/lab")
        if status != 200 or "jupyter" not in str(content).lower():
            raise Failed(f"the IDE's page: {status} {str(content)[:300]}")
        self._host = self._browser.host

    @property
    def api(self) -> tuple[str, str]:
        """Where Jupyter's is: a host and a path."""
        return self._host, "/api" if self._host.startswith(f"{self.id}.") else f"/w/{self.id}/api"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Jupyter itself."""
        host, api = self.api
        headers = {"X-XSRFToken": self._browser.cookie(host, "_xsrf")}
        status, answer = self._browser.ask(method, f"http://{host}{api}/{path}", body, headers)
        if status not in (200, 201):
            raise Failed(f"{method} {path}: {status} {str(answer)[:300]}")
        return answer

    def write(self) -> None:
        self.ask("PUT", "contents/notes", {"type": "directory"})
        self.ask("PUT", f"contents/{quote(FILE)}", {"type": "file", "format": "text", "content": TEXT})

    def check(self) -> None:
        found = self.ask("GET", f"contents/{quote(FILE)}?content=1")["content"]
        if found != TEXT:
            raise Failed(f"the file has changed: {found!r}")

    def delete(self) -> None:
        self._browser.api("DELETE", f"/workspaces/{self.id}", expected=202)

        def is_gone() -> bool:
            status, seen = self._browser.ask("GET", f"/api/v1/workspaces/{self.id}")
            return status == 404 or seen["phase"] in ("DELETING", "DELETED") or seen.get("deleted_at") is not None

        until(is_gone, "the workspace is deleted")


def log_in(password: str | None) -> Browser:
    """The first administrator's, which whichever start made it has shown."""
    if password is None:
        raise Failed("no password was shown")
    browser = Browser()
    browser.api("POST", "/login", {"username": "admin", "password": password})
    return browser


def live(command: list[str]) -> dict[str, object]:
    codehub = CodeHub(command)
    done: dict[str, object] = {"url": codehub.wait()}
    browser = log_in(codehub.password)
    life = Life(browser, "first")
    life.reach("RUNNING")
    life.page()
    done["page"] = codehub.seconds
    life.write()
    for phase in ("STANDBY", "ARCHIVED", "RUNNING"):
        life.go(phase)
    life.page()
    life.check()
    done["life"] = codehub.seconds
    life.go("STANDBY")  # what runs at the end goes on running, by design
    life.delete()
    codehub.stop()
    again = CodeHub(command)
    done["second"] = again.wait()
    again.stop()
    done["sandbox"] = codehub.is_sandboxed
    return done


def forget() -> None:
    """What a first start has made: the next one is a first one again. Downloads and packages of the system stay."""
    data = os.environ.get("CODEHUB_DATA_DIR") or ("/var/lib/codehub" if os.geteuid() == 0 else "~/.codehub")
    shutil.rmtree(Path(data).expanduser(), ignore_errors=True)
    subprocess.run(("git", "clean", "-fdxq"), check=True)


def first_start(command: list[str]) -> CodeHub:
    """A whole one, as the first on this machine; it runs."""
    forget()
    codehub = CodeHub(command)
    codehub.wait()
    return codehub


def interrupt(command: list[str], times: int) -> dict[str, object]:
    """After each Ctrl-C nothing may be left running, and the next start is logged in to."""
    first_start(command).stop()  # downloads
    whole = first_start(command)
    longest = whole.seconds
    whole.stop()
    moments = [interrupted_at(random.uniform(n, n + 1) / times * longest, command) for n in range(times)]
    return {"url": longest, "sandbox": whole.is_sandboxed, "moments": moments}


def bad_end(code: int, lines: list[str]) -> str | None:
    """What is wrong with how a command ended after Ctrl-C. make itself always ends by the signal, and says of what."""
    if any("Traceback" in line for line in lines):
        return "a stack trace is shown"
    if failed := next(filter(_FAILED.search, lines), None):
        return f"it failed instead of stopping: {failed}"
    return None if code in (0, 130, -signal.SIGINT) else f"it ended with {code}"


def check_end(broken: CodeHub) -> None:
    if complaint := bad_end(broken.process.returncode, broken.lines):
        raise Failed(complaint)


def interrupted_at(moment: float, command: list[str]) -> str:
    forget()
    broken = CodeHub(command)
    time.sleep(moment)  # wherever that is
    said = [line for line in broken.lines if not line.startswith("{")]  # beside its log
    what = f"Ctrl-C after {moment:.1f} s ({said[-1] if said else 'nothing said yet'})"
    try:
        broken.stop()
        check_end(broken)
        again = CodeHub(command)
        seconds = again.wait()
        log_in(again.password or broken.password)
        again.stop()
    except Failed as error:
        raise Failed(f"{what}: {error}") from None
    return f"{what}: exit {broken.process.returncode}; URL of the next start after {seconds} s"


def main() -> int:
    # What a shell starts in the background ignores Ctrl-C, and so would all that it starts: at a terminal nothing does.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = sys.argv[1:]
    try:
        done = interrupt(arguments[2:], int(arguments[1])) if arguments[0] == "--interrupt" else live(arguments)
    except Failed as error:
        done = {"failed": str(error)}
    sys.stdout.write(f"{json.dumps(done)}\n")
    return 1 if "failed" in done else 0


if __name__ == "__main__":
    sys.exit(main())
