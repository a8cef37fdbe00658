"""Admitting one more workspace, or one more that runs: counted and written in one transaction, so limits are exact."""

from codehub.db.limits import count_all, count_running, hold_limits, running_of
from codehub.db.pool import Connection
from codehub.errors import OverLimit
from codehub.model.limits import Quota, refusal
from codehub.model.workspace import UserId, WorkspaceId


async def admit_new(conn: Connection, owner: UserId, most: int) -> None:
    """Return if `owner` may have one more, and let nobody else count until the caller's transaction has ended."""
    await hold_limits(conn)
    if await count_all(conn, owner) >= most:
        raise OverLimit(f"You have {most} workspaces, the most you may have.", "Delete one first.")


async def admit(conn: Connection, owner: UserId, quota: Quota, excluding: WorkspaceId | None = None) -> None:
    """Return if one more of `owner`'s may run, and let nobody else count until the caller's transaction has ended.

    Else OverLimit, whose details name what the owner has running.
    """
    await hold_limits(conn)
    refused = refusal(await count_running(conn, owner, excluding), quota)
    if refused is not None:
        running = [{"id": str(each.id), "name": each.name} for each in await running_of(conn, owner)]
        raise OverLimit(refused, details={"running": running})
