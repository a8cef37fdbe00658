"""Errands: every call that is about one workspace, run beside the ticks, at most one per workspace.

A tick never waits for an errand, and decides nothing about a workspace while one is under way. However it ends, an
errand leaves exactly one result, which the next tick takes together with a new look. Lanes bound how many run at once,
so that a hundred slow starts delay neither removals nor another backend.
"""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import structlog
from structlog.contextvars import bind_contextvars

from codehub.errors import DriverError
from codehub.model.failure import Fault
from codehub.model.observation import ArchiveSeen, VolumeSeen
from codehub.model.workspace import ArchiveKey, ErrorReason, OpId, WorkspaceId
from codehub.together import ended

log = structlog.get_logger(__name__)

_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, slots=True)
class Done:
    """The driver accepted it; only the next look tells what became of it."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """It was not tried, and trying again at once would be the same."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The driver did not do it, while this operation was in progress."""

    op_id: OpId | None
    fault: Fault


@dataclass(frozen=True, slots=True)
class Broke:
    """A look that ended in a way that no driver may end it: a bug, of which the log has the details."""

    cause: str


@dataclass(frozen=True, slots=True)
class Looked:
    """Everything that one workspace lacked, looked at in one go, so that one decision has all of it."""

    archives: Mapping[ArchiveKey, ArchiveSeen] = field(default_factory=dict)
    volume: VolumeSeen | None = None  # of one that a listing lacked: looked at directly, after the archives
    wakes: bool = True  # False: nothing waits for it, the next tick will do


Result = Done | Skipped | Failed | Broke | Looked
DONE = Done()
SKIPPED = Skipped()


class Errands:
    """Those under way, and the results not taken yet."""

    def __init__(self, on_end: Callable[[], None], lanes: Mapping[tuple[str, str], int]) -> None:
        self._on_end = on_end
        self._lanes = {where: asyncio.Semaphore(size) for where, size in lanes.items()}
        self._is_open = False
        self._under_way: dict[WorkspaceId, asyncio.Task[None]] = {}
        self._results: dict[WorkspaceId, Result] = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Where errands run; leaving it cancels those under way, as the death of the process would."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
            await ended(self._under_way.values())

    def busy(self) -> frozenset[WorkspaceId]:
        return frozenset(self._under_way)

    def is_busy(self, workspace_id: WorkspaceId) -> bool:
        return workspace_id in self._under_way

    def results(self) -> dict[WorkspaceId, Result]:
        """What has ended so far; it stays until it is taken."""
        return dict(self._results)

    def take(self, workspace_id: WorkspaceId) -> None:
        """The result was used, or is of no use any more."""
        self._results.pop(workspace_id, None)

    def start(
        self,
        workspace_id: WorkspaceId,
        op_id: OpId | None,
        where: tuple[str, str],
        errand: Callable[[], Awaitable[Result]],
    ) -> None:
        """Run `errand` as soon as its lane (of a backend or the store) has room."""
        assert self._is_open
        assert workspace_id not in self._under_way
        task = asyncio.create_task(self._run(workspace_id, op_id, where, errand), name=f"errand {workspace_id}")
        self._under_way[workspace_id] = task

    async def _run(
        self,
        workspace_id: WorkspaceId,
        op_id: OpId | None,
        where: tuple[str, str],
        errand: Callable[[], Awaitable[Result]],
    ) -> None:
        result: Result = DONE
        # This task's: every line that a driver logs for it says so.
        bind_contextvars(workspace_id=str(workspace_id), op_id=str(op_id))
        try:
            async with self._lanes[where]:
                result = await errand()
        except DriverError as error:
            log.warning("a driver call failed", workspace_id=str(workspace_id), op_id=str(op_id), cause=str(error))
            result = Failed(op_id, Fault(ErrorReason(error.reason), str(error)))
        except Exception as error:
            if _is_shortage(error):
                log.exception("this process is short of something", workspace_id=str(workspace_id))
                cause = "The machine has no threads, open files, memory or room on its disk left for the coordinator."
                result = Failed(op_id, Fault(ErrorReason.UNREACHABLE, cause))
            else:
                result = self._broke(workspace_id, op_id, error)
        finally:
            self._under_way.pop(workspace_id, None)
        self._results[workspace_id] = result
        if result is not SKIPPED and (not isinstance(result, Looked) or result.wakes):
            self._on_end()

    def _broke(self, workspace_id: WorkspaceId, op_id: OpId | None, error: Exception) -> Result:
        log.error("a driver call broke", workspace_id=str(workspace_id), op_id=str(op_id), exc_info=error)
        # The kind alone: what else such an error says may hold anything, credentials included.
        cause = f"Something went wrong here ({type(error).__name__}); the log has the details."
        return Broke(cause) if op_id is None else Failed(op_id, Fault(ErrorReason.ACTION_FAILED, cause))


def _is_shortage(error: Exception) -> bool:
    """Of what every call of this process needs: an outage, whoever met it."""
    if isinstance(error, OSError):
        return error.errno in _SHORTAGES
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "start new thread" in str(error))
