"""The audit log (SPEC section 3): written in the transaction of what it tells of, so that neither is without the other.

Details name things and never hold a secret.
"""

from collections.abc import Sequence

from codehub.db import audit
from codehub.db.pool import Connection
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Actor


async def record(
    conn: Connection, actor: Actor | None, action: str, workspace_id: WorkspaceId | None = None, **details: object
) -> None:
    """Write what `actor` (None: CodeHub itself) does, in the caller's transaction; `action` reads `thing.verb`."""
    await record_all(conn, [entry_of(actor, action, workspace_id, **details)])


async def record_all(conn: Connection, entries: Sequence[audit.Entry]) -> None:
    """The same of many."""
    await audit.insert(conn, entries)


def entry_of(
    actor: Actor | None, action: str, workspace_id: WorkspaceId | None = None, **details: object
) -> audit.Entry:
    return audit.Entry(
        user=actor.user_id if actor else None,
        kind=actor.kind.value if actor else "system",
        action=action,
        workspace=workspace_id,
        address=actor.address if actor else None,
        details=details,
    )
