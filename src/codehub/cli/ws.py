"""`codehub ws`: making, looking at and naming workspaces; what changes their state is in ws_state.py."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli import naming, output, waiting, ws_text
from codehub.cli.connecting import connected
from codehub.cli.exits import CommandError, Exit
from codehub.cli.options import Json, Timeout, Wait, Workspace, seconds_of

if TYPE_CHECKING:
    from codehub import client as api

app = typer.Typer(help="Workspaces.", no_args_is_help=True)

PHASES = ("PENDING", "ARCHIVED", "STANDBY", "RUNNING", "ERROR", "DELETING", "DELETED")
STATES = {"running": "RUNNING", "stopped": "STANDBY", "archived": "ARCHIVED"}


@app.command(name="list")
def list_command(
    phase: Annotated[str | None, typer.Option(help=f"Only this: {', '.join(PHASES)}.")] = None,
    search: Annotated[str | None, typer.Option(help="Only with this in the name or the description.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="What is in the trash.")] = False,
    everybody: Annotated[bool, typer.Option("--all", help="Everybody's; for administrators.")] = False,
    json: Json = False,
) -> None:
    """Show your workspaces, newest first."""
    if phase is not None and phase.upper() not in PHASES:
        raise CommandError(
            f"There is no phase {phase!r}.", f"Choose one of: {', '.join(PHASES)}.", exit_code=Exit.USAGE
        )
    with connected() as client:
        found = list(
            client.workspaces(phase=phase.upper() if phase else None, q=search, deleted=deleted, everybody=everybody)
        )
    if json:
        output.print_json(found)
    elif not found:
        output.say(
            "The trash is empty."
            if deleted
            else "There is none like that."
            if phase or search or everybody
            else "There are no workspaces yet. Make one: codehub ws create NAME"
        )
    else:
        output.print_table(*ws_text.table(found, owners=everybody, deleted=deleted))


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    *,
    image: Annotated[
        str | None, typer.Option(help="The kind of IDE; see `codehub images`. [default: the server's]")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="Where it runs. [default: the server's]")] = None,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    memo: Annotated[str | None, typer.Option(help="Notes.")] = None,
    state: Annotated[str, typer.Option(help=f"What it is to be: {', '.join(STATES)}.")] = "running",
    stop_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop when unused this long: 30m, 2h, never.")
    ] = None,
    archive_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Archive when stopped this long: 1d, never.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="WORKSPACE", help="Copy the archive of this one.")
    ] = None,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Make a workspace and start it."""
    desired = _state(state)
    standby, archive = seconds_of(stop_after, "--stop-after"), seconds_of(archive_after, "--archive-after")
    with connected() as client:
        made = client.create_workspace(
            name,
            image_ref=image,
            backend=backend,
            description=description,
            memo=memo,
            desired_state=desired,
            standby_ttl_seconds=standby,
            archive_ttl_seconds=archive,
            from_archive=str(naming.workspace(client, source).id) if source else None,
        )
        if not json:
            output.say(f"{output.clean(made.name)} was made; its id is {made.id}.")
        if wait:
            made = waiting.wait(client, made, waiting.reached(desired), timeout)
            if not json:
                output.say(f"{output.clean(made.name)} {waiting.reached(desired).words}.")
        if json:
            output.print_json(made)
        else:
            typer.echo(output.clean(f"{client.url}{made.url}"))


@app.command()
def show(
    workspace: Workspace,
    *,
    admin: Annotated[
        bool, typer.Option("--admin", help="Also where things are: volume, instance, archive, operation.")
    ] = False,
    json: Json = False,
) -> None:
    """Show everything about one workspace."""
    with connected() as client:
        found = naming.workspace(client, workspace)
        if json:
            output.print_json(found)
        else:
            places = ws_text.places(found) if admin else []
            output.print_facts([*ws_text.facts(found, client.url), *_sizes(client, found), *places])


def _sizes(client: "api.Client", found: "api.Workspace") -> list[tuple[str, str]]:
    """Only a part of the picture: it is left out while it cannot be had."""
    from codehub.client import ApiError

    try:
        return ws_text.size_facts(client.usage(found.id))
    except ApiError:
        return []


@app.command()
def usage(workspace: Workspace, json: Json = False) -> None:
    """Show the processors, memory and ports that a running workspace uses, and how large home and archive are."""
    with connected() as client:
        found = naming.workspace(client, workspace)
        used = client.usage(found.id)
    if json:
        output.print_json(used)
    elif used.now is None:
        running = "has not been measured yet" if found.phase == "RUNNING" else "is not running"
        output.say(f"{output.clean(found.name)} {running}.")
        output.print_facts(ws_text.size_facts(used))
    else:
        output.print_facts([*ws_text.usage_facts(used, client.url), *ws_text.size_facts(used)])


@app.command()
def rename(
    workspace: Workspace, name: Annotated[str, typer.Argument(metavar="NAME", help="Its new name.")], json: Json = False
) -> None:
    """Give a workspace another name; its id stays."""
    with connected() as client:
        found = naming.workspace(client, workspace)
        renamed = client.update_workspace(found.id, name=name)
    if json:
        output.print_json(renamed)
    else:
        output.say(f"{output.clean(found.name)} is called {output.clean(renamed.name)} now.")


@app.command(name="open")
def open_command(
    workspace: Workspace,
    print_only: Annotated[bool, typer.Option("--print", help="Print the address only.")] = False,
    json: Json = False,
) -> None:
    """Open a workspace in the browser.

    One that is stopped or archived wakes up by the visit.
    """
    with connected() as client:
        found = naming.workspace(client, workspace)
        url = f"{client.url}{found.url}"
    if found.deleted_at is not None:
        raise CommandError(
            f"{output.clean(found.name)} is deleted.",
            f"Bring it back with: codehub ws undelete {found.id}",
            exit_code=Exit.CONFLICT,
        )
    if json:
        output.print_json({"id": str(found.id), "url": url})
        return
    typer.echo(output.clean(url))
    if not print_only and sys.stdout.isatty():
        typer.launch(url)


@app.command()
def logs(
    workspace: Workspace,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=5000, help="How many, from the end.")] = 200,
    json: Json = False,
) -> None:
    """Show what a running workspace's IDE has written."""
    with connected() as client:
        found = naming.workspace(client, workspace)
        written = client.logs(found.id, lines=lines)
    if json:
        output.print_json({"id": str(found.id), **written.model_dump()})
        return
    if not written.text:
        output.say("It has written nothing.")
    if written.cut:
        output.say("(earlier lines are left out)")
    shown = written.text.splitlines()
    for line in map(output.clean_log, shown) if sys.stdout.isatty() else shown:
        typer.echo(line)


@app.command()
def history(
    workspace: Workspace,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 50,
    json: Json = False,
) -> None:
    """Show what happened to a workspace, newest first."""
    with connected() as client:
        found = naming.workspace(client, workspace)
        entries = list(client.history(found.id, limit=limit))
    if json:
        output.print_json(entries)
    elif not entries:
        output.say("Nothing has happened to it yet.")
    else:
        output.print_table(*ws_text.history_rows(entries))


def _state(given: str) -> str:
    desired = STATES.get(given.lower())
    if desired is None:
        raise CommandError(f"--state: {given!r} is none of {', '.join(STATES)}.", exit_code=Exit.USAGE)
    return desired
