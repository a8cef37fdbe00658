"""`codehub gc`: collect archives that nobody needs any more, or see what a collection would remove."""

import time
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from codehub.cli import options, output
from codehub.cli.connecting import connected
from codehub.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from codehub.client import Client, GcRun

LOOK_SECONDS = 0.5
Words = tuple[tuple[str, str], ...]
_ORPHANS: Words = (
    ("found", "workspaces of which the backends have something"),
    ("known", "of them in the database"),
    ("orphans", "of no workspace"),
    ("deleted", "removed"),
    ("spared", "spared: the database knows them now"),
    ("failed", "could not be removed"),
)
_WORDS: Words = (
    ("found", "archives in the store"),
    ("known", "workspaces in the database"),
    ("orphans", "archives that nobody needs"),
    ("due_count", "of them whose time has come"),
    ("foreign_count", "things in the store that are none of ours"),
    ("unremembered_count", "archives that the database does not remember, kept"),
    ("missing_count", "workspaces whose archive is missing"),
    ("deleted", "removed"),
    ("spared", "spared: they are needed again"),
    ("failed", "could not be removed"),
)


def gc(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    override: Annotated[
        bool, typer.Option("--override", help="Remove although an implausible share looks orphaned.")
    ] = False,
    unknown_too: Annotated[
        bool, typer.Option("--unknown-too", help="Remove archives of workspaces that the database does not know, too.")
    ] = False,
    orphans: Annotated[
        bool,
        typer.Option("--orphans", help="Remove containers and volumes of no workspace, instead of archives."),
    ] = False,
    discard: Annotated[
        list[str] | None,
        typer.Option(
            "--discard", metavar="KEY", help="An archive that the database does not remember: nobody wants it."
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Give up waiting after this long.")] = 300,
    yes: options.Yes = False,
    json: options.Json = False,
) -> None:
    """Collect archives that nobody needs any more.

    For administrators. It happens by itself every few hours; a deleted workspace's archive stays until it can no longer
    be undeleted. An archive that the database does not remember (it was restored to a moment before the archive was
    made) stays until it is discarded by name; it is removed after the ordinary delay then.

    Containers and volumes of no workspace are never removed by themselves: a restored backup may have forgotten whose
    home it is. See them with `--orphans --dry-run`.
    """
    if orphans and (unknown_too or discard):
        raise CommandError("--orphans is not about archives.", "Leave the other option out.")
    if discard and dry_run:
        raise CommandError("--discard is for good, and --dry-run changes nothing.", "Leave one of them out.")
    with connected() as client:
        if (override or unknown_too or discard or orphans) and not dry_run:
            options.confirm("What is removed this way cannot be brought back. See --dry-run first. Go on?", yes=yes)
        if discard:
            client.discard_archives(discard)
        asked = client.request_gc(dry_run=dry_run, override=override, unknown_too=unknown_too, orphans=orphans)
        done = _finished(client, asked, timeout)
    report = done.report or {}
    if json:
        output.print_json(done)
    if report.get("error"):
        raise CommandError(str(report["error"]))
    if not json:
        _print(report, _ORPHANS if orphans else _WORDS, dry_run=dry_run)
    if report.get("stopped") and not dry_run:
        raise CommandError(f"Nothing was removed: {report['stopped']}", exit_code=Exit.CONFLICT)


def _finished(client: "Client", identity: UUID, seconds: float) -> "GcRun":
    until = time.monotonic() + seconds
    while True:
        run = next((one for one in client.gc_runs() if one.id == identity), None)
        if run is not None and run.finished_at is not None:
            return run
        if time.monotonic() > until:
            raise CommandError(
                f"The collection has not finished within {seconds:g} s.", "Does a coordinator run? codehub doctor"
            )
        time.sleep(LOOK_SECONDS)


def _print(report: dict[str, object], words_of: Words, *, dry_run: bool) -> None:
    rows = [
        (output.clean(str(report.get(name, 0))), words) for name, words in words_of if not (dry_run and name in _DONE)
    ]
    width = max(len(number) for number, _ in rows)
    for number, words in rows:
        typer.echo(f"{number:>{width}}  {words}")
    named = (
        ("due", "would be removed" if dry_run else "was due"),
        ("unremembered", "is not remembered"),
        ("missing", "is missing"),
    )
    for name, words in named:
        keys = report.get(name)
        for key in keys if isinstance(keys, list) else []:
            typer.echo(f"{words}: {output.clean(str(key))}")
    if dry_run and report.get("stopped"):
        output.say(f"It would be stopped: {report['stopped']}")


_DONE = ("deleted", "spared", "failed")
