"""The cycle, driven as people drive it: create, run, write, stop, archive, restore, run, write, delete.

Whoever drives it knows nothing of coordinators: it wishes, waits and looks. At the end every byte that was written is
compared, and nothing may be left over. At no time may the workspace be in ERROR.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from codehub.db import reads, wishes
from codehub.db.pool import Pool, Role, connection, open_pool
from codehub.db.wishes import NewWorkspace
from codehub.errors import Unavailable
from codehub.model.workspace import ArchiveKey, Desired, Operation, Phase, Workspace, WorkspaceId
from tests.crash.site import IMAGE, Site, ask
from tests.crash.writes import assert_one_writer_each, writers
from tests.db.support import OWNER
from tests.db.wishing import set_desired
from tests.support import eventually_async

PATIENCE_SECONDS = 600.0  # for broken code, not for slow machines: many deaths may come on the way


@dataclass
class Person:
    """Somebody with one workspace."""

    site: Site
    api: Pool
    id: WorkspaceId = field(default_factory=lambda: WorkspaceId(uuid4()))
    files: dict[str, bytes] = field(default_factory=dict)  # what must be in the home, wherever that is
    row: Workspace | None = None  # as last seen
    middles: set[Operation] = field(default_factory=set)  # in each of these operations …
    disturb: Callable[[Operation], Awaitable[None]] | None = None  # … this is done, the first time it is seen

    async def create(self) -> None:
        place = self.site.place
        new = NewWorkspace(
            id=self.id,
            owner_user_id=OWNER,
            name="a workspace",
            image_ref=IMAGE,
            instance_backend=place.instance_backend,
            storage_backend=place.storage_backend,
            standby_ttl_seconds=0,
            archive_ttl_seconds=0,
            asked_by="a test",
        )
        async with connection(self.api) as conn:
            await wishes.insert(conn, new)

    async def look(self) -> Workspace | None:
        """The row; None while the database is away."""
        try:
            async with connection(self.api) as conn:
                (self.row,) = await reads.by_ids(conn, [self.id])
        except Unavailable:
            return None
        assert self.row.status.phase is not Phase.ERROR, self.row.status
        if self.disturb is not None and (operation := self.row.status.operation) in self.middles:
            self.middles.discard(operation)
            await self.disturb(operation)
        return self.row

    async def wish(self, desired: Desired) -> None:
        """As the service layer does: decided from the row at rest, again if it changed meanwhile."""

        async def accepted() -> bool:
            row = await self.look()
            if row is None or row.status.operation is not Operation.NONE:
                return False
            try:
                async with connection(self.api) as conn:
                    return await set_desired(conn, desired, was=row, asked_by="a test")
            except Unavailable:
                return False

        await eventually_async(accepted, f"the wish for {desired} is accepted", PATIENCE_SECONDS)

    async def until(self, condition: Callable[[Workspace], bool], what: str) -> Workspace:
        async def holds() -> bool:
            row = await self.look()
            return row is not None and condition(row)

        try:
            await eventually_async(holds, what, PATIENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}; the row is {self.row and self.row.status}") from None
        assert self.row is not None
        return self.row

    async def becomes(self, phase: Phase) -> Workspace:
        return await self.until(
            lambda row: row.status.phase is phase and row.status.operation is Operation.NONE, f"it is {phase}"
        )

    async def get(self, desired: Desired) -> Workspace:
        """Wish for it, and wait for it."""
        await self.wish(desired)
        return await self.becomes(Phase(desired))

    async def write(self, name: str, size: int) -> None:
        """Through the running workspace."""
        content = os.urandom(size)
        await ask(await self.endpoint(), "PUT", f"/files/{name}", content)
        self.files[name] = content

    async def read(self, name: str) -> bytes:
        return await ask(await self.endpoint(), "GET", f"/files/{name}")

    async def endpoint(self) -> str:
        row = await self.becomes(Phase.RUNNING)
        assert row.status.endpoint is not None
        return row.status.endpoint

    # -- the cycle ---------------------------------------------------------------------------------------------------

    async def run(self, size: int = 100_000) -> None:
        """All of it, and what must be true at the end."""
        await self.create()
        await self.becomes(Phase.RUNNING)
        await self.write("notes/first.bin", size)
        await self.get(Desired.STANDBY)
        await self.get(Desired.ARCHIVED)
        await self.get(Desired.RUNNING)
        assert await self.read("notes/first.bin") == self.files["notes/first.bin"]
        await self.write("second.bin", size)
        await self.delete()

    async def delete(self) -> None:
        await self.wish(Desired.DELETED)
        row = await self.until(_is_in_the_trash, "it is in the trash")
        assert row.status.archive_key is not None
        assert await self.site.archived(row.status.archive_key) == self.files
        await self.leaves_nothing(row.status.archive_key)

    async def leaves_nothing(self, key: ArchiveKey) -> None:
        """Nothing runs, nothing takes room but the one archive that the trash keeps."""

        async def clean() -> bool:
            return (
                not self.site.place.left_over()
                and not self.site.unfinished()
                and await self.site.stored(self.id) == [key]
            )

        try:
            await eventually_async(clean, "nothing is left over", 30)
        except AssertionError as error:
            left = [*self.site.place.left_over(), *self.site.unfinished(), *await self.site.stored(self.id)]
            raise AssertionError(f"{error}: {left}") from None
        await self.look()
        assert_one_writer_each(await writers(self.site.database_url))


def _is_in_the_trash(row: Workspace) -> bool:
    return (
        row.wish.deleted_at is not None
        and row.status.phase is Phase.DELETING
        and row.status.operation is Operation.NONE
    )


@asynccontextmanager
async def person(site: Site) -> AsyncIterator[Person]:
    async with open_pool(site.database_url, Role.API, max_size=2) as api:
        yield Person(site, api)
