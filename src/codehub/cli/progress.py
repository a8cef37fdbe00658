"""The line that says how far a workspace has got: live on a terminal, one line for each new state elsewhere.

It is on standard error: the result alone is on standard output.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from codehub.cli.output import clean, say, size

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from codehub.client import Workspace

_NAME = 30  # characters: what happens must fit beside it


class Line(Protocol):
    def show(self, workspace: "Workspace") -> None: ...


@contextmanager
def progress_line() -> Iterator[Line]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as progress:
        yield _Live(progress, progress.add_task(""))


def described(workspace: "Workspace") -> str:
    """`demo: RESTORING, 1.2 GiB, 340 files`."""
    doing = workspace.operation
    if doing == "NONE":
        doing = f"{workspace.phase}, to be {workspace.desired_state}"
    parts = [doing]
    if workspace.progress is not None:
        parts.append(size(workspace.progress.bytes))
        if workspace.progress.files:
            parts.append(f"{workspace.progress.files} files")
    if workspace.error is not None and workspace.phase != "ERROR":
        parts.append(f"attempt {workspace.error.count + 1} ({workspace.error.reason})")
    name = clean(workspace.name)
    if len(name) > _NAME:
        name = f"{name[: _NAME - 1]}…"
    return f"{name}: {', '.join(parts)}"


class _Lines:
    def __init__(self) -> None:
        self._last = ""

    def show(self, workspace: "Workspace") -> None:
        line = described(workspace.model_copy(update={"progress": None}))
        if line != self._last:
            say(f"{line} …")
        self._last = line


class _Live:
    def __init__(self, progress: "Progress", task: "TaskID") -> None:
        self._progress = progress
        self._task = task

    def show(self, workspace: "Workspace") -> None:
        self._progress.update(self._task, description=described(workspace), refresh=True)
