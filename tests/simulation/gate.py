"""One incarnation of a coordinator process, as the world sees it: every call it makes goes through its gate.

At a call of the seed's choosing the process dies, or is paused for a while: before its effect, or after it and before
the caller sees the answer. From its death on nothing of it has any effect, but for what was already on its way. A
paused process stands still at its next call, wherever it is, and goes on later without having noticed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from codehub.errors import CodeHubError, Unavailable
from codehub.model.names import parse_archive_key
from codehub.model.workspace import WorkspaceId
from tests.simulation.trace import Trace

T = TypeVar("T")

# What changes nothing is not worth landing late.
_READS = (
    "observe",
    "look",
    "verify",
    "read",
    "due",
    "now",
    "known",
    "known_of",
    "remembers_since",
    "remembered",
    "old_operations",
    "visits",
    "all",
    "is_continuous",
)
_QUIET = ("observe", "confirm", "lock")  # too many to tell; what the database was told shows in the rows


class Died(BaseException):
    """The process is no more: nobody in it can catch this."""


@dataclass
class Plan:
    """What befalls this incarnation, counted in its calls; 0: nothing."""

    crash_at: int = 0
    freeze_at: int = 0
    freeze_seconds: float = 0.0
    after_effect: bool = False
    slow: float = 0.02  # seconds that a call takes at most
    lost_answers: float = 0.0  # share of the database's answers that never arrive


@dataclass
class Gate:
    name: str
    trace: Trace
    rng: Random
    plan: Plan
    on_crash: Callable[[], None] = lambda: None
    on_freeze: Callable[[], None] = lambda: None
    calls: int = 0
    dead: bool = False
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _landing: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._open.set()

    @property
    def frozen(self) -> bool:
        return not self._open.is_set()

    async def call(self, verb: str, about: WorkspaceId | None, effect: Callable[[], Awaitable[T]]) -> T:
        await self._pass()
        self.calls += 1
        number = self.calls
        if not self.plan.after_effect:
            await self._fate(number, verb)
        quiet = verb.startswith(("database.", "redis.")) or verb.rpartition(".")[2] in _QUIET
        if not quiet:
            self.trace.note(about, f"{self.name} asks {verb}")
            if about is not None:
                self.trace.asked(about)
        try:
            await asyncio.sleep(self.rng.random() * self.plan.slow)
        except asyncio.CancelledError:
            self._still_on_its_way(verb, effect)
            raise
        try:
            answer = await effect()
        except CodeHubError as error:
            if not quiet:
                self.trace.note(about, f"{self.name} hears {verb}: {type(error).__name__}")
            await self._answered(number, verb)
            raise
        if not quiet:
            self.trace.note(about, f"{self.name} has {verb}", kept=False)
        await self._answered(number, verb)
        if verb.startswith("database.") and self.rng.random() < self.plan.lost_answers:
            self.trace.fault("lost answer", about, verb)
            raise Unavailable("The database did not answer in time.")
        return answer

    async def _answered(self, number: int, verb: str) -> None:
        if self.plan.after_effect:
            await self._fate(number, verb)
        await self._pass()

    async def _fate(self, number: int, verb: str) -> None:
        where = f"{'after' if self.plan.after_effect else 'before'} {verb}"
        if number == self.plan.freeze_at:
            self.trace.fault("freeze", None, f"{self.name} {where} for {self.plan.freeze_seconds:.1f} s")
            self.freeze(self.plan.freeze_seconds)
        if number == self.plan.crash_at:
            self.trace.fault("crash", None, f"{self.name} {where}")
            self.die()
        await self._pass()

    async def _pass(self) -> None:
        if self.dead:
            raise Died
        while not self._open.is_set():
            await self._open.wait()
            if self.dead:
                raise Died

    def freeze(self, seconds: float) -> None:
        self._open.clear()
        asyncio.get_running_loop().call_later(seconds, self.thaw)
        self.on_freeze()

    def thaw(self) -> None:
        if self.frozen and not self.dead:
            self.trace.note(None, f"{self.name} goes on")
        self._open.set()

    def die(self) -> None:
        self.dead = True
        self._open.set()
        self.on_crash()

    def _still_on_its_way(self, verb: str, effect: Callable[[], Awaitable[Any]]) -> None:
        """Whoever asked is gone; what was asked may yet arrive."""
        if verb.rpartition(".")[2] in _READS or self.rng.random() < 0.5:
            return
        delay = self.rng.random() * (2.0 if verb.startswith("database.") else 20.0)

        async def land() -> None:
            await asyncio.sleep(delay)
            try:
                await effect()
            except CodeHubError:
                return

        task = asyncio.get_running_loop().create_task(land())
        self._landing.add(task)
        task.add_done_callback(self._landed)

    def _landed(self, task: asyncio.Task[None]) -> None:
        self._landing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


class Gated:
    """Any port, with its calls going through a gate."""

    def __init__(self, gate: Gate, part: str, target: object) -> None:
        self._gate, self._part, self._target = gate, part, target

    def __getattr__(self, name: str) -> Any:
        method, verb, gate = getattr(self._target, name), f"{self._part}.{name}", self._gate

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await gate.call(verb, _about(args), lambda: method(*args, **kwargs))

        return call

    async def found(self, *owner: WorkspaceId) -> AsyncIterator[Any]:
        """The one port that answers in pages."""
        pages = self._target.found(*owner)  # type: ignore[attr-defined]
        while True:
            try:
                yield await self._gate.call(f"{self._part}.found", None, pages.__anext__)
            except StopAsyncIteration:
                return


def _about(args: tuple[Any, ...]) -> WorkspaceId | None:
    if args and isinstance(args[0], str):
        return parse_archive_key(args[0]).workspace_id
    return args[0] if args and not isinstance(args[0], int | tuple) and hasattr(args[0], "hex") else None
