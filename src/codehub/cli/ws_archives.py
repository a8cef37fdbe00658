"""`codehub ws`: a workspace's archives as people have them: which there are, and one as a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli import naming, output, waiting
from codehub.cli.connecting import connected
from codehub.cli.exits import CommandError, Exit
from codehub.cli.options import Json, Timeout, Workspace, Yes, confirm
from codehub.cli.ws_state import app

if TYPE_CHECKING:
    from codehub import client as api

__all__ = ["app"]

_SUFFIX = ".tar.zst"
_ON_DISK = ("STANDBY", "RUNNING")


@app.command()
def archives(workspace: Workspace, json: Json = False) -> None:
    """Show the archives that the store has of a workspace, newest first."""
    with connected() as client:
        found = client.archives(naming.workspace(client, workspace).id)
    if json:
        output.print_json(list(found))
    elif not found:
        output.say("There are none. Make one: codehub ws archive")
    else:
        rows = [
            [str(each.op_id), output.when(each.at), output.size(each.bytes), "current" if each.is_current else ""]
            for each in found
        ]
        output.print_table(["ID", "ARCHIVED", "SIZE", ""], rows)


@app.command()
def download(
    workspace: Workspace,
    *,
    to: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to. [default: NAME.tar.zst]")
    ] = None,
    archive: Annotated[
        str | None, typer.Option("--archive", metavar="ID", help="This one of `codehub ws archives`.")
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="The last archive as it is, although the home on disk is newer.")
    ] = False,
    yes: Yes = False,
    timeout: Timeout = None,
) -> None:
    """Download a workspace's home as a file (tar, compressed with zstd).

    A home on disk is archived first; a workspace in the trash has its last archive. Unpack it with: tar --zstd -xf FILE
    """
    with connected() as client:
        found = naming.workspace(client, workspace)
        place = to or Path(f"{_file_name(found.name)}{_SUFFIX}")
        if place.exists():
            raise CommandError(f"{place} is there already.", "Choose another file with -o.", exit_code=Exit.USAGE)
        if archive is None and not last and found.phase in _ON_DISK and found.deleted_at is None:
            _archive(client, found, yes=yes, timeout=timeout)
        size = _fetch(client, found, place, archive)
    typer.echo(f"{place} ({output.size(size)})")


def _archive(client: "api.Client", found: "api.Workspace", *, yes: bool, timeout: float | None) -> None:
    name = output.clean(found.name)
    if found.phase == "RUNNING":
        raise CommandError(
            f"{name} is running: only a home at rest can be archived.",
            f"Stop it first (codehub ws stop {found.id}), or take its last archive with --last.",
            exit_code=Exit.CONFLICT,
        )
    confirm(f"{name} has its home on disk. It is archived first, and is archived afterwards. Go on?", yes=yes)
    asked = waiting.ask(client, found, lambda: client.set_state(found.id, "ARCHIVED"), patient=True, seconds=timeout)
    waiting.wait(client, asked, waiting.reached("ARCHIVED"), timeout)


def _fetch(client: "api.Client", found: "api.Workspace", place: Path, archive: str | None) -> int:
    """Complete or not at all; its size."""
    draft = place.with_name(f"{place.name}.part")
    try:
        with draft.open("xb") as file:
            size = max(client.download(found.id, file, op_id=archive), default=0)
        draft.rename(place)
    except FileExistsError:
        raise CommandError(
            f"{draft} is there: another download?", "Remove it, or choose another file with -o."
        ) from None
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise CommandError(f"{draft} cannot be written: {error.strerror}.") from error
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return size


def _file_name(name: str) -> str:
    kept = "".join("-" if letter in "/\\\0" else letter for letter in output.clean(name)).strip(". ")
    return kept or "home"
