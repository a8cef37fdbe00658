"""`codehub drill`: practising what one hopes never to need. The exit code is 1 when a drill shows a fault."""

import asyncio
import shutil
from typing import TYPE_CHECKING, Annotated

import typer

from codehub.cli import options, output
from codehub.cli.connecting import current_login
from codehub.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from codehub.config import Settings
    from codehub.drills import chaos as chaos_drill
    from codehub.drills import restoring, travelling
    from codehub.drills.parts import Part

app = typer.Typer(help="Practise restoring archives, losing parts, and going back in time.", no_args_is_help=True)


@app.command(name="restore")
def restore(
    *,
    sample: Annotated[int, typer.Option(min=1, max=10_000, help="How many archives.")] = 5,
    backend: Annotated[
        str | None, typer.Option(help="Where to restore them; else where new workspaces are made.")
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="First remove what interrupted drills left. Not while another one runs.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Restore archives, chosen at random, into scratch volumes, and remove those again.

    Nothing of any workspace is touched; room for the largest of the homes is needed. Run it where workspaces run, also
    while CodeHub does.
    """
    settings = _settings()
    report = asyncio.run(_restore(settings, sample, backend, clean=clean))
    if json:
        trials = [
            {"key": one.key, "seconds": one.seconds, "bytes": one.bytes, "files": one.files, "trouble": one.trouble}
            for one in report.trials
        ]
        output.print_json({"archives": report.archives, "failed": report.failed, **report.figures(), "trials": trials})
    else:
        _print_restores(report)
    if report.failed:
        raise typer.Exit(Exit.FAILED)


@app.command(name="chaos")
def chaos(
    *,
    sure: Annotated[
        bool, typer.Option("--yes-this-is-a-test-installation", help="Parts of it are killed: say so in full.")
    ] = False,
    kill: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COMMAND", help="One more part, and the command that kills it; may be repeated."),
    ] = None,
    settle: Annotated[float, typer.Option(min=0.5, metavar="SECONDS", help="Of calm before the next part.")] = 3.0,
    json: options.Json = False,
) -> None:
    """Kill the parts of a test installation in turn, and tell what users would have noticed.

    Log in first (`codehub login`). Killed are the embedded servers of the data directory, the processes of this machine
    that use DATABASE_URL (the leading coordinator, an API, a proxy), and what --kill names.
    """
    if not sure:
        raise CommandError(
            "This kills servers and processes that people may be using.",
            "On a test installation give --yes-this-is-a-test-installation.",
            exit_code=Exit.USAGE,
        )
    settings = _settings()
    parts = _parts(settings, kill or [])
    if not parts:
        raise CommandError("Nothing of this installation was found here to kill.", "Name it: --kill NAME=COMMAND")
    report = asyncio.run(_chaos(parts, settle))
    if json:
        output.print_json(report.as_dict())
    else:
        _print_deaths(report)
    if not report.is_well:
        raise typer.Exit(Exit.FAILED)


@app.command(name="time-travel")
def time_travel(
    *,
    sure: Annotated[
        bool,
        typer.Option("--yes-this-is-a-test-installation", help="Its database is taken back in time: say so in full."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Back up a test installation, work, restore the backup, collect archives at once, and tell what came back.

    Stop CodeHub first: the drill starts and stops `codehub up` on the data directory, as whoever is logged in (`codehub
    login`, as an administrator). Its workspaces stay there to be looked at; everybody else is logged out.
    """
    if not sure:
        raise CommandError(
            "This restores the database of an installation to an earlier moment.",
            "On a test installation give --yes-this-is-a-test-installation.",
            exit_code=Exit.USAGE,
        )
    from codehub.backup.database import data_dir_of
    from codehub.cli.time_travel import Embedded
    from codehub.drills import travelling

    url, token = current_login()
    settings = _settings()
    with Embedded(data_dir_of(settings), url, token) as installation:
        report = travelling.Drill(installation, output.say).run()
    if json:
        output.print_json(report.as_dict())
    else:
        _print_travels(report)
    if not report.is_well:
        raise typer.Exit(Exit.FAILED)


def _print_travels(report: "travelling.Report") -> None:
    rows = [
        (
            one.name,
            one.written[:16],
            one.found[:16] or "–",
            ", ".join(one.ways) or "nothing",
            one.trouble or ("ok" if one.came_back else "NOT THE SAME"),
        )
        for one in report.cases
    ]
    output.print_table(("workspace", "sha256 written", "sha256 that came back", "its owner did", "result"), rows)
    came = sum(one.came_back for one in report.cases)
    typer.echo(f"{came} of {len(rows)} homes came back as they were last written; GC removed {report.collected}.")


async def _restore(settings: "Settings", sample: int, backend: str | None, *, clean: bool) -> "restoring.Report":
    from codehub.backup.database import data_dir_of
    from codehub.drills import restoring
    from codehub.drivers.load import open_drivers
    from codehub.model.workspace import InstanceBackend

    data_dir = data_dir_of(settings)
    async with open_drivers(settings, data_dir) as drivers:
        offered = {str(name): one for name, one in drivers.backends.items()}
        chosen = backend or str(drivers.default_backend)
        if chosen not in offered:
            raise CommandError(
                f"--backend: {chosen!r} is not used here.",
                f"Choose one of: {', '.join(offered)}.",
                exit_code=Exit.USAGE,
            )
        there = drivers.backends[InstanceBackend(chosen)]
        if clean:
            output.say(f"{await restoring.clear_leftovers(there)} leftovers of earlier drills were removed.")
        # An engine or a cluster has its volumes wherever it likes.
        free = shutil.disk_usage(data_dir).free if chosen == InstanceBackend.PROCESS else None
        return await restoring.drill(drivers.archives, there, sample, say=output.say, free_bytes=free)


def _parts(settings: "Settings", given: list[str]) -> "list[Part]":
    from codehub.backup.database import data_dir_of
    from codehub.drills.parts import embedded_parts, given_part, process_parts

    url = settings.database.url.get_secret_value() if settings.database.url is not None else None
    found = embedded_parts(data_dir_of(settings))
    found += process_parts(url, lambda: _leader_here(url))
    return found + [given_part(text) for text in given]


def _leader_here(url: str | None) -> int | None:
    import socket

    from codehub.db.leadership import holder_of

    host, _, pid = holder_of(url).rpartition(":") if url else ("", "", "")
    return int(pid) if host == socket.gethostname() and pid.isdigit() else None


async def _chaos(parts: "list[Part]", settle: float) -> "chaos_drill.Report":
    from codehub.drills import chaos as chaos_drill
    from codehub.drills.watching import open_client

    url, token = current_login()
    async with open_client(url, token) as users:
        return await chaos_drill.drill(users, parts, say=output.say, settle_seconds=settle)


def _print_restores(report: "restoring.Report") -> None:
    rows = [
        (
            one.key,
            f"{one.seconds:.1f}",
            output.size(one.bytes),
            str(one.files),
            "" if one.seconds_per_gb is None else f"{one.seconds_per_gb:.1f}",
            one.trouble or "ok",
        )
        for one in report.trials
    ]
    output.print_table(("archive", "seconds", "home", "files", "s/GB", "result"), rows)
    figures = report.figures()
    typer.echo(
        f"{len(report.trials) - report.failed} of {len(report.trials)} restored and verified, of {report.archives} "
        f"there are. Seconds: p50 {_figure(figures['seconds_p50'])}, p95 {_figure(figures['seconds_p95'])}; per GB: "
        f"p50 {_figure(figures['seconds_per_gb_p50'])}, p95 {_figure(figures['seconds_per_gb_p95'])}."
    )


def _print_deaths(report: "chaos_drill.Report") -> None:
    rows = []
    for one in report.deaths:
        causes = ", ".join(f"{count} × {cause}" for cause, count in one.noticed.causes.items())
        state = "ok" if one.is_back and one.answers_again else "not back"
        rows.append(
            (
                one.part,
                str(one.noticed.requests),
                f"{one.noticed.failed}{f' ({causes})' if causes else ''}",
                f"{one.noticed.longest_gap:.1f} s",
                state,
            )
        )
    output.print_table(("killed", "requests", "failed", "longest gap", "after"), rows)
    for identity, how in report.changed.items():
        output.say(f"changed: {identity}: {how}")
    if report.lost_writes:
        output.say("LOST: a change that had been answered is not there.")
    if report.unseen:
        output.say(f"UNSEEN: how the workspaces are now could not be asked: {report.unseen}")
    typer.echo("No workspace changed, no write was lost." if report.is_well else "See above: not all is well.")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _settings() -> "Settings":
    from codehub import logs
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    return settings
