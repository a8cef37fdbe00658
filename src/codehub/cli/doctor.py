"""`codehub doctor`: is everything there that CodeHub needs, and if not, what to do.

Without options it looks at this machine and its settings, as `codehub up` would use them, and at the CodeHub that runs
here, if one does. `--remote` looks at the server that commands speak to. It changes nothing.
"""

import functools
import os
import queue
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from codehub.cli import options, output
from codehub.cli.connecting import current_token, current_url, valid_url
from codehub.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from codehub.config import Settings
    from codehub.services.doctor.finding import Finding

_COLUMNS = 80 - 11  # what the mark and the gaps leave
_MARKS = {"ok": "ok", "warning": "WARNING", "failed": "FAILED"}


def doctor(
    remote: Annotated[bool, typer.Option("--remote", help="Look at the server that commands speak to.")] = False,
    url: Annotated[str | None, typer.Option(help="Look at this server.")] = None,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Stop looking after this long, and tell what was found.")
    ] = 60.0,
    security: Annotated[
        bool,
        typer.Option("--security", help="Show what keeps workspaces apart: each promise, and whether it holds here."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Check what CodeHub needs, and say what to do.

    Looks at this machine and its settings, as `codehub up` would use them, and at the CodeHub that runs here; or at a
    server elsewhere. It changes nothing, and fails when something that is needed is missing.
    """
    from codehub.services.doctor import codes

    look: Callable[[list[Finding]], None]
    if remote or url:
        look = functools.partial(remote_findings, url, is_security=security)
    else:
        look = security_findings if security else local_findings
    findings = _within(timeout, look)
    if json:
        output.print_json([one.as_dict() for one in findings])
    else:
        _print(findings)
    if any(one.code == codes.LATE for one in findings):
        _leave(Exit.FAILED)
    if any(one.state == "failed" for one in findings):
        raise typer.Exit(Exit.FAILED)


def _leave(exit_code: int) -> NoReturn:
    """At once: Python would wait for the look that is late, which may wait for ever."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(exit_code)


def _within(seconds: float, look: "Callable[[list[Finding]], None]") -> "list[Finding]":
    """What was found by then: each look has a limit of its own, but one after the other they could take minutes."""
    from codehub.services.doctor import codes
    from codehub.services.doctor.finding import failed

    found: list[Finding] = []
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            look(found)
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=work, name="doctor", daemon=True).start()
    try:
        error = ended.get(timeout=seconds)
    except queue.Empty:
        told = (
            f"after {seconds:g} s; the last that was looked at is {found[-1].check}"
            if found
            else f"after {seconds:g} s"
        )
        late = failed(
            codes.LATE, f"Not everything was looked at {told}.", "Look for longer: codehub doctor --timeout 300"
        )
        return [*found, late]
    if error is not None:
        raise error
    return found


def remote_findings(given: str | None, found: "list[Finding]", *, is_security: bool = False) -> None:
    """Adds to `found` as it goes."""
    from codehub.cli.checks import remote, security, websockets

    url = valid_url(given) if given else current_url()
    if url is None:
        raise CommandError("Which server? You are not logged in.", "Give --url.", exit_code=Exit.NOT_ALLOWED)
    if is_security:
        found += security.of_server(url)
        return
    found += remote.server(url)
    if found[0].state == "failed":
        return
    token = current_token(url)
    found.append(remote.login(url, token))
    found.append(websockets.websocket(url, token))


def security_findings(found: "list[Finding]") -> None:
    """By the CodeHub that runs here; where none does, what can be tried without one."""
    from codehub.cli.checks import backends, machine, security
    from codehub.config import Settings
    from codehub.errors import CodeHubError
    from codehub.model.workspace import InstanceBackend
    from codehub.services.doctor import codes
    from codehub.services.doctor.finding import failed_by

    try:
        settings = Settings.load()
        running = machine.running_url(machine.data_dir_of(settings.server.data_dir))
        if running:
            found += security.of_server(running.rstrip("/"), is_here=True)
            return
        isolation: dict[str, list[str]] = {}
        if InstanceBackend.PROCESS in settings.backends.enabled:
            isolation[InstanceBackend.PROCESS] = backends.isolation_here(settings)
    except CodeHubError as error:
        found.append(failed_by(codes.SANDBOX, error))
        return
    for backend in settings.backends.enabled:
        found += security.of_backend(InstanceBackend(backend), isolation)


def local_findings(found: "list[Finding]") -> None:
    """Adds to `found` as it goes."""
    import asyncio

    from codehub.cli.checks import machine, remote
    from codehub.config import Settings
    from codehub.errors import SettingsError, StartError
    from codehub.services.doctor import codes, public
    from codehub.services.doctor.finding import failed, failed_by, ok

    found.append(machine.python())
    try:
        settings = Settings.load()
    except SettingsError as error:
        found += [failed(codes.SETTINGS, line, "See docs/settings.md.") for line in error.message.splitlines()]
        return
    found.append(ok("settings", "every one is valid"))
    try:
        path = machine.data_dir_of(settings.server.data_dir)
    except StartError as error:
        found.append(failed_by(codes.DATA, error))
        return
    running = machine.running_url(path)
    found += machine.data_directory(path, in_use=running is not None, reserve=settings.process.disk_reserve)
    is_apart = settings.database.url is not None and settings.redis.url is not None
    found.append(machine.port(settings.server.host, settings.server.port, running=running, is_apart=is_apart))
    asyncio.run(_dependencies(settings, path, found, running=running))
    found += public.look(settings.accounts.public_url, settings.accounts.workspace_host)
    found += remote.server(running.rstrip("/"), is_here=True) if running else []


async def _dependencies(settings: "Settings", path: "Path", found: "list[Finding]", *, running: str | None) -> None:
    from codehub.cli.checks import archives, backends, machine, servers, standing

    url = settings.database.url
    database = [] if running is not None and url is None else await servers.postgresql(settings)
    found += database
    if url is not None and all(one.state == "ok" for one in database):
        found += await standing.of_database(url.get_secret_value(), is_running=running is not None)
        found += await archives.look(settings, url.get_secret_value(), path)
    elif url is None and running is not None:
        found += await standing.of_data_dir(path)
        found += await archives.look_at_own(settings, path)
    if running is None or settings.redis.url is not None:
        found.append(await servers.redis(settings))
    found.append(await servers.archive_store(settings, path))
    found += machine.archive_room(settings.store.url, path)
    found += await backends.backends(settings, path)


def _folded(text: str, columns: int) -> list[str]:
    """In a pipe lines are whole."""
    if not sys.stdout.isatty():
        return [text]
    return textwrap.wrap(text, columns, subsequent_indent="  " if text.startswith("→") else "", break_long_words=False)


def _print(findings: "list[Finding]") -> None:
    """A line each; what to do is set below it."""
    width = max(len(one.check) for one in findings)
    colours = {"ok": "green", "warning": "yellow", "failed": "red"} if sys.stdout.isatty() else {}
    for one in findings:
        mark = typer.style(f"{_MARKS[one.state]:<7}", fg=colours.get(one.state))
        lines = _folded(output.clean(one.detail), _COLUMNS - width) or [""]
        lines += _folded(output.clean(f"→ {one.advice}"), _COLUMNS - width) if one.advice else []
        lines += [f"{one.code.id}: {one.code.link}"] if one.code else []
        typer.echo(f"{mark}  {output.clean(one.check):<{width}}  {lines[0]}")
        for line in lines[1:]:
            typer.echo(f"{'':<7}  {'':<{width}}  {line}")
    wrong = sum(one.state == "failed" for one in findings)
    weak = sum(one.state == "warning" for one in findings)
    if wrong or weak:
        output.say(f"{wrong} failed, {weak} could be better.")
    else:
        output.say("Everything is well.")
