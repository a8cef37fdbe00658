"""A controller on a real database and a world in memory: what most of its tests start from."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg

from codehub.coordinator.controller import Controller
from codehub.coordinator.pace import Pace
from codehub.coordinator.records import DatabaseRecords
from codehub.db import losses, reads
from codehub.db.leadership import bump_epoch
from codehub.db.pool import Connection, Pool, Role, connection, open_pool
from codehub.drivers.base import Resources
from codehub.drivers.memory import MemoryWorld
from codehub.model.failure import Rules
from codehub.model.suspicion import Place
from codehub.model.workspace import Desired, InstanceBackend, Operation, OpId, Phase, UserId, Workspace, WorkspaceId
from tests.db.support import add_workspace
from tests.db.wishing import set_desired

_PAUSES_SECONDS = 5.0


@dataclass
class FakeLeadership:
    """Leadership that a test takes away."""

    epoch: int
    fresh: bool = True

    def is_fresh(self) -> bool:
        return self.fresh


@dataclass
class Installation:
    """One database, one world, and any number of controllers on them."""

    api: Pool
    controller_pool: Pool
    owner: Connection
    world: MemoryWorld = field(default_factory=MemoryWorld)

    @property
    def records(self) -> DatabaseRecords:
        return DatabaseRecords(self.controller_pool, self.api)

    async def leadership(self) -> FakeLeadership:
        async with connection(self.controller_pool) as conn:
            return FakeLeadership(await bump_epoch(conn, "a test"))

    @asynccontextmanager
    async def controller(self, **changes: Any) -> AsyncIterator[Controller]:
        """A new leader's controller; leaving it is its death."""
        leadership = changes.pop("leadership", None) or await self.leadership()
        given = {
            "rules": Rules(),
            "resources": Resources(),
            "pace": Pace(),
            "new_op_id": lambda: OpId(uuid4()),
            **changes,
        }
        controller = Controller(
            given.pop("records", self.records),
            given.pop("archives", self.world.archives),
            given.pop("backends", {InstanceBackend.PROCESS: self.world.backend()}),
            leadership,
            **given,
        )
        async with controller.working():
            yield controller

    async def add(self, **columns: Any) -> WorkspaceId:
        return await add_workspace(self.owner, **columns)

    async def row(self, identity: WorkspaceId) -> Workspace:
        (row,) = await reads.by_ids(self.owner, [identity])
        return row

    async def wish(self, identity: WorkspaceId, desired: Desired) -> None:
        """As the service layer does; the row must be at rest."""
        async with connection(self.api) as conn:
            (row,) = await reads.by_ids(conn, [identity])
            assert await set_desired(conn, desired, was=row, asked_by="a test")

    async def accept_losses(self, place: Place) -> None:
        """As the service layer does."""
        async with connection(self.api) as conn:
            await losses.accept(conn, place, UserId(uuid4()))

    async def ticked_until(
        self, controller: Controller, identity: WorkspaceId, condition: Callable[[Workspace], bool], ticks: int = 60
    ) -> Workspace:
        """Tick until the row is as wanted; a number of ticks, not a time, is the limit."""
        return await until(controller, lambda: self.row(identity), condition, ticks)


async def until(
    controller: Controller,
    read: Callable[[], Awaitable[Workspace]],
    condition: Callable[[Workspace], bool],
    ticks: int,
) -> Workspace:
    """Within so many ticks; some pauses are counted in seconds, however quick the machine."""
    row = await read()
    now = asyncio.get_running_loop().time
    ticked, until_at = 0, now() + _PAUSES_SECONDS
    while ticked < ticks or now() < until_at:
        if condition(row):
            return row
        await controller.tick()
        await rest(controller)
        row = await read()
        ticked += 1
    raise AssertionError(f"not within {ticked} ticks: {row.status}")


async def rest(controller: Controller) -> None:
    """Until no errand is under way."""
    async with asyncio.timeout(10):
        while controller.errands:  # noqa: ASYNC110 - they end by themselves
            await asyncio.sleep(0)


def is_at(phase: Phase) -> Callable[[Workspace], bool]:
    return lambda row: row.status.phase is phase and row.status.operation is Operation.NONE


async def running(site: Installation, controller: Controller, **columns: object) -> WorkspaceId:
    it = await site.add(**columns)
    await site.ticked_until(controller, it, is_at(Phase.RUNNING))
    return it


async def ticks(controller: Controller, number: int) -> None:
    for _ in range(number):
        await controller.tick()
        await rest(controller)


@asynccontextmanager
async def installation(database: str) -> AsyncIterator[Installation]:
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(open_pool(database, Role.API, max_size=4))
        controller = await stack.enter_async_context(open_pool(database, Role.CONTROLLER, max_size=4))
        owner = await stack.enter_async_context(await psycopg.AsyncConnection.connect(database, autocommit=True))
        yield Installation(api, controller, owner)
