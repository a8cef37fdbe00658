"""`codehub`: the commands, and how they fail.

A command that cannot do its work says so in one line on standard error (one line per mistake for settings), with what
to do about it, and exits non-zero: 1 in general, 2 for wrong usage or settings, 130 when it was interrupted.
Each command imports what it needs when it runs, so that the quick ones stay quick.
"""

import sys
from typing import Annotated

import typer

from codehub import __version__
from codehub.errors import CodeHubError, SettingsError, StartError

app = typer.Typer(
    name="codehub",
    help="Browser-IDE workspaces that cost nothing while nobody is in them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ides = typer.Typer(help="Browser IDEs for workspaces that are local processes.", no_args_is_help=True)
app.add_typer(ides, name="ide")

INTERRUPTED = 130


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"codehub {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


@app.command(name="up")
def up_command() -> None:
    """Start CodeHub on this machine, with servers of its own unless others are named, until Ctrl-C."""
    from codehub import logs
    from codehub.cli import up
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    up.run(settings)


@app.command(name="coordinator")
def coordinator_command() -> None:
    """Run a coordinator beside others, for the servers named by DATABASE_URL and REDIS_URL, until Ctrl-C."""
    from codehub import logs
    from codehub.cli import coordinator
    from codehub.config import Settings

    settings = Settings.load()
    logs.configure(settings.log)
    coordinator.run(settings)


@app.command()
def migrate() -> None:
    """Bring the database named by DATABASE_URL up to this version's schema."""
    from codehub import logs
    from codehub.config import Settings
    from codehub.db import migrate as migrations

    settings = Settings.load()
    logs.configure(settings.log)
    if settings.database.url is None:
        raise StartError("DATABASE_URL is not set.", "Set it; the embedded database is migrated by `codehub up`.")
    url = settings.database.url.get_secret_value()
    migrations.upgrade(url)
    typer.echo(f"The database is at schema version {migrations.newest_version()}.")


@app.command()
def settings(
    markdown: Annotated[bool, typer.Option("--markdown", help="Write the documentation page instead.")] = False,
) -> None:
    """Show every setting with its value; secrets are not shown."""
    from codehub.cli import settings_page
    from codehub.config import Settings

    typer.echo(settings_page.markdown() if markdown else settings_page.table(Settings.load()), nl=False)


@ides.command(name="list")
def list_ides() -> None:
    """Show the IDEs there are, and which are installed."""
    from codehub.cli import ide
    from codehub.config import Settings

    typer.echo(ide.listing(Settings.load()), nl=False)


@ides.command(name="install")
def install_ide(name: Annotated[str, typer.Argument(help="One of `codehub ide list`.")]) -> None:
    """Install an IDE into the data directory; also while CodeHub is running."""
    from codehub.cli import ide
    from codehub.config import Settings

    ide.install_one(Settings.load(), name)


def main() -> None:
    """Run a command; turn every expected failure into a line and an exit code."""
    try:
        app()
    except SettingsError as error:
        _fail(error.message.splitlines(), error.exit_code)
    except CodeHubError as error:
        _fail([str(error)], error.exit_code if isinstance(error, StartError) else 1)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _fail(lines: list[str], exit_code: int) -> None:
    for line in lines:
        typer.echo(f"codehub: {line}", err=True)
    sys.exit(exit_code)
