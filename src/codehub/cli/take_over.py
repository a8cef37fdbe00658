"""`codehub take-over`: an administrator's word that the archive store is this installation's.

It works on this machine's settings, beside a running CodeHub too.
"""

import asyncio
from typing import TYPE_CHECKING

import typer

from codehub.cli import options, output

if TYPE_CHECKING:
    from uuid import UUID

    from codehub.config import Settings
    from codehub.drivers.archives import ArchiveStore


def take_over(*, yes: options.Yes = False, json: options.Json = False) -> None:
    """Let this installation delete from its archive store, and no other one.

    Two installations on one store (a cloned machine, a backup restored on a second one) would each remove archives that
    are homes of the other. So the owner is marked in the store, and another one deletes nothing. Stop the other one
    first, or give it a store of its own.
    """
    from codehub import logs
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    was = asyncio.run(_store(settings).marker())
    if was is not None:
        output.say(f"The archive store was marked by {was.holder} at {was.written_at:%F %H:%M} UTC.")
    options.confirm("Every other installation that uses this archive store has ended. Go on?", yes=yes)
    asyncio.run(_take(settings, None if was is None else was.token))
    if json:
        holder, at = (None, None) if was is None else (was.holder, was.written_at.isoformat())
        output.print_json({"marked_by": holder, "marked_at": at})
    else:
        typer.echo("The archive store is this installation's. What is not needed is deleted again.")


async def _take(settings: "Settings", in_store: "UUID | None") -> None:
    import os
    import socket
    from datetime import UTC, datetime
    from uuid import uuid4

    from codehub.backup.database import reachable
    from codehub.db import store_owner
    from codehub.db.connecting import session
    from codehub.db.lost_commits import read_count
    from codehub.model.store_owner import StoreMarker

    async with reachable(settings, output.say) as url, session(url) as conn:
        token = uuid4()
        claim = await store_owner.take_over(conn, token, in_store)
        commits = (await read_count(conn)).commits
    holder = f"{socket.gethostname()}:{os.getpid()}"
    now = datetime.now(UTC)
    marker = StoreMarker(token=token, database=claim.database, holder=holder, commits=commits, written_at=now)
    await _store(settings).leave_marker(marker)


def _store(settings: "Settings") -> "ArchiveStore":
    from codehub.backup.database import data_dir_of
    from codehub.drivers.load import open_store

    return open_store(settings.store, settings.store.url or (data_dir_of(settings) / "archives").as_uri())
