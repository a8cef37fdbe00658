"""Points: the moments between two of which a coordinator can die and something is different.

Every database statement, BEGIN and COMMIT included, and every call of a driver or the store is two points: before it,
and after it: the effect is there and the caller has not seen the answer. Each has a number, in the order in which this
process comes by, and a label: what is done, and in which phase and operation of the workspace that it is about. Reads
and listings are about none. At the chosen point the process is killed outright.
"""

import fcntl
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from threading import RLock
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg._connection_base import BaseConnection
from psycopg._cursor_base import BaseCursor
from psycopg.sql import Composable
from psycopg.types.json import Jsonb

import codehub.db
from codehub.drivers.base import Archives, Backend

ABOUT_NONE = ("observe", "found", "events")  # driver calls that are about no workspace in particular
NO_PLACE = "?"


@dataclass
class Points:
    """What this process has come by, and where it is to die."""

    die_at: int | None = None  # the number of a point
    used: Path | None = None  # labels, one per line: die at the first one that is not among them, and add it
    only: str = ""  # … among those that match this pattern
    seen: Path | None = None  # every label that was come by is appended here
    freeze_at: str | None = None  # how a label begins: stop there once, until somebody says SIGCONT
    number: int = 0
    place: str = NO_PLACE  # phase/operation of the workspace, as last read or written
    _lock: RLock = field(default_factory=RLock)
    _size: int = -1
    _labels: frozenset[str] = frozenset()

    def at(self, when: str, label: str) -> None:
        with self._lock:
            self.number += 1
            full = f"{when} {label}"
            if self.seen is not None:
                _append(self.seen, full)
            if self.number == self.die_at or (
                self.used is not None and re.search(self.only, full) and self._is_new(self.used, full)
            ):
                os.kill(os.getpid(), signal.SIGKILL)
            if self.freeze_at is not None and full.startswith(self.freeze_at):
                self.freeze_at = None
                os.kill(os.getpid(), signal.SIGSTOP)

    @contextmanager
    def around(self, label: str) -> Iterator[None]:
        """The point after is come by only if it succeeds: what failed is told to the caller."""
        self.at("before", label)
        yield
        self.at("after", label)

    def _is_new(self, used: Path, label: str) -> bool:
        """Whether it is the first to come by here, of all processes that share the file."""
        if used.stat().st_size != self._size:
            self._size = used.stat().st_size
            self._labels = frozenset(used.read_text().splitlines())
        if label in self._labels:
            return False
        with used.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if label in used.read_text().splitlines():
                return False
            file.write(f"{label}\n")
        return True


def _append(path: Path, line: str) -> None:
    with path.open("a") as file:
        file.write(f"{line}\n")


# -- the database ------------------------------------------------------------------------------------------------------


def statement_names() -> dict[str, str]:
    """Every statement that codehub.db has a name for: MODULE.NAME by its text."""
    found: dict[str, str] = {}
    for module in _modules(codehub.db):
        for name, value in vars(module).items():
            if name.isupper() and isinstance(value, str | Composable):
                found.setdefault(_text(value), f"{module.__name__.removeprefix('codehub.db.')}.{name}")
    return found


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in iter_modules(package.__path__, f"{package.__name__}."):
        if not found.ispkg:
            yield import_module(found.name)


def _text(query: object) -> str:
    if isinstance(query, Composable):
        return query.as_string(None)
    return query.decode() if isinstance(query, bytes) else str(query)


@dataclass
class _Transaction:
    """What a connection has been doing since its last COMMIT."""

    last: str = "nothing"
    about: str = ""


def watch_database(points: Points) -> None:
    """From here on every statement that psycopg sends is a point before and after."""
    names = statement_names()
    transactions: WeakKeyDictionary[BaseConnection[Any], _Transaction] = WeakKeyDictionary()
    execute: Callable[..., Generator[Any, Any, Any]] = BaseCursor._execute_gen
    command: Callable[..., Generator[Any, Any, Any]] = BaseConnection._exec_command

    def watched_execute(
        self: BaseCursor[Any, Any], query: Any, params: Any = None, **more: Any
    ) -> Generator[Any, Any, Any]:
        text = _text(query)
        name = names.get(text) or " ".join(text.split())[:50] or "an empty statement"
        current = transactions.setdefault(self._conn, _Transaction())
        current.about = _about(params) or current.about
        current.last = name
        with points.around(f"{name}{current.about}"):
            yield from execute(self, query, params, **more)
        points.place = _place_read(self) or _place_written(params) or points.place

    def watched_command(self: BaseConnection[Any], query: Any, *more: Any, **named: Any) -> Generator[Any, Any, Any]:
        text = " ".join(_text(query).split()).partition(";")[0]
        current = transactions.setdefault(self, _Transaction())
        begins = text.startswith("BEGIN")
        label = "BEGIN" if begins else f"{text} of {current.last}{current.about}"
        if text in ("COMMIT", "ROLLBACK"):
            transactions.pop(self)
        with points.around(label):
            return (yield from command(self, query, *more, **named))

    BaseCursor._execute_gen = watched_execute  # type: ignore[method-assign]  # the process that dies watches itself
    BaseConnection._exec_command = watched_command  # type: ignore[method-assign,assignment]  # as above


def _changes(params: object) -> list[dict[str, Any]]:
    given = params.get("changes") if isinstance(params, dict) else None
    return list(given.obj) if isinstance(given, Jsonb) else []


def _about(params: object) -> str:
    """From where to where a status is written."""
    moves = [
        f"{each['phase_was']}/{each['operation_was']}→{each['phase']}/{each['operation']}" for each in _changes(params)
    ]
    return f" [{', '.join(map(str, moves))}]" if moves else ""


def _place_written(params: object) -> str | None:
    changes = _changes(params)
    return f"{changes[0]['phase']}/{changes[0]['operation']}" if changes else None


def _place_read(cursor: BaseCursor[Any, Any]) -> str | None:
    """The first row's phase and operation, if it has them."""
    result = cursor.pgresult
    names = [column.name for column in cursor.description or ()]
    if result is None or result.ntuples == 0 or not {"phase", "operation"} <= set(names):
        return None
    phase, operation = (result.get_value(0, names.index(name)) for name in ("phase", "operation"))
    return f"{(phase or b'').decode()}/{(operation or b'').decode()}"


assert psycopg.__version__.startswith("3."), "its insides, watched above, are of version 3"


# -- drivers and store -------------------------------------------------------------------------------------------------


class _Watched:
    """One part of a driver, or the store: every call is a point before and after."""

    def __init__(self, name: str, part: object, points: Points) -> None:
        self._name, self._part, self._points = name, part, points

    def __getattr__(self, verb: str) -> Any:
        call, points = getattr(self._part, verb), self._points
        name = f"{self._name}.{verb}"

        async def one(*given: Any, **named: Any) -> Any:
            label = name if verb in ABOUT_NONE else f"{name} [{points.place}]"
            with points.around(label):
                return await call(*given, **named)

        async def many(*given: Any, **named: Any) -> Any:
            points.at("before", name)
            async for item in call(*given, **named):
                points.at("after", name)
                yield item

        return many if verb in ("found", "events") else one


def watched_backend(backend: Backend, points: Points) -> Backend:
    parts: dict[str, Any] = {
        name: _Watched(name, getattr(backend, name), points) for name in ("instances", "volumes", "jobs")
    }
    return replace(backend, **parts)


def watched_archives(archives: Archives, points: Points) -> Archives:
    watched: Any = _Watched("archives", archives, points)
    found: Archives = watched
    return found
