"""Activity is told once, and kept while Redis does not take it."""

import time
from collections.abc import Mapping
from typing import cast
from uuid import uuid4

from codehub.errors import Unavailable
from codehub.model.workspace import WorkspaceId
from codehub.signals.activity import RedisActivity
from codehub.web.proxy.reporting import Reporter
from codehub.web.proxy.visitors import Visitors


class Uses(Visitors):
    """Whatever the test says was used."""

    found: dict[WorkspaceId, float]
    forgotten: Mapping[WorkspaceId, float]

    def uses(self) -> dict[WorkspaceId, float]:
        return dict(self.found)

    def forget_uses(self, reported: Mapping[WorkspaceId, float]) -> None:
        self.forgotten = reported


class Activity:
    """Redis, which may be away."""

    def __init__(self) -> None:
        self.told: list[Mapping[WorkspaceId, float]] = []
        self.is_away = False

    async def report(self, ages: Mapping[WorkspaceId, float]) -> None:
        if self.is_away:
            raise Unavailable("Redis is away.")
        self.told.append(ages)


async def test_what_redis_did_not_take_is_told_again() -> None:
    activity, uses = Activity(), Uses(30)
    one, two = WorkspaceId(uuid4()), WorkspaceId(uuid4())
    uses.found, uses.forgotten = {one: time.monotonic() - 5}, {}
    reporter = Reporter(uses, cast("RedisActivity", activity), 30)
    activity.is_away = True
    await reporter.report()
    assert uses.forgotten == {}, "nothing is forgotten that was not told"
    activity.is_away = False
    await reporter.report()
    assert 5 <= activity.told[0][one] < 6, "how long ago it was, whatever this machine's wall clock says"
    assert uses.forgotten == uses.found
    uses.found = {**uses.found, two: time.monotonic()}
    await reporter.report()
    assert list(activity.told[1]) == [two], "once is enough"
