"""Leadership: one coordinator at a time works, the others stand by.

A leader asks the database every `CHECK_SECONDS` whether it still holds the lock, and is *fresh* for `FRESH_SECONDS`
after a yes. That is less than the time after which the database gives a silent leader's lock away, so that whoever is
fresh is the only leader; one that was frozen in between is stopped by epochs (writes) and incarnations (volumes).
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import structlog

from codehub.db.leading import LOST_AFTER_SECONDS, LeaderSeat, open_seat
from codehub.errors import StaleLeader, Unavailable
from codehub.together import together

log = structlog.get_logger(__name__)

CHECK_SECONDS = 1.0
FRESH_SECONDS = 4.0
STAND_BY_SECONDS = 0.2  # between two attempts to become the leader
_AGAIN_SECONDS = 1.0  # after an outage of the database

assert CHECK_SECONDS < FRESH_SECONDS < LOST_AFTER_SECONDS


class Leader:
    """Implements ports.Leadership."""

    def __init__(self, epoch: int, confirmed_at: float) -> None:
        self.epoch = epoch
        self._confirmed_at = confirmed_at

    def is_fresh(self) -> bool:
        return asyncio.get_running_loop().time() - self._confirmed_at < FRESH_SECONDS

    async def keep(self, seat: LeaderSeat) -> None:
        """Confirm it again and again; StaleLeader as soon as that fails."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            asked_at = loop.time()  # the answer is true for the moment it was asked, not for when it arrived
            try:
                held = await seat.is_held()
            except Unavailable as error:
                raise StaleLeader(f"Leadership {self.epoch} could not be confirmed: {error}") from error
            if not held:
                raise StaleLeader(f"Leadership {self.epoch} has ended.")
            self._confirmed_at = asked_at


@asynccontextmanager
async def _elected(database_url: str, on_standby: Callable[[], None]) -> AsyncIterator[tuple[Leader, LeaderSeat]]:
    async with open_seat(database_url) as seat:
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        while not await seat.try_to_take():
            on_standby()
            await asyncio.sleep(STAND_BY_SECONDS)
            asked_at = loop.time()
        epoch = await seat.begin(f"{socket.gethostname()}:{os.getpid()}")
        yield Leader(epoch, asked_at), seat


class Election:
    """Stands by, leads when it can, and starts over whenever leadership is lost."""

    def __init__(self, database_url: str, work: Callable[[Leader], Awaitable[None]]) -> None:
        self._database_url = database_url
        self._work = work
        self.epoch: int | None = None  # of the leadership that is held now
        self.is_standing_by = False
        self._trouble = ""

    async def run(self) -> None:
        """For ever."""
        while True:
            try:
                await self._term()
            except* (Unavailable, StaleLeader) as errors:
                self._say(str(errors.exceptions[0]))
            except* Exception:  # whatever broke, somebody must lead
                log.exception("the coordinator broke and starts over")
            finally:
                self.epoch, self.is_standing_by = None, False
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _term(self) -> None:
        async with _elected(self._database_url, self._stand_by) as (leader, seat):
            self.epoch, self.is_standing_by, self._trouble = leader.epoch, False, ""
            log.info("this coordinator leads", epoch=leader.epoch)
            await together({"leadership": leader.keep(seat), "work": _all(self._work(leader))})

    def _stand_by(self) -> None:
        if not self.is_standing_by:
            log.info("another coordinator leads; this one stands by")
        self.is_standing_by, self._trouble = True, ""

    def _say(self, trouble: str) -> None:
        """Once per cause: the database may be away for long."""
        if trouble != self._trouble:
            log.warning("leadership ended", cause=trouble)
        self._trouble = trouble


async def _all(work: Awaitable[None]) -> None:
    await work
