"""This machine: Python, the data directory, the port."""

import contextlib
import json
import os
import ssl
import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from itertools import pairwise
from pathlib import Path

from codehub.embedded.datadir import OTHER_FOLDER, DataDir, InUse, default_data_dir
from codehub.errors import StartError
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, failed_by, ok, warning
from codehub.services.doctor.room import LEAST_BYTES, room, store_folders
from codehub.web.server import listen

OLDEST_PYTHON = (3, 11)
_ANSWER_SECONDS = 5.0
_SERVING = ("api", "proxy")  # the parts that use this port
_FIRST_PROCESS = Path("/proc/1/cmdline")  # in a container: what that is for


def python(version: Sequence[int] = sys.version_info[:3]) -> Finding:
    written = ".".join(map(str, version))
    if tuple(version[:2]) < OLDEST_PYTHON:
        return failed(codes.PYTHON, f"Python {written} is too old.", "Install Python 3.11 or newer.")
    return ok("python", f"Python {written}")


def data_dir_of(given: Path | None) -> Path:
    """Raises StartError for a folder that cannot be one."""
    path = given or default_data_dir()
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise StartError(f"{path} names the home of a user who does not exist.", OTHER_FOLDER) from None


def running_url(path: Path) -> str | None:
    """Where the CodeHub is that uses this folder now; empty when it does not say, None when there is none."""
    try:
        if not (path / "lock").exists():
            return None
        DataDir.open(path).close()
    except InUse:
        try:
            return str(json.loads((path / "lock").read_text())["url"] or "")
        except (OSError, ValueError, KeyError, TypeError):
            return ""
    except (StartError, OSError):
        return None
    return None


def data_directory(path: Path, *, in_use: bool, least: int = LEAST_BYTES, reserve: int | None = None) -> list[Finding]:
    if not path.exists():
        parent = next(folder for folder in path.parents if folder.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            return [failed(codes.DATA, f"{path} cannot be made: this user may not write to {parent}.", OTHER_FOLDER)]
        return [ok(codes.DATA.check, f"{path} will be made by the first start."), room(parent, least=least)]
    if not in_use and not os.access(path, os.W_OK | os.X_OK):
        return [failed(codes.DATA, f"This user may not write to {path}.", OTHER_FOLDER)]
    try:
        if not in_use and (not path.is_dir() or any(path.iterdir())):
            DataDir.open(path).close()
    except StartError as error:
        return [failed_by(codes.DATA, error)]
    except OSError as error:
        return [failed(codes.DATA, f"{path} cannot be read: {error.strerror}.", OTHER_FOLDER)]
    found = [ok(codes.DATA.check, f"{path}, in use by the CodeHub that runs" if in_use else str(path))]
    return [*found, *_open_secrets(path), room(path, least=least, reserve=reserve)]


def _open_secrets(path: Path) -> list[Finding]:
    folder = path / "secrets"
    if folder.is_dir() and folder.stat().st_mode & 0o077:
        return [warning(codes.SECRETS, f"Others can look into {folder}.", f"Close it: chmod 700 {folder}")]
    return []


def archive_room(store_url: str | None, data_dir: Path, *, least: int = LEAST_BYTES) -> list[Finding]:
    """Of a folder of archives on another disk than the data directory."""
    if not data_dir.is_dir():
        return []
    disk = data_dir.stat().st_dev
    elsewhere = [each for each in store_folders(store_url) if each.is_dir() and each.stat().st_dev != disk]
    return [room(each, least=least) for each in elsewhere]


def port(
    host: str, number: int, *, running: str | None, is_apart: bool, first_process: Path = _FIRST_PROCESS
) -> Finding:
    """`is_apart`: servers of its own are not used, so that what runs here may be a part that has no data directory."""
    where = f"{host}:{number}"
    try:
        listen(host, number).close()
    except StartError as error:
        if running and f":{number}/" in running:
            return ok(codes.PORT.check, f"{where}, in use by the CodeHub that runs")
        if is_apart and _answers(host, number):
            if _serves(first_process):
                return ok(codes.PORT.check, f"{where}, in use by the CodeHub of this container")
            told = f"{where} is in use, and a CodeHub answers there."
            return warning(codes.PORT, told, "If it is not this one, stop it or set CODEHUB_PORT.")
        return failed_by(codes.PORT, error)
    return ok(codes.PORT.check, f"{where} is free" if number else f"a free one of {host}")


def _serves(process: Path) -> bool:
    """Whether it is a part of CodeHub that has the port, by its command line."""
    try:
        parts = process.read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return False
    return any(Path(one).name == "codehub" and then in _SERVING for one, then in pairwise(parts))


def _answers(host: str, number: int) -> bool:
    """Whether CodeHub does, in plain or with TLS: a certificate, which is for the public name, says nothing here."""
    there = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - listening everywhere was asked for
    any_certificate = ssl.create_default_context()
    any_certificate.check_hostname, any_certificate.verify_mode = False, ssl.CERT_NONE
    for connection in (
        HTTPConnection(there, number, timeout=_ANSWER_SECONDS),
        HTTPSConnection(there, number, timeout=_ANSWER_SECONDS, context=any_certificate),
    ):
        with contextlib.closing(connection), contextlib.suppress(OSError, HTTPException, ValueError):
            connection.request("GET", "/healthz")
            if connection.getresponse().read(16) == b"ok\n":
                return True
    return False
