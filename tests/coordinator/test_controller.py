"""The controller on a real database: the life of a workspace, and what happens when its surroundings misbehave."""

from collections.abc import AsyncIterator, Callable

import pytest

from codehub.model.workspace import Desired, Operation, Phase, Workspace
from tests.coordinator.installation import Installation, installation


@pytest.fixture
async def site(database: str) -> AsyncIterator[Installation]:
    async with installation(database) as site:
        yield site


def is_at(phase: Phase) -> Callable[[Workspace], bool]:
    return lambda row: row.status.phase is phase and row.status.operation is Operation.NONE


async def test_the_whole_life_of_a_workspace(site: Installation) -> None:
    async with site.controller() as controller:
        it = await site.add()
        await site.ticked_until(controller, it, is_at(Phase.RUNNING))
        site.world.home(it)["notes"] = b"what the user wrote"

        await site.wish(it, Desired.STANDBY)
        await site.ticked_until(controller, it, is_at(Phase.STANDBY))
        assert it not in site.world.instances

        await site.wish(it, Desired.ARCHIVED)
        row = await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
        assert it not in site.world.volumes
        assert row.status.archive_key in site.world.stored

        await site.wish(it, Desired.RUNNING)
        row = await site.ticked_until(controller, it, is_at(Phase.RUNNING))
        assert site.world.home(it) == {"notes": b"what the user wrote"}
        assert row.status.endpoint == site.world.instances[it].endpoint

        await site.wish(it, Desired.DELETED)
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.DELETING)
        assert row.wish.deleted_at is not None
        assert it not in site.world.volumes
