"""Whether a restore has yet to adopt the newer archives of the store (db/adopting.py).

That takes hours where homes are large, and comes after the restore's commit; whatever ends it in between, this stays.
While it does, no home is made from what the rows concerned name: it would be older than what the store has.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg

from codehub.db.connecting import session
from codehub.db.pool import Connection
from codehub.model.workspace import WorkspaceId

WAY_ON = (
    "Stop every CodeHub, then: codehub restore --adopt-newer (or, to go on without those archives: "
    "codehub restore --no-adopt-newer)."
)

_READ = "SELECT adoption_due, adoption_due_of FROM leadership"
_NOTE = """
UPDATE leadership SET adoption_due = CASE WHEN %(of)s <> '{}'::uuid[] THEN adoption_due END,
                      adoption_due_of = nullif(%(of)s, '{}'::uuid[])
"""


@dataclass(frozen=True, slots=True)
class AdoptionDue:
    """Of a database that was restored to that moment; `only`: whose archives could not be read. None: of everybody."""

    database_of: datetime
    only: frozenset[WorkspaceId] | None = None

    def concerns(self, workspace_id: WorkspaceId) -> bool:
        return self.only is None or workspace_id in self.only

    @property
    def told(self) -> str:
        whose = "workspaces" if self.only is None else f"{len(self.only)} workspaces"
        return (
            f"The database was restored to {self.database_of:%F %T} UTC, and newer archives of {whose} are not adopted "
            "yet. No home of theirs is restored or created before that."
        )

    @property
    def trouble(self) -> str:
        """For /readyz."""
        return f"{self.told} {WAY_ON}"


def adoption_of(due: datetime | None, of: Collection[UUID] | None) -> AdoptionDue | None:
    """As the two columns say it."""
    return None if due is None else AdoptionDue(due, None if of is None else frozenset(map(WorkspaceId, of)))


async def look(conn: Connection) -> AdoptionDue | None:
    row = await (await conn.execute(_READ)).fetchone()
    return None if row is None else adoption_of(*row)


async def read(database_url: str) -> AdoptionDue | None:
    """The same, for commands; None in a database that knows of no such thing."""
    async with session(database_url) as conn:
        try:
            return await look(conn)
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            return None


async def note(conn: Connection, undecided: Collection[WorkspaceId]) -> None:
    """Adopted, or not wanted: but for these, of whom it is still due."""
    await conn.execute(_NOTE, {"of": sorted(undecided)})


async def give_up(database_url: str) -> None:
    """The workspaces go on with what their rows name."""
    async with session(database_url) as conn:
        await note(conn, ())
