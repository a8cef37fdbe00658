"""Admitting one more running workspace: counted and written in one transaction, so that limits hold exactly."""

from codehub.db.limits import count_running, hold_limits, running_of
from codehub.db.pool import Connection
from codehub.errors import OverLimit
from codehub.model.limits import Quota, refusal
from codehub.model.workspace import UserId, WorkspaceId


async def admit(conn: Connection, owner: UserId, quota: Quota, excluding: WorkspaceId | None = None) -> None:
    """Return if one more of `owner`'s may run, and let nobody else count until the caller's transaction has ended.

    Else OverLimit, whose details name what the owner has running.
    """
    await hold_limits(conn)
    refused = refusal(await count_running(conn, owner, excluding), quota)
    if refused is not None:
        running = [{"id": str(each.id), "name": each.name} for each in await running_of(conn, owner)]
        raise OverLimit(refused, details={"running": running})
