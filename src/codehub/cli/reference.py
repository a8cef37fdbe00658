"""docs/cli.md, made from the commands: `python -m codehub.cli.reference`. A test compares the two."""

import sys
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

import typer

from codehub.cli.exits import MEANINGS

_HEADER = """# The command line

`codehub` starts CodeHub (`up`, `api`, `coordinator`, `migrate`) and speaks to a running one, on this machine or
elsewhere. This page is made from the code by `make docs`.

```console
$ codehub login http://127.0.0.1:8080
$ codehub ws create demo --wait
$ codehub ws open demo
```

- A **workspace** is named by its name, its id or the beginning of its id (8 characters or more). What could mean
  several is refused, with a list of them. A name goes before the beginning of an id.
- **`--json`** prints JSON on standard output and nothing else. Without it, tables fit the terminal; in a pipe they have
  no colour and nothing is cut off. What is about the work and not its result goes to standard error.
- **`--wait`** waits until the wish came true, with a live line of what is happening; it fails when the workspace goes
  to ERROR, with the reason.
- **Logging in** makes a token for this machine and keeps it in `~/.config/codehub/credentials.json`, for you only; the
  password is kept nowhere. `CODEHUB_URL` and `CODEHUB_TOKEN`, set together, go before it, for scripts. The account of
  the first administrator is shown by the first `codehub up`.
- **Completion** for your shell, workspace names included: `codehub --install-completion`.
"""


def markdown() -> str:
    from codehub.cli.main import app

    rows = "".join(f"| {int(code)} | {words} |\n" for code, words in MEANINGS.items())
    parts = [_HEADER, f"## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}"]
    command: Any = typer.main.get_command(app)
    groups: list[tuple[str, Any]] = []
    parts.append("## Commands\n")
    for name, one in _commands(command):
        if hasattr(one, "commands"):
            groups.append((name, one))
        else:
            parts.append(_section(f"codehub {name}", one))
    for name, group in groups:
        parts.append(f"## codehub {name}\n\n{group.help}\n")
        parts += [_section(f"codehub {name} {inner}", one) for inner, one in _commands(group)]
    return "\n".join(parts)


def _commands(group: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer's own classes are private
    for name, one in group.commands.items():
        if not one.hidden:
            yield name, one


def _section(path: str, command: Any) -> str:  # noqa: ANN401 - as above
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join([path, *(_argument(one) for one in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"### {path}\n", f"`{usage}`\n", f"{cleandoc(command.help or '')}\n"]
    rows = [f"| `{_argument(one).strip('[]')}` | {one.help} |" for one in arguments if one.help]
    rows += [f"| {_option(one)} | {one.help}{_default(one)} |" for one in options if one.name != "help"]
    if rows:
        lines.append("\n".join(["| | |", "|---|---|", *rows]) + "\n")
    return "\n".join(lines)


def _argument(one: Any) -> str:  # noqa: ANN401 - as above
    name = (one.metavar or one.name or "").upper().strip("[]")
    return name if one.required else f"[{name}]"


def _option(one: Any) -> str:  # noqa: ANN401 - as above
    value = "" if one.is_flag else f" {one.metavar or one.name.upper()}"
    return ", ".join(f"`{name}{value}`" for name in [*one.opts, *one.secondary_opts])


def _default(one: Any) -> str:  # noqa: ANN401 - as above
    return f" Default: `{one.default}`." if not one.is_flag and one.default is not None else ""


if __name__ == "__main__":
    sys.stdout.write(markdown())
