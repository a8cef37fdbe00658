"""What a person sees while CodeHub starts: one line per step, with a bar for the one under way if a terminal can.

Details of a step are on the bar's line and in the log; they are not lines of their own. A warning is one line.
However the start ends, the bar is gone and the cursor is back.
"""

import io
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Protocol, Self, cast

import structlog

from codehub.cli import terminal
from codehub.cli.running import say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

log = structlog.get_logger(__name__)

_BAR = 24  # columns


class Step(Protocol):
    """One step, while it is under way. May be called from any thread."""

    def detail(self, text: str, done: float | None = None) -> None:
        """What it is doing, and how much of it is done (0 to 1) if that is known."""


class Startup:
    """The steps of one start, in order. Outside of `with` they are plain lines."""

    def __init__(self) -> None:
        self._bars: _Bars | None = None
        self._stack = ExitStack()
        self._is_over = False

    def __enter__(self) -> Self:
        if terminal.is_live():
            self._bars = self._stack.enter_context(_Bars())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """No bar from now on; repeating it is harmless."""
        self._is_over = True
        self._bars = None
        self._stack.close()

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Shown as done when it ends, and not at all when it fails: the error is what people read then."""
        log.info("starting", step=title)
        with ExitStack() as stack:
            if self._bars is not None:
                yield stack.enter_context(self._bars.step(title))
            else:
                say(f"{title} …")
                yield _Logged(title)

    def note(self, text: str) -> None:
        """What a part says by itself: worth a line only after the start, when no step shows it."""
        if self._is_over:
            log.info("progress", text=text)
            say(text)

    def warn(self, text: str) -> None:
        say(f"{terminal.yellow('Warning:')} {text}")


class _Logged:
    def __init__(self, title: str) -> None:
        self._title = title

    def detail(self, text: str, done: float | None = None) -> None:
        log.info("progress", step=self._title, text=text, done=done)


class _Bars(AbstractContextManager["_Bars"]):
    """Rich's, with finished steps above the bar. What others write to standard output meanwhile goes above it, too."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        file = sys.stdout if terminal.has_unicode() else cast("IO[str]", _AsciiOutput())
        text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="crop"))
        self._console = Console(file=file, highlight=False, soft_wrap=True)
        self._progress: Progress = Progress(
            BarColumn(bar_width=_BAR), text, TimeElapsedColumn(), console=self._console, transient=True
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        began = time.monotonic()
        task = self._progress.add_task(title, total=None)
        try:
            yield _BarStep(self._progress, task, title)
        finally:
            self._progress.remove_task(task)
        self._console.print(f"[green]{terminal.shown('✓')}[/] {title}  [dim]{time.monotonic() - began:.1f} s[/]")


class _BarStep:
    def __init__(self, progress: "Progress", task: "TaskID", title: str) -> None:
        self._progress = progress
        self._task = task
        self._title = title

    def detail(self, text: str, done: float | None = None) -> None:
        log.info("progress", step=self._title, text=text, done=done)
        description = f"{self._title}: {text}"
        with suppress(KeyError):  # the step is over
            if done is None:
                self._progress.update(
                    self._task, description=description, refresh=True
                )  # it may be over before the next
            else:
                self._progress.update(self._task, description=description, total=1.0, completed=done)


class _AsciiOutput(io.TextIOBase):
    """Standard output for a terminal that knows only ASCII; Rich draws its bar accordingly."""

    encoding = "ascii"

    def __init__(self) -> None:
        self._out = sys.stdout

    def write(self, text: str) -> int:
        return self._out.write(terminal.as_ascii(text))

    def flush(self) -> None:
        self._out.flush()

    def isatty(self) -> bool:
        return self._out.isatty()

    def fileno(self) -> int:
        return self._out.fileno()
