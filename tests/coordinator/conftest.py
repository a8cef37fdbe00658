from collections.abc import AsyncIterator

import pytest

from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Role, open_pool
from tests.coordinator.installation import Installation, installation


@pytest.fixture
async def records(database: str) -> AsyncIterator[DatabaseRecords]:
    async with (
        open_pool(database, Role.CONTROLLER, max_size=2) as controller,
        open_pool(database, Role.API, max_size=2) as api,
    ):
        yield DatabaseRecords(controller, api)


@pytest.fixture
async def site(database: str) -> AsyncIterator[Installation]:
    async with installation(database) as site:
        yield site
