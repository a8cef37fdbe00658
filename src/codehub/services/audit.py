"""The audit log (SPEC section 3): written in the transaction of what it tells of, so that neither is without the other.

Details name things and never hold a secret.
"""

from codehub.db import audit
from codehub.db.pool import Connection
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Actor


async def record(
    conn: Connection, actor: Actor | None, action: str, workspace_id: WorkspaceId | None = None, **details: object
) -> None:
    """Write what `actor` (None: CodeHub itself) does, in the caller's transaction; `action` reads `thing.verb`."""
    await audit.insert(
        conn,
        user=actor.user_id if actor else None,
        kind=actor.kind.value if actor else "system",
        action=action,
        workspace=workspace_id,
        address=actor.address if actor else None,
        details=details,
    )
