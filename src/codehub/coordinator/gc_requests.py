"""Collections that administrators ask for, and the reports of every collection (table gc_runs).

A request is carried out at once and once: the leader takes the oldest that is not finished. One that waited for so long
that nobody remembers it is closed unread, since an administrator's word holds for the moment it was given in.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import structlog

from codehub.coordinator.collect import Collector, GcReport
from codehub.coordinator.orphans import Orphans
from codehub.db.gc_runs import GcRequest
from codehub.errors import CodeHubError

log = structlog.get_logger(__name__)

STALE = timedelta(hours=1)
_MOST_NAMED = 100  # keys of each kind in a report; the count is always complete


class GcLedger(Protocol):
    """Where requests come from and reports go."""

    async def now(self) -> datetime:
        """The database's time."""
        ...

    async def take_gc_request(self) -> GcRequest | None:
        """The oldest that is not finished."""
        ...

    async def finish_gc_request(self, identity: UUID, report: Mapping[str, Any]) -> None: ...

    async def record_gc(self, started_at: datetime, report: Mapping[str, Any]) -> None:
        """Of a cycle that nobody asked for."""
        ...


class GcRequests:
    """Between the collector and whoever wants to know."""

    def __init__(self, collector: Collector, orphans: Orphans, ledger: GcLedger) -> None:
        self._collector = collector
        self._orphans = orphans
        self._ledger = ledger

    async def cycle(self) -> None:
        """The periodic collection; a failure is reported, and is the loop's too."""
        started_at = await self._ledger.now()
        try:
            report = summary(await self._collector.collect())
        except CodeHubError as error:
            await self._ledger.record_gc(started_at, failure(error))
            raise
        await self._ledger.record_gc(started_at, report)

    async def honour(self) -> bool:
        """Carry out the oldest request; True when there was one, and there may be more."""
        request = await self._ledger.take_gc_request()
        if request is None:
            return False
        log.info("an administrator asked for a collection", request=str(request.id), dry_run=request.dry_run)
        await self._ledger.finish_gc_request(request.id, await self._carried_out(request))
        return True

    async def _carried_out(self, request: GcRequest) -> dict[str, Any]:
        if await self._ledger.now() - request.requested_at > STALE:
            return {"error": "No coordinator took it up within an hour, so it was not done. Ask again."}
        try:
            if request.orphans:
                return await self._orphans.collect(dry_run=request.dry_run, override=request.override)
            return summary(
                await self._collector.collect(
                    dry_run=request.dry_run, override=request.override, unknown_too=request.unknown_too
                )
            )
        except CodeHubError as error:
            return failure(error)


def summary(report: GcReport) -> dict[str, Any]:
    """A report as it is kept: all counts, and the first of each list."""
    lists = {
        "due": report.due,
        "foreign": report.foreign,
        "unremembered": report.unremembered,
        "missing": report.missing,
    }
    return {
        "at": report.at.isoformat(),
        "found": report.found,
        "bytes": report.bytes,
        "known": report.known,
        "orphans": report.orphans,
        **{f"{name}_count": len(each) for name, each in lists.items()},
        **{name: [str(key) for key in each[:_MOST_NAMED]] for name, each in lists.items()},
        "stopped": report.stopped,
        "deleted": report.deleted,
        "spared": report.spared,
        "failed": report.failed,
    }


def failure(error: CodeHubError) -> dict[str, Any]:
    return {"error": str(error)}
