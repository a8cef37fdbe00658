"""The PostgreSQL cluster on disk: made once, checked before every start, never deleted or repaired.

initdb works in a folder of its own that takes its final name when it is complete, so `postgres/` is a whole cluster or
is not there. What is found damaged is left as it is: the error says where to look and what to do.
"""

import asyncio
import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

from codehub.embedded.datadir import sync_folder
from codehub.embedded.host import Host
from codehub.embedded.process import Steps, spawn, uninterrupted
from codehub.errors import StartError

SUPERUSER = "codehub"
_INITDB_SECONDS = 180.0
_INITDB_STEPS: Steps = ((signal.SIGTERM, 5.0),)


def is_new(folder: Path) -> bool:
    return not folder.exists() or not any(folder.iterdir())


async def create(host: Host, programs: Path, folder: Path, password: str) -> None:
    """Make an empty cluster at `folder` that knows one user, the superuser, and trusts nobody without a password."""
    for leftover in host.data.path.glob(".initdb-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    workshop = Path(tempfile.mkdtemp(prefix=".initdb-", dir=host.data.path))
    try:
        _write_for(host, workshop / "password", password)
        await _run_initdb(host, programs, workshop)
        (workshop / "cluster").rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise StartError(f"The folder {folder} cannot be made: {(error.strerror or str(error)).lower()}.") from error
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


async def _run_initdb(host: Host, programs: Path, workshop: Path) -> None:
    command = [
        programs / "initdb",
        f"--pgdata={workshop / 'cluster'}",
        f"--username={SUPERUSER}",
        f"--pwfile={workshop / 'password'}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        # PostgreSQL's own C.UTF-8: an upgrade of the system's libc cannot change the order and so break an index.
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        "--no-instructions",
        *(() if host.durable else ("--no-sync",)),
    ]
    log = host.data.logs / "initdb.log"
    initdb = await spawn("initdb", command, account=host.account, log=log, steps=_INITDB_STEPS)
    try:
        async with asyncio.timeout(_INITDB_SECONDS):
            await initdb.exited()
    except TimeoutError:
        raise StartError(f"PostgreSQL's data could not be made in {_INITDB_SECONDS:.0f} s (log: {log}).") from None
    finally:
        await uninterrupted(initdb.stop())
    if initdb.process.returncode != 0:
        reason = initdb.last_words("error: ", "FATAL: ", "PANIC: ").rstrip(".")
        raise StartError(f"PostgreSQL's data could not be made: {reason} (log: {log}).", "Mend that and start again.")


def _write_for(host: Host, path: Path, text: str) -> None:
    """A file, in a folder, that only the servers' account can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    if not host.account.is_ours:
        for each in (path, path.parent):
            os.chown(each, host.account.uid, host.account.gid)


def check(folder: Path, version: str) -> None:
    """Refuse a cluster that the programs of `version` cannot run, before they try."""
    major = version.partition(".")[0]
    try:
        found = (folder / "PG_VERSION").read_text(errors="replace").strip()
    except OSError:
        found = ""
    if not re.fullmatch(r"\d+(\.\d+)?", found):
        raise damaged(folder, "PG_VERSION is missing or unreadable")
    if found != major:
        raise StartError(
            f"The data in {folder} is PostgreSQL {found}'s, but the installed programs are PostgreSQL {major}.",
            f"Start the CodeHub that wrote it, dump the database there, move {folder} away and load the dump here.",
        )
    if not (folder / "global" / "pg_control").is_file():
        raise damaged(folder, "global/pg_control is missing")


def last_checkpoint(folder: Path) -> bytes:
    """Where in its log the last one is: PostgreSQL that has written another one has recovered its data meanwhile.

    The same place in pg_control since PostgreSQL 12, after identity, versions, state and time; empty if unreadable.
    """
    try:
        with (folder / "global" / "pg_control").open("rb") as file:
            return file.read(40)[32:]
    except OSError:
        return b""


def damaged(folder: Path, what: str, log: Path | None = None) -> StartError:
    # The reason may be another one, such as a full disk; moving data away is the last thing to do then.
    return StartError(
        f"PostgreSQL cannot start on {folder}: {what.rstrip('.')}{f' (log: {log})' if log else ''}.",
        "If the data is damaged, restore the folder from a backup or move it away to begin anew; nothing was deleted.",
    )
