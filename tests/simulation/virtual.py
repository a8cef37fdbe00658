"""An event loop whose time is virtual: waiting takes no time, and the same run happens the same way each time.

Nothing outside the loop is waited for (no threads, no sockets), so whenever nobody can go on the clock jumps to the
next timer. Tasks are numbered, because sets of tasks would otherwise be walked in the order of their addresses.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import Context
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")


class Stuck(AssertionError):
    """Nothing can ever happen again, and yet somebody waits."""


class _Selector(selectors.BaseSelector):
    """Moves the clock instead of waiting."""

    def __init__(self) -> None:
        self.now = 0.0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[fd] = selectors.SelectorKey(fileobj, fd, events, data)
        return self._keys[fd]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("nobody can go on, and no timer runs")
        if timeout > 0:
            self.now += timeout
        return []


class _NumberedTask(asyncio.Task[Any]):
    """Its hash is its number, not its address."""

    def __init__(self, number: int, coro: Any, **rest: Any) -> None:
        self.number = number  # first: the task registers itself in a set
        super().__init__(coro, name=f"task-{number}", **rest)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)
        self._clock_resolution = 1e-6
        self._numbers = count(1)
        self.unexpected: list[BaseException] = []  # what broke where nobody awaited it
        self.set_task_factory(self._numbered)
        self.set_exception_handler(self._broke)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(self, _: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """At once: a thread would end at a moment of the real clock."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - whoever awaits it gets it
            done.set_exception(error)
        return done

    def _numbered(
        self, loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return _NumberedTask(next(self._numbers), coro, loop=loop, context=context)

    def _broke(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.unexpected.append(error if error is not None else AssertionError(context["message"]))


def run(main: Coroutine[Any, Any, T] | Generator[Any, None, T]) -> T:
    """Run to the end of `main`; what it left running is cancelled."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(_end_the_rest())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end_the_rest() -> None:
    left = sorted(asyncio.all_tasks() - {asyncio.current_task()}, key=hash)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
