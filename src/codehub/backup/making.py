"""Making a backup: also while CodeHub runs, of one moment of the database."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from codehub import __version__
from codehub.backup import file, programs, standing
from codehub.backup.file import Manifest
from codehub.db import backups
from codehub.db.backups import Snapshot
from codehub.drivers.base import Archives
from codehub.errors import StartError


@dataclass(frozen=True, slots=True)
class Made:
    manifest: Manifest
    store_trouble: str  # why the archive store could not be asked; empty if it was


async def make(
    path: Path, database_url: str, archives: Archives, *, archive_store: str, installation: str | None
) -> Made:
    """Write the backup to a new file. StartError, and no file, when that is not possible."""
    file.check_free(path)
    with file.draft_beside(path) as folder:
        dump = folder / file.DUMP
        async with backups.snapshot(database_url) as snapshot:
            await _dump(database_url, snapshot, dump)
        # After the snapshot: what a row refers to was in the store before the row said so.
        needs, trouble = await standing.needs(snapshot.workspaces, archives)
        sha256, size = await asyncio.to_thread(file.checksum, dump)
        manifest = Manifest(
            format=file.FORMAT,
            codehub=__version__,
            schema_version=snapshot.schema_version,
            schema_floor=snapshot.schema_floor,
            namespace=snapshot.namespace,
            made_at=snapshot.at.isoformat(),
            epoch=snapshot.epoch,
            server_version=snapshot.server_version,
            installation=installation,
            archive_store=archive_store,
            counts=snapshot.counts,
            archives=needs,
            dump_sha256=sha256,
            dump_bytes=size,
        )
        await asyncio.to_thread(file.write, path, manifest, dump)
    return Made(manifest, trouble)


async def _dump(database_url: str, snapshot: Snapshot, target: Path) -> None:
    found = await asyncio.to_thread(programs.programs_for, snapshot.server_version)
    connection, environment = programs.let_in(database_url)
    quoted = snapshot.namespace.replace('"', '""')
    command = found.command(
        "pg_dump",
        "--format=custom",
        "--no-owner",
        "--no-password",
        "--lock-wait-timeout=30s",
        f'--schema="{quoted}"',
        f"--snapshot={snapshot.name}",
        f"--file={target}",
        f"--dbname={connection}",
    )
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise StartError(f"pg_dump cannot be started: {error.strerror}.") from error
    await programs.finished(process, "pg_dump")
