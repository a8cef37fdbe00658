"""`codehub`: the commands, and how they fail.

A command that cannot do its work says so in one line on standard error (one line per mistake for settings), with what
to do about it, and exits with a code that says of which kind it is (exits.py).
Each command imports what it needs when it runs, so that the quick ones stay quick.
"""

import os
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from codehub import __version__
from codehub.cli import (
    adopt,
    drill,
    gc,
    images,
    login,
    login_link,
    losses,
    output,
    take_over,
    terminal,
    tokens,
    users,
    ws_archives,
)
from codehub.cli import backup as backing_up
from codehub.cli import doctor as doctoring
from codehub.cli.exits import Exit, exit_code_of
from codehub.cli.options import Json
from codehub.cli.platforms import require_linux
from codehub.errors import CodeHubError, SettingsError, StartError

app = typer.Typer(
    name="codehub",
    help="Browser-IDE workspaces that cost nothing while nobody is in them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ides = typer.Typer(help="Browser IDEs for workspaces that are local processes.", no_args_is_help=True)

# What is wrong with a command line; Typer has no public name for it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def _version(wanted: bool) -> None:
    if wanted:
        from codehub.commit import commit

        found = commit()
        typer.echo(f"codehub {__version__}" + (f" ({found})" if found else ""))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


@app.command(name="up")
def up_command(
    open_browser: Annotated[
        bool, typer.Option("--open", help="Open the dashboard in your browser, logged in by the one-time link.")
    ] = False,
    moved: Annotated[
        bool, typer.Option("--moved", help="The data directory was moved here: the original is not used any more.")
    ] = False,
    copied: Annotated[
        bool, typer.Option("--copied", help="It is a copy of one still in use: make it an installation of its own.")
    ] = False,
) -> None:
    """Start CodeHub on this machine, until Ctrl-C.

    It has servers of its own unless DATABASE_URL and REDIS_URL name others.
    """
    if moved and copied:
        raise typer.BadParameter("It was either moved or copied.", param_hint="--moved / --copied")
    require_linux("up")
    # What follows takes a second before it can hear signals by itself.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop_before_start)
    from codehub import logs
    from codehub.cli import up
    from codehub.cli.relocating import Relocation
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure_for_file(settings.log)
    relocation = Relocation.MOVED if moved else Relocation.COPIED if copied else None
    up.run(settings, open_browser=open_browser, relocation=relocation)


def _stop_before_start(_number: int, _frame: FrameType | None) -> None:
    """Nothing is to be undone yet. Not by an exception: an interrupted `exec` is Python's exit code, caught or not."""
    typer.echo(terminal.shown("Stopping …\nStopped."))
    os._exit(Exit.OK)


@app.command(name="coordinator")
def coordinator_command() -> None:
    """Run a coordinator beside others, until Ctrl-C.

    It uses the servers that DATABASE_URL and REDIS_URL name.
    """
    require_linux("coordinator")
    from codehub import logs
    from codehub.cli import coordinator
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    coordinator.run(settings)


@app.command(name="api")
def api_command() -> None:
    """Run an API process beside others, until Ctrl-C.

    It uses the servers that DATABASE_URL and REDIS_URL name.
    """
    require_linux("api")
    from codehub import logs
    from codehub.cli import api
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    api.run(settings)


@app.command(name="proxy")
def proxy_command() -> None:
    """Run the public port as a process of its own, until Ctrl-C.

    It leads to workspaces and to the API processes that CODEHUB_API_URL names, and may run several times.
    """
    require_linux("proxy")
    from codehub import logs
    from codehub.cli import proxy
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    proxy.run(settings)


@app.command()
def migrate() -> None:
    """Bring the database up to this version's schema.

    It is the one that DATABASE_URL names; `codehub up` does this by itself. Logins that API_DATABASE_URL and
    PROXY_DATABASE_URL name are made, each with its part's rights alone.
    """
    from codehub import logs
    from codehub.config import Settings
    from codehub.db import logins
    from codehub.db import migrate as migrations
    from codehub.db.pool import Role

    settings = Settings.load()
    logs.configure(settings.log)
    if settings.database.url is None:
        raise StartError("DATABASE_URL is not set.", "Set it; the embedded database is migrated by `codehub up`.")
    url = settings.database.url.get_secret_value()
    given = {Role.API: settings.database.api_url, Role.PROXY: settings.database.proxy_url}
    parts = {role: one.get_secret_value() for role, one in given.items() if one is not None}
    logins.require_apart(list(parts.values()))
    migrations.upgrade(url)
    for role, part_url in parts.items():
        logins.ensure(url, part_url, role)
    found, ours = migrations.schema_version(url), migrations.newest_version()
    newer = "" if found == ours else f", newer than this CodeHub ({ours}) and fit for it: it is left as it is"
    typer.echo(f"The database is at schema version {found}{newer}.")


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the documentation page instead.")] = False,
    json: Json = False,
) -> None:
    """Show every setting with its value, but no secrets."""
    from codehub.cli import settings_page
    from codehub.config import Settings

    if json:
        output.print_json(settings_page.as_dict(Settings.load()))
        return
    typer.echo(settings_page.markdown() if markdown else settings_page.table(Settings.load()), nl=False)


@ides.command(name="list")
def list_ides(json: Json = False) -> None:
    """Show the IDEs there are, and which are installed."""
    from codehub.cli import ide
    from codehub.config import Settings

    if json:
        states = ide.states_of(Settings.load())
        output.print_json([{"name": name, "state": state} for name, state in states.items()])
        return
    typer.echo(ide.listing(Settings.load()), nl=False)


@ides.command(name="install")
def install_ide(name: Annotated[str, typer.Argument(help="One of `codehub ide list`.")]) -> None:
    """Install an IDE into the data directory; also while CodeHub is running."""
    from codehub.cli import ide
    from codehub.config import Settings

    ide.install_one(Settings.load(), name)


for _name, _command in (
    ("login", login.login),
    ("logout", login.logout),
    ("login-link", login_link.login_link),
    ("whoami", login.whoami),
    ("images", images.images),
    ("gc", gc.gc),
    ("accept-losses", losses.accept_losses),
    ("doctor", doctoring.doctor),
    ("backup", backing_up.backup),
    ("restore", backing_up.restore),
    ("adopt", adopt.adopt),
    ("take-over", take_over.take_over),
):
    app.command(name=_name)(_command)

for _name, _group in (
    ("ws", ws_archives.app),
    ("user", users.app),
    ("token", tokens.app),
    ("ide", ides),
    ("drill", drill.app),
):
    app.add_typer(_group, name=_name)


def main() -> None:
    """Run a command; turn every expected failure into a line and an exit code."""
    try:
        ended = app(prog_name="codehub", standalone_mode=False)
    except SettingsError as error:
        _fail(error.message.splitlines(), error.exit_code)
    except CodeHubError as error:
        _fail([str(error)], exit_code_of(error))
    except typer.Abort:  # Ctrl-C, or the end of input, where something was asked
        typer.echo(err=True)
        sys.exit(Exit.INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except _UsageError as error:
        _usage(error)
    else:
        sys.exit(ended if isinstance(ended, int) else Exit.OK)


def _usage(error: BaseException) -> None:
    """One line for a mistake; a group without a command shows its help."""
    message = str(error.format_message()) if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(message, err=True)
        sys.exit(Exit.USAGE)
    path = context.command_path if context is not None else "codehub"
    message = " ".join(message.split())
    message += "" if message.endswith((".", "?", "!")) else "."
    _fail([f"{message} See: {path} --help"], Exit.USAGE)


def _fail(lines: list[str], exit_code: int) -> None:
    for line in lines:
        output.say(f"codehub: {' '.join(line.splitlines())}")
    sys.exit(exit_code)
