"""One run of the job: receive the request, do the verb (up to three tries), report, answer with the exit code."""

import json
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import archive, restore
from .protocol import (
    REASONS,
    REQUEST_BYTES,
    REQUEST_SECONDS,
    BadRequest,
    Exit,
    JobFailed,
    Outcome,
    Request,
    Tally,
    TryAgain,
    parse_request,
)

TRIES = 3


def main() -> int:
    os.umask(0)  # everything is created with the mode that it is to have
    try:
        request = parse_request(receive(sys.stdin.fileno(), REQUEST_SECONDS))
    except JobFailed as error:
        tell(json.dumps(failure(error)))
        return error.code
    reporter = Reporter(request)
    reporter.start()
    code, result = attempt(request, reporter.tally)
    try:
        reporter.finish(result)
    except OSError as error:  # without its result a job has not ended well, whatever it did
        sys.stderr.write(f"the result could not be written: {error}\n")
        return Exit.RETRY
    return code


def attempt(request: Request, tally: Tally) -> tuple[Exit, dict[str, Any]]:
    """Do it: the exit code, and what is said last."""
    try:
        return Exit.DONE, {"state": "done", **run(request, tally).fields()}
    except JobFailed as error:
        return error.code, failure(error)
    except Exception as error:  # noqa: BLE001 - whatever it was, the driver must hear of it
        return Exit.RETRY, failure(TryAgain(f"{type(error).__name__}: {error}"))


def failure(error: JobFailed) -> dict[str, Any]:
    return {"state": "failed", "code": int(error.code), "reason": REASONS[error.code], "message": str(error)}


def receive(fd: int, seconds: float) -> bytes:
    """The whole request, or BadRequest when it does not arrive in time."""
    until = time.monotonic() + seconds
    parts: list[bytes] = []
    while sum(map(len, parts)) <= REQUEST_BYTES:
        if not select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
            raise BadRequest(f"no request within {seconds:g} seconds")
        part = os.read(fd, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
    raise BadRequest("the request is too long")


def run(request: Request, tally: Tally) -> Outcome:
    """Three tries: some failures pass by themselves. What is terminal or an outage is not tried again here."""
    verbs: dict[str, Callable[[Request, Tally], Outcome]] = {
        "archive": archive.archive,
        "restore": restore.restore,
        "empty": archive.empty,
    }
    for number in range(1, TRIES + 1):
        tally.begin()
        try:
            return verbs[request.verb](request, tally)
        except JobFailed as error:
            if error.code is not Exit.RETRY or number == TRIES:
                raise
        except OSError as error:
            if number == TRIES:
                raise TryAgain(str(error)) from error
        time.sleep(number)
    raise AssertionError


class Reporter:
    """Says about every second how far the job is, and at last what became of it."""

    def __init__(self, request: Request, period: float = 1.0) -> None:
        self.tally = Tally()
        self._request = request
        self._period = period
        self._said: dict[str, Any] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="report", daemon=True)

    def start(self) -> None:
        self._say({"state": "running"})
        self._thread.start()

    def finish(self, content: dict[str, Any]) -> None:
        self._stopping.set()
        self._thread.join()
        self._say(content)

    def _loop(self) -> None:
        while not self._stopping.wait(self._period):
            self._say({"state": "running"})

    def _say(self, content: dict[str, Any]) -> None:
        tally = self.tally
        counts = {"bytes_done": tally.bytes_done, "files_done": tally.files_done, "bytes_moved": tally.bytes_moved}
        known = {"op_id": self._request.op_id, **counts}
        content = {**content, **known}
        if content == self._said:
            return
        self._said = content
        line = json.dumps(content)
        tell(line)
        if self._request.result_path:
            final = content["state"] != "running"
            try:
                replace_file(Path(self._request.result_path), line, owner=self._request.result_owner, sync=final)
            except OSError:
                if final:
                    raise


def tell(line: str) -> None:
    with suppress(OSError):  # nobody listens any more: the work goes on, and whoever comes back reads the file
        os.write(1, line.encode() + b"\n")


def replace_file(path: Path, line: str, *, owner: int | None, sync: bool) -> None:
    beside = path.with_name(f".{path.name}.new")
    with beside.open("w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(line + "\n")
        file.flush()
        if owner is not None:
            os.fchown(file.fileno(), owner, -1)
        if sync:
            os.fsync(file.fileno())
    beside.replace(path)
