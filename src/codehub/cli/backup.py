"""`codehub backup` and `codehub restore`: the database in one file, and back again.

Both work on this machine's settings, as `codehub up` would use them: on the embedded database, or on DATABASE_URL's.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli import options, output
from codehub.cli.exits import CommandError, Exit
from codehub.model.sentences import number_of

if TYPE_CHECKING:
    from codehub.backup.making import Made
    from codehub.cli.restored import Restored
    from codehub.config import Settings

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]


def backup(file: File, json: options.Json = False) -> None:
    """Write a backup of the database to a new file.

    Also while CodeHub runs. Archives are not in it: back up the archive store by itself, after the database.
    """
    settings = _settings()
    made = asyncio.run(_back_up(settings, file.expanduser().absolute()))
    manifest = made.manifest
    absent = [one.key for one in manifest.archives if one.in_store is False]
    if json:
        facts = {"file": str(file), "made_at": manifest.made_at, "schema_version": manifest.schema_version}
        numbers = {"bytes": manifest.dump_bytes, "counts": manifest.counts, "archives": len(manifest.archives)}
        output.print_json({**facts, **numbers, "archives_missing": absent, "store_trouble": made.store_trouble})
        return
    counts = manifest.counts
    typer.echo(
        f"{file}: {number_of(counts.get('users', 0), 'user')}, "
        f"{number_of(counts.get('workspaces', 0), 'workspace that needs', 'workspaces that need')} "
        f"{number_of(len(manifest.archives), 'archive')}, {output.size(manifest.dump_bytes)}, of {manifest.made_at}."
    )
    if made.store_trouble:
        output.say(f"WARNING: the archive store could not be asked for them: {made.store_trouble}")
    for key in absent:
        output.say(f"WARNING: this archive is not in the store: {key}")


def restore(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The backup; none to go on with a restore that was not finished."),
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Lose what is in the database now.")] = False,
    adopt_newer: Annotated[
        bool | None,
        typer.Option(
            "--adopt-newer/--no-adopt-newer",
            help="Let each workspace have its newest archive that is whole, if that is newer than its own.",
        ),
    ] = None,
    yes: options.Yes = False,
    json: options.Json = False,
) -> None:
    """Restore a backup of the database, and say how it stands to the world.

    Into an empty database, or over what is there with --force; never while a coordinator leads. Afterwards nobody is
    logged in. Newer archives are adopted unless --no-adopt-newer is given. While that is not finished, because the
    command was ended, or the store or an archive could not be read, no home concerned is restored, and the exit code is
    1. Without FILE it goes on from there, or goes on without those archives (--no-adopt-newer).
    """
    from codehub.backup.file import check
    from codehub.cli import restored

    settings = _settings()
    path = None if file is None else file.expanduser().absolute()
    if path is not None:
        check(path)
        if force:
            options.confirm("What is in the database now is lost. Go on?", yes=yes)
    elif adopt_newer is None or force:
        raise CommandError(
            "No backup is named.",
            "Name one, or go on with a restore that was not finished: --adopt-newer or --no-adopt-newer.",
            exit_code=Exit.USAGE,
        )
    adopts = adopt_newer is not False
    done: Restored = asyncio.run(restored.restore(settings, path, force=force, adopt_newer=adopts, say=output.say))
    if json:
        output.print_json(done.as_dict())
    else:
        for line in done.lines():
            typer.echo(line)
    if done.due is not None:
        raise typer.Exit(Exit.FAILED)


async def _back_up(settings: "Settings", file: Path) -> "Made":
    from codehub.backup.database import data_dir_of, reachable
    from codehub.backup.file import check_free
    from codehub.backup.making import make
    from codehub.drivers.load import open_store
    from codehub.drivers.places import known_installation

    check_free(file)
    data_dir = data_dir_of(settings)
    store_url = settings.store.url or (data_dir / "archives").as_uri()
    installation = settings.docker.installation or known_installation(data_dir)
    async with reachable(settings, output.say) as url:
        archives = open_store(settings.store, store_url)
        return await make(file, url, archives, archive_store=store_url, installation=installation)


def _settings() -> "Settings":
    from codehub import logs
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    return settings
