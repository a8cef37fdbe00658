"""A newcomer's first hour on a bare machine, in one script: the standard library only, run by its own python3.

    life.py COMMAND…    COMMAND starts CodeHub, such as `make up`

Create a workspace → its IDE's page answers → write a file in it → stop → archive → start → the same file → delete, then
Ctrl-C, which must leave nothing running, and a second start. What was done is a JSON object on the last line.
"""

import http.client
import http.cookies
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

PORT = int(os.environ["CODEHUB_PORT"])
FILE, TEXT = "notes/한글 file.txt", "written before the archive"
FIRST_SECONDS, STEP_SECONDS, STOP_SECONDS = 420.0, 90.0, 60.0
_PASSWORD = re.compile(r"Password\s+([a-z0-9]{4}(?:-[a-z0-9]{4})+)")
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
        return found[1] if found else None

    def wait(self) -> float:
        """Until it announces itself; the seconds that took."""
        until(self.is_announced, "CodeHub is running", FIRST_SECONDS)
        return self.seconds

    def is_announced(self) -> bool:
        if self.process.poll() is not None:
            raise Failed(f"it ended with {self.process.returncode}: {' | '.join(self.lines[-5:])}")
        return any("Ctrl-C" in line for line in self.lines)

    def stop(self) -> None:
        """Ctrl-C at its terminal: to everything in the foreground."""
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed("Ctrl-C does not end it") from None
        until(lambda: not strangers(), f"nothing is left running, but {strangers()}", 10)


class Browser:
    """Somebody who keeps cookies and stays on one origin."""

    def __init__(self) -> None:
        self._cookies: dict[str, str] = {}

    def ask(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        sent = {"Origin": f"http://127.0.0.1:{PORT}", "Cookie": cookie, "Accept": "text/html,*/*", **(headers or {})}
        sent |= {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"} if method == "GET" else {}
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), {**sent, "Content-Type": "application/json"}
            )
            response = connection.getresponse()
            content = response.read()
            for line in response.headers.get_all("Set-Cookie") or []:
                self._cookies |= {name: one.value for name, one in http.cookies.SimpleCookie(line).items()}
            if response.status in (301, 302, 303, 307, 308) and method == "GET":
                return self.ask("GET", response.headers["Location"])
        finally:
            connection.close()
        try:
            return response.status, json.loads(content) if content else None
        except ValueError:
            return response.status, content.decode(errors="replace")

    def cookie(self, name: str) -> str:
        return self._cookies.get(name, "")

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

    def contents(self, method: str, path: str, body: object = None) -> Any:
        headers = {"X-XSRFToken": self._browser.cookie("_xsrf")}
        status, answer = self._browser.ask(method, f"/w/{self.id}/api/contents/{path}", body, headers)
        if status not in (200, 201):
            raise Failed(f"{method} {path}: {status} {str(answer)[:300]}")
        return answer

    def write(self) -> None:
        self.contents("PUT", "notes", {"type": "directory"})
        self.contents("PUT", quote(FILE), {"type": "file", "format": "text", "content": TEXT})

    def check(self) -> None:
        found = self.contents("GET", f"{quote(FILE)}?content=1")["content"]
        if found != TEXT:
            raise Failed(f"the file has changed: {found!r}")

    def delete(self) -> None:
        self._browser.api("DELETE", f"/workspaces/{self.id}", expected=202)

        def is_gone() -> bool:
            status, seen = self._browser.ask("GET", f"/api/v1/workspaces/{self.id}")
            return status == 404 or seen["phase"] in ("DELETING", "DELETED") or seen.get("deleted_at") is not None

        until(is_gone, "the workspace is deleted")


def live(command: list[str]) -> dict[str, object]:
    codehub = CodeHub(command)
    done: dict[str, object] = {"url": codehub.wait()}
    if codehub.password is None:
        raise Failed("no password was shown")
    browser = Browser()
    browser.api("POST", "/login", {"username": "admin", "password": codehub.password})
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
    done["sandbox"] = not any("without a sandbox" in line for line in codehub.lines)
    return done


def main() -> int:
    try:
        done = live(sys.argv[1:])
    except Failed as error:
        done = {"failed": str(error)}
    sys.stdout.write(f"{json.dumps(done)}\n")
    return 1 if "failed" in done else 0


if __name__ == "__main__":
    sys.exit(main())
