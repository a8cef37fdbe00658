"""One read for everybody who asks for the same within a moment, however many they are."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Shared:
    """Of one process."""

    def __init__(self) -> None:
        self._latest: dict[Hashable, asyncio.Task[Any]] = {}

    async def get(self, key: Hashable, seconds: float, read: Callable[[], Awaitable[T]]) -> T:
        """What `read` gives, or gave to somebody else at most so many seconds ago. Its failure is everybody's too."""
        task = self._latest.get(key)
        if task is None:
            loop = asyncio.get_running_loop()
            task = self._latest[key] = loop.create_task(_run(read))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # there may be nobody left to see
            loop.call_later(seconds, self._forget, key, task)
        found: T = await asyncio.shield(task)
        return found

    def _forget(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        if not task.done():  # it takes longer than it is good for; nobody asks for the same beside it
            task.add_done_callback(lambda _: self._forget(key, task))
        elif self._latest.get(key) is task:
            del self._latest[key]


async def _run(read: Callable[[], Awaitable[T]]) -> T:
    return await read()
