"""Spans: begun and ended where the work is done, and handed to whoever exports them."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

Value = str | int | float | bool
_HALF = (1 << 64) - 1


@dataclass(slots=True)
class Span:
    """One piece of work; times in nanoseconds of Unix time."""

    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start: int
    end: int = 0
    is_server: bool = False
    attributes: dict[str, Value] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where new spans belong: below this span of this trace."""

    trace_id: int
    span_id: int


@dataclass(slots=True)
class _Switch:
    """Like logging, tracing is the whole process's."""

    sink: Callable[[Span], None] | None = None


_switch = _Switch()
_here: ContextVar[Place | None] = ContextVar("codehub_trace", default=None)
_nothing: AbstractContextManager[Span | None] = nullcontext()


def switch(sink: Callable[[Span], None] | None) -> None:
    """Where ended spans go from now on; None switches tracing off."""
    _switch.sink = sink


def is_on() -> bool:
    return _switch.sink is not None


def span(
    name: str,
    *,
    operation: UUID | None = None,
    below: Place | None = None,
    is_server: bool = False,
    **attributes: Value | None,
) -> AbstractContextManager[Span | None]:
    """Around a piece of work: below the operation, below the given place, or below the span that it is inside of."""
    if _switch.sink is None:
        return _nothing
    return _span(name, place_of(operation) if operation is not None else below, is_server, attributes)


def place_of(operation: UUID) -> Place:
    """An operation's own span: its ids follow from the op_id, so that anybody can add to it."""
    return Place(operation.int, (operation.int & _HALF) or 1)


def record(
    name: str, operation: UUID, start: datetime, end: datetime, *, is_part: bool = False, **attributes: Value | None
) -> None:
    """An operation as a whole, or a part of it, once it has ended."""
    sink = _switch.sink
    if sink is None:
        return
    place = place_of(operation)
    done = Span(name, place.trace_id, place.span_id, None, _nanoseconds(start), _nanoseconds(end))
    if is_part:
        done.span_id, done.parent_id = _new_id(), place.span_id
    done.attributes = _known(attributes)
    sink(done)


@contextmanager
def _span(
    name: str, below: Place | None, is_server: bool, attributes: dict[str, Value | None]
) -> Iterator[Span | None]:
    parent = below or _here.get()
    trace_id = parent.trace_id if parent is not None else secrets.randbits(128) or 1
    begun = Span(name, trace_id, _new_id(), parent.span_id if parent else None, time.time_ns())
    begun.is_server = is_server
    begun.attributes = _known(attributes)
    token = _here.set(Place(trace_id, begun.span_id))
    try:
        yield begun
    except BaseException as error:
        begun.error = type(error).__name__
        raise
    finally:
        _here.reset(token)
        begun.end = time.time_ns()
        if _switch.sink is not None:
            _switch.sink(begun)


def _known(attributes: dict[str, Value | None]) -> dict[str, Value]:
    return {name.replace("__", "."): value for name, value in attributes.items() if value is not None}


def _new_id() -> int:
    return secrets.randbits(64) or 1


def _nanoseconds(at: datetime) -> int:
    return int(at.timestamp() * 1_000_000) * 1000
