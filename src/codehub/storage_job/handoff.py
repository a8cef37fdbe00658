"""A bounded queue between two threads in which the failure of either side ends the other."""

from collections.abc import Iterator
from queue import Empty, Full, Queue
from typing import Generic, TypeVar

T = TypeVar("T")
_POLL_SECONDS = 0.2  # how soon a blocked side notices that the other is gone


class OtherSideGone(Exception):
    """The other thread gave up; its own error says why."""


class Handoff(Generic[T]):
    """One thread puts and ends; one thread iterates. Nobody waits for somebody who is gone."""

    def __init__(self, depth: int) -> None:
        self._queue: Queue[T | None] = Queue(depth)
        self._receiver_gone = False
        self._sender_failed = False

    def put(self, item: T | None) -> None:
        while not self._receiver_gone:
            try:
                return self._queue.put(item, timeout=_POLL_SECONDS)
            except Full:
                continue
        raise OtherSideGone

    def end(self) -> None:
        """Nothing more comes, and what came is complete."""
        self.put(None)

    def fail(self) -> None:
        """Nothing more comes, and what came is not complete."""
        self._sender_failed = True

    def leave(self) -> None:
        """The receiver takes no more."""
        self._receiver_gone = True

    def __iter__(self) -> Iterator[T]:
        while True:
            if self._sender_failed:
                raise OtherSideGone
            try:
                item = self._queue.get(timeout=_POLL_SECONDS)
            except Empty:
                continue
            if item is None:
                return
            yield item
