"""Restoring a backup: all of it in one transaction, or nothing.

The file is checked before the database is looked at, and the database before it is touched. What matters is whether
this version can use the backup's schema; that of the database may be any, since it is about to go.

pg_restore turns the dump into statements that psql carries out; COMMIT is sent only after pg_restore has ended well, so
that whatever dies on the way leaves the database as it was. What must be different in a database that is older than the
world around it is part of the same transaction (db/replacing.py).
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import IO

from codehub.backup import programs
from codehub.backup.file import Manifest, opened
from codehub.backup.programs import Programs
from codehub.db import adoption, backups, migrate, replacing
from codehub.db.backups import Contents
from codehub.errors import StartError, Unavailable

_BLOCK = 1 << 20
_MOST_NAMES = 5
# Written by newer programs than the server: it does not know this setting, and does without it.
_TOO_NEW = re.compile(rb"^SET transaction_timeout = 0;$", re.MULTILINE)
_KNOWS_TRANSACTION_TIMEOUT = 170000
_LOST = 2  # how psql ends when its connection breaks; below 0: it was killed
_HEAD_ENDS = b"\nSET row_security"


async def restore(path: Path, database_url: str, *, force: bool) -> Manifest:
    """Replace what is in the database by what is in the file, and migrate it forward."""
    async with restored(path, database_url, force=force) as manifest:
        return manifest


@asynccontextmanager
async def restored(path: Path, database_url: str, *, force: bool, adopting: bool = False) -> AsyncIterator[Manifest]:
    """The same; no coordinator begins to lead before the block ends.

    `adopting`: newer archives are adopted in it. Whatever ends it before that, the database knows that this is due.
    """
    with opened(path) as (manifest, dump):
        if not migrate.is_usable(manifest.schema_version, manifest.schema_floor):
            raise StartError(
                f"The backup has schema version {manifest.schema_version}, newer than this CodeHub "
                f"({migrate.newest_version()}).",
                f"Restore it with CodeHub {manifest.codehub} or a newer one.",
            )
        async with backups.nobody_leading(database_url) as before:
            _check_free(before, manifest, force=force)
            await asyncio.to_thread(migrate.surround, database_url)
            # Older programs than those of the server that it was made on might not be able to read the dump.
            newest = max(before.server_version, manifest.server_version)
            found = await asyncio.to_thread(programs.programs_for, newest)
            await _replace(found, database_url, manifest, dump, before, adopting=adopting)
            await _migrate(database_url)
            yield manifest


@asynccontextmanager
async def gone_on_with(database_url: str) -> AsyncIterator[datetime]:
    """A database that was restored and whose newer archives are not adopted yet; the moment of its backup.

    No coordinator begins to lead before the block ends.
    """
    async with backups.nobody_leading(database_url):
        due = await adoption.read(database_url)
        if due is None:
            raise StartError("No newer archives are to be adopted: no restore is unfinished.", "Name a backup.")
        await _migrate(database_url)
        yield due.database_of


async def _migrate(database_url: str) -> None:
    try:
        await asyncio.to_thread(migrate.upgrade, database_url)
    except StartError as error:
        raise StartError(
            f"The backup is restored, but its schema is not migrated yet: {error.message}", "Run `codehub migrate`."
        ) from error


def _check_free(found: Contents, manifest: Manifest, *, force: bool) -> None:
    if found.foreign:
        names = ", ".join(found.foreign[:_MOST_NAMES]) + (", …" if len(found.foreign) > _MOST_NAMES else "")
        raise StartError(
            f"The database holds what is not CodeHub's: {names}.", "Make a database of its own for CodeHub."
        )
    if found.namespace != manifest.namespace:
        raise StartError(
            f"The backup is of the schema {manifest.namespace}, and here CodeHub's tables are in {found.namespace}.",
            f"Set the search_path of the database's user to {manifest.namespace}.",
        )
    if (found.users or found.workspaces) and not force:
        raise StartError(
            f"The database is not empty: it holds {found.users} users and {found.workspaces} workspaces.",
            "Restore into an empty one, or give --force to lose what is in it.",
        )


async def _replace(
    found: Programs, database_url: str, manifest: Manifest, dump: IO[bytes], before: Contents, *, adopting: bool = False
) -> None:
    connection, environment = programs.let_in(database_url)
    reading = found.command("pg_restore", "--no-owner", f"--schema={manifest.namespace}", "--file=-")
    writing = found.command(
        "psql", "--no-psqlrc", "--quiet", "--no-password", "--set=ON_ERROR_STOP=1", "--file=-", f"--dbname={connection}"
    )
    pipe = asyncio.subprocess.PIPE
    try:
        source = await asyncio.create_subprocess_exec(*reading, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        target = await asyncio.create_subprocess_exec(
            *writing, env=environment, stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe
        )
    except OSError as error:
        raise StartError(f"PostgreSQL's programs cannot be started: {error.strerror}.") from error
    ends = [
        asyncio.create_task(programs.finished(target, "psql")),
        asyncio.create_task(programs.finished(source, "pg_restore")),
    ]
    giving = asyncio.create_task(_give(dump, manifest.dump_bytes, source))
    is_told = False
    try:
        await _tell(target, replacing.script_before(before).encode())
        await _pass_on(source, target, is_old=before.server_version < _KNOWS_TRANSACTION_TIMEOUT)
        await giving
        await ends[1]
        after = replacing.script_after(manifest.namespace, manifest.counts, before, manifest.moment, adopting=adopting)
        await _tell(target, f"{after}\nCOMMIT;\n".encode())
        is_told = True
    except (BrokenPipeError, ConnectionResetError):
        pass  # one of them has ended, and says why
    except BaseException:
        ends[0].cancel()  # which kills it: nobody has told it to COMMIT
        raise
    finally:
        giving.cancel()
        for process in (source, target):
            assert process.stdin is not None
            process.stdin.close()
        await _silence(source)
        done = await asyncio.gather(*ends, giving, return_exceptions=True)
    if is_told and target.returncode is not None and (target.returncode == _LOST or target.returncode < 0):
        raise Unavailable(
            "The connection was lost while the restore was being committed. It is not known whether it was.",
            # If it was, neither is the schema migrated nor are newer archives adopted yet.
            "Start no coordinator; restore again with --force and the same options: that is right in either case.",
        )
    for result in done[:2]:
        if isinstance(result, BaseException):
            raise result
    if not is_told:
        raise StartError("pg_restore ended before it had read the whole backup. Nothing was changed.")


async def _silence(source: asyncio.subprocess.Process) -> None:
    """Nobody passes on any more what it says: it would wait for that for ever, and so would we for it."""
    assert source.stdout is not None
    if source.returncode is None:
        source.kill()
    await source.stdout.read()


async def _give(dump: IO[bytes], size: int, source: asyncio.subprocess.Process) -> None:
    """Through a pipe: in the backup's file the dump does not begin at the beginning, which pg_restore relies on."""
    assert source.stdin is not None
    try:
        while size and (block := await asyncio.to_thread(_read, dump, min(size, _BLOCK))):
            await _tell(source, block)
            size -= len(block)
    finally:
        source.stdin.close()  # else it waits for more


def _read(dump: IO[bytes], size: int) -> bytes:
    try:
        return dump.read(size)
    except OSError as error:
        raise StartError(f"{dump.name} cannot be read: {error.strerror or error}.", "Nothing was changed.") from error


async def _pass_on(source: asyncio.subprocess.Process, target: asyncio.subprocess.Process, *, is_old: bool) -> None:
    assert source.stdout is not None
    head = b""
    while is_old and _HEAD_ENDS not in head and (block := await source.stdout.read(_BLOCK)):
        head += block
    await _tell(target, _TOO_NEW.sub(b"", head, count=1))
    while block := await source.stdout.read(_BLOCK):
        await _tell(target, block)


async def _tell(target: asyncio.subprocess.Process, text: bytes) -> None:
    assert target.stdin is not None
    target.stdin.write(text)
    await target.stdin.drain()
