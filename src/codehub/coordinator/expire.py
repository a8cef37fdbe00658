"""The TTL runner: takes in what proxies saw, then lets idle workspaces step down (SPEC section 7).

A workspace is stopped for being idle only when everything that could have told of its use was heard: the visits were
all taken in, and Redis has lost none of them for two flush intervals (a proxy keeps a visit until Redis took it, so
after that long everything lost has been told again). Archiving what has been stopped for long needs no such proof.
Whatever puts a TTL off between the reading and the writing wins, by compare-and-set; the next run then comes sooner,
with growing pauses. A jump of the database's clock is no idle time: everybody's begins anew (ADR 18).
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from codehub.coordinator.ports import Activity, Expiration, IdleRecords
from codehub.model.clocks import JUMP_SECONDS, ClockWatch
from codehub.model.workspace import Desired

log = structlog.get_logger(__name__)

_PAGE = 1000
_MOST_PAGES = 100  # of one run; more is left to the next, which follows at once


@dataclass(frozen=True, slots=True)
class _Heard:
    """What came of listening to Redis."""

    can_stop: bool  # whoever looks idle is idle
    more: bool = False  # there were more visits than one run may take
    failure: Exception | None = None


class Expirer:
    """One run: drain activity, then expire what is due."""

    def __init__(
        self,
        records: IdleRecords,
        activity: Activity,
        *,
        flush_interval: float,
        clock: ClockWatch | None = None,
        page: int = _PAGE,
        most_pages: int = _MOST_PAGES,
    ) -> None:
        self._page, self._most_pages = page, most_pages
        self._records = records
        self._activity = activity
        self._clock = clock or ClockWatch(JUMP_SECONDS)  # the database's; outlives this leadership if it is given
        self._trust_after = 2 * flush_interval
        self._heard_since: float | None = None  # on the event loop's clock; None: not since the last failure
        self._collisions = 0  # runs in a row in which a row changed between reading and writing
        self._collided = False

    async def run_once(self) -> bool:
        """True when more is due. Raises what kept it from hearing of activity, after archiving what was due."""
        self._collided = False
        heard, more = await self._expire(await self._listen())
        self._collisions = self._collisions + 1 if self._collided else 0
        if heard.failure is not None:
            raise heard.failure
        return more or heard.more

    def period(self, usual: float) -> float:
        """Seconds until the next run: 1, 2, 4 … while rows change under its hands, for what remains due of them."""
        return min(2.0 ** min(self._collisions - 1, 20), usual) if self._collisions else usual

    async def _listen(self) -> _Heard:
        try:
            await self._heed_the_clock()
            drained = await self._drain()
            return _Heard(await self._heard_everything() and drained, more=not drained)
        except Exception as error:  # noqa: BLE001 - raised by run_once: archiving does not wait for it
            self._heard_since = None
            return _Heard(can_stop=False, failure=error)

    async def _heed_the_clock(self) -> None:
        """Asked before and after reading what is due, so a jump while it was read changes those rows and wins."""
        now, ours = (await self._records.now()).timestamp(), asyncio.get_running_loop().time()
        if jump := self._clock.jump(now, ours):
            count = await self._records.restart_idle_times(timedelta(seconds=jump))
            log.warning("the database's clock jumped; idle times begin anew", seconds=round(jump), count=count)
        self._clock.note(now, ours)

    async def _drain(self) -> bool:
        """Take in every visit; False when there were more than one run may take."""
        for _ in range(self._most_pages):
            visits = await self._activity.visits(self._page)
            if not visits:
                return True
            await self._records.touch({who: visit.age for who, visit in visits.items()})
            await self._activity.forget(visits)  # after it is in the database: a crash between them repeats it
        return False

    async def _heard_everything(self) -> bool:
        """Asked after draining: a loss between the two would otherwise look like an idle user."""
        continuous = await self._activity.is_continuous()
        now = asyncio.get_running_loop().time()
        if not continuous or self._heard_since is None:
            self._heard_since = now
        return continuous and now - self._heard_since >= self._trust_after

    async def _expire(self, heard: _Heard) -> tuple[_Heard, bool]:
        """Page by page; what was heard last, and whether more is due."""
        for _ in range(self._most_pages):
            due, page_is_full = await self._due(can_stop=heard.can_stop)
            if any(_stops(each) for each in due):
                heard = await self._listen()  # visits since the last time change the rows just read, and so win
                due = [each for each in due if heard.can_stop or not _stops(each)]
            written = await self._records.expire(due) if due else 0
            self._collided |= written < len(due)
            if written:
                log.info("idle workspaces step down", count=written)
            if not page_is_full or not written:
                return heard, False
        return heard, True

    async def _due(self, *, can_stop: bool) -> tuple[Sequence[Expiration], bool]:
        """What may be done of what is due, and whether there may be more; what must wait never hides the rest."""
        limit = self._page
        while True:
            found = await self._records.due(limit)
            due = [each for each in found if can_stop or not _stops(each)]
            page_is_full = len(found) >= limit
            if due or not page_is_full:
                return due, page_is_full
            limit *= 4


def _stops(expiration: Expiration) -> bool:
    return expiration.transition.to is Desired.STANDBY
