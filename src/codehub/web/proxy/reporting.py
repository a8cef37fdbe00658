"""Activity, from the proxy's memory to Redis: every 30 s and at stop. What Redis did not take is told again.

How long ago it was is told, never when: this machine's wall clock may be wrong (ADR 18).
"""

import asyncio
import time

import structlog

from codehub.errors import Unavailable
from codehub.model.workspace import WorkspaceId
from codehub.signals.activity import RedisActivity
from codehub.web.proxy.visitors import Visitors

log = structlog.get_logger(__name__)


class Reporter:
    """One for each process that has the public port."""

    def __init__(self, visitors: Visitors, activity: RedisActivity, interval: float) -> None:
        self._visitors = visitors
        self._activity = activity
        self._interval = interval
        self._told: dict[WorkspaceId, float] = {}
        self._is_refused = False

    async def run(self) -> None:
        """Until cancelled; the last report is the caller's to make, once nothing is under way any more."""
        while True:
            await asyncio.sleep(self._interval)
            await self.report()

    async def report(self) -> None:
        uses = self._visitors.uses()
        fresh = {which: at for which, at in uses.items() if at > self._told.get(which, float("-inf"))}
        now = time.monotonic()
        try:
            await self._activity.report({which: now - at for which, at in fresh.items()})
        except Unavailable as error:
            if not self._is_refused:
                log.warning("activity is kept until Redis takes it", cause=str(error))
            self._is_refused = True
            return
        self._is_refused = False
        self._told = uses
        self._visitors.forget_uses(uses)
