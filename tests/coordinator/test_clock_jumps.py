"""The database's clock jumps by a day (it failed over to another machine): nothing times out."""

from dataclasses import replace
from datetime import timedelta

import pytest

from codehub.coordinator.ports import Asked, Reading
from codehub.coordinator.records import DatabaseRecords
from codehub.model.workspace import Desired, Operation, Phase
from tests.coordinator.installation import Installation, is_at, running, ticks


class JumpingRecords(DatabaseRecords):
    """The database, on a machine whose clock may be off."""

    skew = timedelta()

    async def read(self, asked: Asked) -> Reading:
        reading = await super().read(asked)
        return replace(reading, now=reading.now + self.skew)


@pytest.mark.parametrize("days", [-1, 1])
async def test_an_operation_in_progress_does_not_time_out(site: Installation, days: int) -> None:
    records = JumpingRecords(site.controller_pool, site.api)
    async with site.controller(records=records) as controller:
        it = await running(site, controller)
        await site.wish(it, Desired.ARCHIVED)
        await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
        site.world.held.add(it)
        await site.wish(it, Desired.RUNNING)
        await site.ticked_until(controller, it, lambda row: row.status.operation is Operation.RESTORING)
        await ticks(controller, 3)
        records.skew = timedelta(days=days)
        await ticks(controller, 3)
        assert (await site.row(it)).status.operation is Operation.RESTORING
        site.world.held.clear()
        await site.ticked_until(controller, it, is_at(Phase.RUNNING))
