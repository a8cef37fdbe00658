"""What commands print. On a terminal tables have colour and fit its width; in a pipe they have neither colour nor
limits, so that `grep` and `awk` find all of it. `--json` prints JSON and nothing else. Everything about the work
itself, rather than its result, goes to standard error.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel

GAP = "  "
_STYLES = {"RUNNING": "green", "ERROR": "bold red", "failed": "bold red", "warning": "yellow", "ok": "green"}
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_UNITS = ((86400 * 365, "y"), (86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def say(line: str) -> None:
    """About the work: a line to standard error."""
    typer.echo(clean(line), err=True)


def print_json(value: "BaseModel | Iterable[BaseModel] | Mapping[str, object] | Sequence[object]") -> None:
    """On a terminal everything but plain ASCII is escaped: other characters could steer it, or turn its text around."""
    typer.echo(json.dumps(_plain(value), indent=2, ensure_ascii=sys.stdout.isatty()))


def _plain(value: object) -> object:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(one) for one in value]
    return value


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A column is as wide as it must be; on a terminal the long ones are folded to fit."""
    cells = [[clean(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        typer.echo(aligned([list(head), *cells]), nl=False)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    Console(highlight=False).print(table)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]))]
    lines = (GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    """A name and a value on each line; a value of several lines is set below itself."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        first, *more = value.splitlines() or [""]
        typer.echo(f"{name:<{width}}{GAP}{clean(first)}".rstrip())
        for line in more:
            typer.echo(f"{'':<{width}}{GAP}{clean(line)}".rstrip())


def clean(text: str) -> str:
    """What people called their things, and what a server says, must not steer a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def clean_log(line: str) -> str:
    """A line of a program's output, for a terminal: tabs stay."""
    return "\t".join(clean(part) for part in _COLOURS.sub("", line).split("\t"))


def _style(cell: str) -> str:
    return next((style for word, style in _STYLES.items() if re.split("[:,]", cell, maxsplit=1)[0] == word), "")


def ago(at: datetime | None, now: datetime | None = None) -> str:
    """`3 min ago`, or `in 2 h`."""
    if at is None:
        return "never"
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def duration(seconds: float) -> str:
    """In the largest unit that it fills, or all but fills."""
    for size, unit in _UNITS:
        if seconds >= 0.99 * size:
            return f"{round(seconds / size)} {unit}"
    return "0 s"


def when(at: datetime | None) -> str:
    """A time in full, with how long ago it is."""
    if at is None:
        return "never"
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S} ({ago(at)})"


def size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def clock(elapsed: timedelta) -> str:
    seconds = int(elapsed.total_seconds())
    return f"{seconds // 60}:{seconds % 60:02d}"
