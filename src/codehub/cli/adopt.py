"""`codehub adopt`: an archive that no workspace names, such as one that is newer than a restored database, becomes a
workspace. It works on this machine's settings, beside a running CodeHub too.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli import options, output
from codehub.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.model.workspace import ArchiveKey


def adopt(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The archive: WORKSPACE_ID/OP_ID/home.tar.zst.")],
    *,
    owner: Annotated[str, typer.Option(metavar="USERNAME", help="Who gets it.")],
    name: Annotated[str | None, typer.Option(help="The new workspace's name.")] = None,
    json: options.Json = False,
) -> None:
    """Make a workspace of an archive that no workspace names.

    The archive is copied, and stays. `codehub restore` shows such archives, and so does `codehub gc --dry-run`.
    """
    from codehub import logs
    from codehub.config import Settings
    from codehub.model.names import parse_archive_key
    from codehub.model.workspace import ArchiveKey

    settings = Settings.load()
    logs.configure(settings.log)
    found = parse_archive_key(key)
    title = name or f"recovered {str(found.workspace_id)[:8]}"
    made = asyncio.run(_adopt(settings, ArchiveKey(key), owner, title))
    if json:
        output.print_json({"id": made, "name": title, "owner": owner, "archive": key})
    else:
        typer.echo(f"{title} ({made}) is {owner}'s; it is ready once a coordinator has copied the archive.")


async def _adopt(settings: "Settings", key: "ArchiveKey", owner: str, name: str) -> str:
    from codehub.backup.database import data_dir_of, reachable
    from codehub.cli.api import offered
    from codehub.db.pool import Role, open_pool
    from codehub.drivers.load import open_store
    from codehub.model.observation import ArchiveSeen
    from codehub.model.workspace import InstanceBackend
    from codehub.services.workspaces.adopting import adopt as adopt_archive
    from codehub.services.workspaces.terms import Terms

    store = open_store(settings.store, settings.store.url or (data_dir_of(settings) / "archives").as_uri())
    seen = await store.look(key)
    if seen is not ArchiveSeen.LISTED:
        raise CommandError(
            f"The archive {key} cannot be had: {seen.name.lower()}.", "See: codehub doctor", exit_code=Exit.NOT_FOUND
        )
    images = offered(settings)
    terms = Terms.of(settings, lambda: images, InstanceBackend(settings.backends.first))
    async with reachable(settings, output.say) as url, open_pool(url, Role.API, max_size=1) as pool:
        made = await adopt_archive(pool, terms, key, owner, name)
    return str(made.id)
