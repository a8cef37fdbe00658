"""Letting rows of a database that is older than its archives have the newest of those, and telling their owners.

As the owner of the tables, while nobody leads: the coordinator that follows finds rows that name what the store has.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from codehub.db import adoption
from codehub.db.connecting import session
from codehub.db.rows import home_context_of
from codehub.model.conditions import archive_adopted, stored
from codehub.model.workspace import ArchiveKey, HomeContext, InstanceBackend, WorkspaceId

# A home that was on a volume at the time of the backup, and is on no whole one now, became that archive since.
_ADOPT = """
WITH adopted AS (
    UPDATE workspaces
    SET archive_key = %(new)s, conditions = conditions || %(told)s,
        home_ctx = CASE
            WHEN %(on_no_whole_volume)s AND instance_backend::text = ANY(%(looked_at)s) AND deleted_at IS NULL
            THEN home_ctx || '{"volume": "none", "incarnation": null, "uid": null, "restore_marker": null}'
            ELSE home_ctx END
    WHERE id = %(id)s AND archive_key IS NOT DISTINCT FROM %(old)s AND purged_at IS NULL AND operation = 'NONE'
    RETURNING id, phase, operation, error_reason
)
INSERT INTO workspace_history (workspace_id, at, phase, operation, error_reason, reason, cause)
SELECT id, now(), phase, operation, error_reason, %(sentence)s, %(sentence)s FROM adopted
"""

# A home that may still be on a volume does not descend from the archive that its row is given: when the next archive
# replaces that one, it must not pass for an older state of the home (ADR 16).
_FORGET = """
DELETE FROM archive_operations AS remembered USING workspaces
WHERE workspaces.id = %(id)s AND home_ctx ->> 'volume' = 'live' AND archive_key = %(new)s
      AND remembered.workspace_id = workspaces.id
      AND archive_key = remembered.workspace_id || '/' || remembered.op_id || '/home.tar.zst'
"""

_HOMES = "SELECT id, home_ctx FROM workspaces WHERE id = ANY(%s)"


@dataclass(frozen=True, slots=True)
class Adoption:
    """A verified archive for a workspace, in place of the one that its row names."""

    workspace: WorkspaceId
    old: ArchiveKey | None
    new: ArchiveKey
    archived_at: datetime


async def homes(database_url: str, ids: Collection[WorkspaceId]) -> Mapping[WorkspaceId, HomeContext]:
    """What the rows say of these homes."""
    async with session(database_url) as conn:
        rows = await (await conn.execute(_HOMES, [list(ids)])).fetchall()
    return {WorkspaceId(identity): home_context_of(stored) for identity, stored in rows}


async def adopt(
    database_url: str,
    adoptions: Collection[Adoption],
    database_of: datetime,
    on_no_whole_volume: Collection[WorkspaceId],
    looked_at: Collection[InstanceBackend],
    *,
    undecided: Collection[WorkspaceId] = (),
) -> Sequence[WorkspaceId]:
    """Which were written. `database_of`: the moment that the database was restored to.

    It is done with that, but for those that are `undecided`.

    `on_no_whole_volume` is said of the backends that were `looked_at`: homes on any other may be there.
    """
    written = []
    async with session(database_url) as conn, conn.transaction():
        row = await (await conn.execute("SELECT now()")).fetchone()
        assert row is not None
        for one in adoptions:
            key, condition = archive_adopted(one.archived_at, database_of, row[0])
            arguments = {
                "id": one.workspace,
                "old": one.old,
                "new": one.new,
                "told": Jsonb({key: stored(condition)}),
                "on_no_whole_volume": one.workspace in on_no_whole_volume,
                "looked_at": [str(backend) for backend in looked_at],
                "sentence": condition.message,
            }
            done = await conn.execute(_ADOPT, arguments)
            await conn.execute(_FORGET, arguments)
            written += [one.workspace] * done.rowcount
        await adoption.note(conn, undecided)
    return written
