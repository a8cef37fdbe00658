"""Asks one small process to start programs (launch.py): it is started once and forks for each of them.

A Python interpreter for each start would cost more than the start; forking ourselves, with our threads and connections,
would be wrong. It ends when we do, however we end, and is started anew if it has ended.
"""

import array
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence

from codehub.drivers.process import launch
from codehub.drivers.process.layout import TOKEN_LENGTH
from codehub.drivers.process.looks import MARK
from codehub.errors import ActionFailed

_LAUNCH_SECONDS = 30.0
_END_SECONDS = 5.0
NO_MARK = "0" * TOKEN_LENGTH  # room for that of a program that only dozes


class Launcher:
    """May be used by any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        self._end: weakref.finalize[[socket.socket, subprocess.Popen[bytes]], Launcher] | None = None

    def launch(self, plans: Sequence[Mapping[str, object]]) -> None:
        """One after the other. Return when all have begun (or, if a plan says so, ended well); else ActionFailed."""
        content = os.memfd_create("plans")  # in memory only, as it may hold secrets
        reading, writing = os.pipe()
        try:
            with os.fdopen(content, "wb", closefd=False) as file:
                file.write(json.dumps(plans).encode())
            os.lseek(content, 0, os.SEEK_SET)
            self._send(content, writing)
        except OSError as error:
            os.close(reading)
            raise ActionFailed(f"A process cannot be started: {error}.") from error
        finally:
            os.close(content)
            os.close(writing)
        said = _read(reading)
        if said != launch.DONE:
            words = said.removeprefix(launch.DONE).decode(errors="replace").strip() or "what should start it ended"
            raise ActionFailed(f"A process cannot be started: {words}.")

    def close(self) -> None:
        """Programs that were started go on."""
        with self._lock:
            self._stop()

    def _send(self, *descriptors: int) -> None:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        with self._lock:
            if self._line is not None:
                try:
                    self._line.sendmsg([b"."], rights)
                except OSError:  # it has ended
                    self._stop()
                else:
                    return
            self._start().sendmsg([b"."], rights)

    def _start(self) -> socket.socket:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._line.settimeout(_LAUNCH_SECONDS)
        with theirs:
            server = subprocess.Popen(  # noqa: S603
                (sys.executable, "-I", "-S", launch.__file__),
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", MARK: NO_MARK}, start_new_session=True,
            )  # fmt: skip
        self._end = weakref.finalize(self, _end, self._line, server)
        return self._line

    def _stop(self) -> None:
        if self._end is not None:
            self._end()
        self._line = self._end = None


def _end(line: socket.socket, server: "subprocess.Popen[bytes]") -> None:
    """It ends when nobody holds the line."""
    line.close()
    try:
        server.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _read(descriptor: int) -> bytes:
    """All of it; the writer ends when it is done. What takes too long is left to end by itself."""
    until, said = time.monotonic() + _LAUNCH_SECONDS, b""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    try:
        while waiting.poll(max(0.0, until - time.monotonic()) * 1000):
            chunk = os.read(descriptor, 4096)
            if not chunk:
                return said
            said += chunk
    finally:
        os.close(descriptor)
    return b"it takes too long"
