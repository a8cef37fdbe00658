"""Arguments and options that several commands share, and what a shell offers for them."""

import re
import sys
from typing import Annotated

import typer

from codehub.cli.exits import CommandError, Exit

_COMPLETION_SECONDS = 1.5
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")  # what a shell takes as it is
_DURATION = re.compile(r"([0-9]{1,9})\s*(s|m|min|h|d)?")
_SECONDS = {"s": 1, "": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def _workspaces(incomplete: str) -> list[tuple[str, str]]:
    """Names for the shell; whatever goes wrong, it offers nothing and says nothing."""
    try:
        from codehub.cli.connecting import connected
        from codehub.cli.output import clean

        with connected(timeout=_COMPLETION_SECONDS) as client:
            found = [(one.name, one.phase, str(one.id)) for one in client.workspaces()]
        names = [name for name, _, _ in found]
        offered = [
            (name if names.count(name) == 1 and _PLAIN.fullmatch(name) else identity, f"{clean(name)}: {phase}")
            for name, phase, identity in found
        ]
    except Exception:  # noqa: BLE001 - a shell that completes shows no errors
        return []
    return [(word, about) for word, about in offered if word.startswith(incomplete)]


Workspace = Annotated[
    str,
    typer.Argument(
        metavar="WORKSPACE",
        help="Its name, its id or the first 8 or more characters of that.",
        autocompletion=_workspaces,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait until it is done, or has failed.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="With --wait: give up after this long.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
PasswordStdin = Annotated[bool, typer.Option("--password-stdin", help="Read the password from standard input.")]


def seconds_of(text: str | None, option: str) -> int | None:
    """`90`, `30m`, `2h`, `7d`; `never` is 0."""
    if text is None:
        return None
    if text.strip().lower() == "never":
        return 0
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise CommandError(
            f"{option}: {text!r} is not a length of time.", "Write 90s, 30m, 2h, 7d or never.", exit_code=Exit.USAGE
        )
    return int(found[1]) * _SECONDS[found[2] or ""]


def confirm(question: str, *, yes: bool) -> None:
    """Ask, unless --yes was given. Without anybody to ask it is refused."""
    if yes:
        return
    need_terminal("--yes")
    if not typer.confirm(question, err=True):
        raise CommandError("Nothing was done.")


def confirm_by_name(question: str, name: str, *, yes: bool) -> None:
    """For what cannot be undone: the name must be typed."""
    if yes:
        return
    need_terminal("--yes")
    typer.echo(question, err=True)
    if typer.prompt("Type its name to go on", err=True).strip() != name:
        raise CommandError("That is not its name; nothing was done.")


def new_password(*, from_stdin: bool, what: str = "Password") -> str:
    """A password to set: asked for twice, or the first line of standard input."""
    if from_stdin:
        return _line("password")
    need_terminal("--password-stdin")
    password: str = typer.prompt(what, hide_input=True, confirmation_prompt=True, err=True)
    return password


def known_password(what: str, *, from_stdin: bool, instead: str = "--password-stdin") -> str:
    if from_stdin:
        return _line("password")
    need_terminal(instead)
    password: str = typer.prompt(what, hide_input=True, err=True)
    return password


def read_line(what: str) -> str:
    return _line(what)


def _line(what: str) -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise CommandError(f"There is no {what} on standard input.", exit_code=Exit.USAGE)
    return line


def need_terminal(option: str) -> None:
    """Nobody can be asked without one: the option is the way then."""
    if not sys.stdin.isatty():
        raise CommandError("There is nobody to ask: this is no terminal.", f"Give {option}.", exit_code=Exit.USAGE)
