"""`codehub ws`: what changes the state of a workspace. Each asks for one wish and, with --wait, sees it come true."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli import naming, output, waiting, ws_text
from codehub.cli.connecting import connected
from codehub.cli.exits import CommandError, Exit
from codehub.cli.options import Json, Timeout, Wait, Workspace, Yes, confirm, confirm_by_name
from codehub.cli.ws import app

if TYPE_CHECKING:
    from codehub import client as api

__all__ = ["app"]

NEEDS_CONFIRMATION = "needs_confirmation"
STATES = ("RUNNING", "STANDBY", "ARCHIVED")
SOURCES = ("as_is", "volume", "archive", "blank")


@app.command()
def start(
    workspace: Workspace,
    *,
    safe: Annotated[
        bool, typer.Option("--safe", help="Read no settings from its home: for when they keep it from starting.")
    ] = False,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Start a workspace; an archived one is restored first.

    In safe mode (--safe) you get a shell with the home in its place, whatever is wrong with its settings; a workspace
    in ERROR tries again that way. The next start is an ordinary one.
    """
    if not safe:
        _ask_for(workspace, "RUNNING", lambda _: None, wait=wait, timeout=timeout, json=json)
        return
    with connected() as client:
        found = naming.workspace(client, workspace)
        home = found.conditions.get("storage.volume_ready")
        if found.phase == "ERROR" and not (home and home.status):
            raise CommandError(*waiting.error_of(found), exit_code=Exit.CONFLICT)

        def act() -> "api.Workspace":
            if found.phase == "ERROR":
                return client.recover_workspace(found.id, desired="RUNNING", safe_mode=True)
            return client.set_state(found.id, "RUNNING", safe_mode=True)

        wish = waiting.recovered(found) if found.phase == "ERROR" else waiting.reached("RUNNING")
        asked = waiting.ask(client, found, act, patient=wait, seconds=timeout)
        _finish(client, asked, wish, wait=wait, timeout=timeout, json=json)


@app.command()
def stop(workspace: Workspace, wait: Wait = False, timeout: Timeout = None, json: Json = False) -> None:
    """Stop a workspace; its home stays as it is."""

    def rests(one: "api.Workspace") -> str | None:
        return "does not run: it is archived." if one.phase == one.desired_state == "ARCHIVED" else None

    _ask_for(workspace, "STANDBY", rests, wait=wait, timeout=timeout, json=json)


@app.command()
def archive(workspace: Workspace, wait: Wait = False, timeout: Timeout = None, json: Json = False) -> None:
    """Move a workspace's home to the archive store.

    One that runs is stopped first.
    """
    _ask_for(workspace, "ARCHIVED", lambda _: None, wait=wait, timeout=timeout, json=json)


@app.command()
def restore(workspace: Workspace, wait: Wait = False, timeout: Timeout = None, json: Json = False) -> None:
    """Bring the home of an archived workspace back.

    It is not started.
    """

    def there(one: "api.Workspace") -> str | None:
        return "is running: its home is there." if one.phase == one.desired_state == "RUNNING" else None

    _ask_for(workspace, "STANDBY", there, wait=wait, timeout=timeout, json=json)


@app.command()
def recover(
    workspace: Workspace,
    *,
    source: Annotated[
        str, typer.Option("--from", help=f"Where its home comes from: {', '.join(SOURCES)}.", show_default=True)
    ] = "as_is",
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also when a whole volume is there, which is lost; or use one that nothing proves whole."
        ),
    ] = False,
    desired: Annotated[
        str | None, typer.Option("--then", help=f"What it is to be afterwards: {', '.join(STATES)}.")
    ] = None,
    yes: Yes = False,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Let a workspace in ERROR try again."""
    if desired is not None and desired not in STATES:
        raise CommandError(f"--then: {desired!r} is none of {', '.join(STATES)}.", exit_code=Exit.USAGE)
    if source not in SOURCES:
        raise CommandError(f"--from: {source!r} is none of {', '.join(SOURCES)}.", exit_code=Exit.USAGE)
    with connected() as client:
        found = naming.workspace(client, workspace)
        if source == "blank" or force:
            name = output.clean(found.name)
            what = "an empty home" if source == "blank" else f"its {source}" if source != "as_is" else "what is there"
            confirm(f"{name} will begin with {what}; what it held otherwise is given up. Go on?", yes=yes)
        asked = client.recover_workspace(found.id, source, forced=force, desired=desired)
        _finish(client, asked, waiting.recovered(found), wait=wait, timeout=timeout, json=json)


@app.command()
def delete(
    workspace: Workspace,
    *,
    purge: Annotated[bool, typer.Option("--purge", help="At once and for good, archives too.")] = False,
    yes: Yes = False,
    wait: Wait = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Delete a workspace. It can be undeleted for a while, unless it is purged."""
    with connected() as client:
        found = naming.workspace(client, workspace, deleted=purge)
        if purge:
            confirm_by_name(output.clean(ws_text.loss_by_purge(found)), found.name, yes=yes)
        else:
            confirm(f"{output.clean(ws_text.loss_of(found))} Delete it?", yes=yes)
        asked = ask_to_delete(client, found, purge=purge, wait=wait, timeout=timeout)
        _finish(client, asked, waiting.deleted(purged=purge), wait=wait, timeout=timeout, json=json)


@app.command()
def undelete(workspace: Workspace, wait: Wait = False, timeout: Timeout = None, json: Json = False) -> None:
    """Bring a deleted workspace back; it is archived then."""
    with connected() as client:
        found = naming.workspace(client, workspace, deleted=True)
        asked = waiting.ask(client, found, lambda: client.undelete_workspace(found.id), patient=wait, seconds=timeout)
        _finish(client, asked, waiting.reached("ARCHIVED"), wait=wait, timeout=timeout, json=json)


@app.command(name="keep-awake")
def keep_awake(
    workspace: Workspace,
    hours: Annotated[float, typer.Argument(metavar="HOURS", min=0, max=24, help="For how long; 0 ends it.")] = 8.0,
    json: Json = False,
) -> None:
    """Keep a workspace from being stopped when idle.

    For at most 24 hours from now.
    """
    with connected() as client:
        found = naming.workspace(client, workspace)
        kept = client.keep_awake(found.id, hours)
    if json:
        output.print_json(kept)
    elif kept.keep_awake_until is None or hours == 0:
        output.say(f"{output.clean(kept.name)} is not kept awake any more.")
    else:
        output.say(f"{output.clean(kept.name)} is kept awake until {output.when(kept.keep_awake_until)}.")


def ask_to_delete(
    client: "api.Client", found: "api.Workspace", *, purge: bool, wait: bool, timeout: float | None
) -> "api.Workspace":
    """What was agreed to is the loss that was known: when more would be lost by now, there is another question."""
    from codehub.client import ApiError

    def asking(*, agreed: bool) -> "api.Workspace":
        def act() -> "api.Workspace":
            return client.delete_workspace(found.id, purge=purge, confirm=agreed)

        return waiting.ask(client, found, act, patient=wait, seconds=timeout)

    known = found.phase == "ERROR" and not purge  # then the loss was named, and agreed to
    try:
        return asking(agreed=known)
    except ApiError as error:
        if known or error.code != NEEDS_CONFIRMATION or not sys.stdin.isatty():
            raise
        confirm(f"{output.clean(str(error))} Delete it?", yes=False)
    return asking(agreed=True)


def _ask_for(
    text: str,
    desired: str,
    already: "Callable[[api.Workspace], str | None]",
    *,
    wait: bool,
    timeout: float | None,
    json: bool,
) -> None:
    """The wish, unless it is there already, or `already` says that there is nothing to do."""
    with connected() as client:
        found = naming.workspace(client, text)
        if found.phase == "ERROR":
            raise CommandError(*waiting.error_of(found), exit_code=Exit.CONFLICT)
        words = already(found)
        if words is not None:
            _print(found, words, json=json)
            return
        if found.desired_state != desired:
            found = waiting.ask(
                client, found, lambda: client.set_state(found.id, desired), patient=wait, seconds=timeout
            )
        _finish(client, found, waiting.reached(desired), wait=wait, timeout=timeout, json=json)


def _finish(
    client: "api.Client", asked: "api.Workspace", wish: waiting.Wish, *, wait: bool, timeout: float | None, json: bool
) -> None:
    if wait:
        asked = waiting.wait(client, asked, wish, timeout)
    done = wish.came_true(asked)
    _print(asked, f"{wish.words}." if done else f"is {ws_text.state_of(asked)}; the work goes on.", json=json)


def _print(workspace: "api.Workspace", words: str, *, json: bool) -> None:
    if json:
        output.print_json(workspace)
    else:
        typer.echo(output.clean(f"{workspace.name} {words}"))
