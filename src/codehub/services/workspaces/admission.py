"""Admitting one more workspace, or one more that runs: counted and written in one transaction, so limits are exact."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from codehub.db.limits import Held, RunningWorkspace, count_all, count_held, hold_limits, limits_set, running_of
from codehub.db.pool import Connection
from codehub.errors import OverLimit
from codehub.model.limits import Quota, SetLimits, Usage, refusal
from codehub.model.sentences import number_of
from codehub.model.workspace import UserId, WorkspaceId


async def admit_new(conn: Connection, owner: UserId, quota: Quota) -> None:
    """Return if `owner` may have one more, and let nobody else count until the caller's transaction has ended."""
    await hold_limits(conn)
    most = quota_of(owner, await limits_set(conn, [owner]), quota).workspaces
    if await count_all(conn, owner) >= most:
        raise OverLimit(f"You have {number_of(most, 'workspace')}, the most you may have.", "Delete one first.")


async def admit(conn: Connection, owner: UserId, quota: Quota) -> None:
    """Return if a new one of `owner`'s may run, and let nobody else count until the caller's transaction has ended.

    Else OverLimit, whose details name what the owner has running.
    """
    refused = (await Places.held(conn, [owner], [])).take(owner, None, quota)
    if refused is not None:
        raise over_limit(refused, (await running_of(conn, [owner]))[owner])


def over_limit(refused: str, running: Sequence[RunningWorkspace]) -> OverLimit:
    return OverLimit(refused, details={"running": [{"id": str(each.id), "name": each.name} for each in running]})


def quota_of(owner: UserId, limits: Mapping[UserId | None, SetLimits], configured: Quota) -> Quota:
    """What was set for the owner, before what was set for all, before what is configured."""
    everybodys = limits.get(None, SetLimits()).over(configured)
    return limits.get(owner, SetLimits()).over(everybodys)


@dataclass(slots=True)
class Places:
    """What is taken, and what of the rest is given to those who ask in one transaction."""

    _found: Held
    given: list[UserId] = field(default_factory=list)

    @classmethod
    async def held(cls, conn: Connection, owners: Collection[UserId], ids: Collection[WorkspaceId]) -> "Places":
        """For these owners' workspaces; nobody else counts until the caller's transaction has ended."""
        return cls(await count_held(conn, owners, ids))

    def take(self, owner: UserId, workspace: WorkspaceId | None, configured: Quota) -> str | None:
        """One more of `owner`'s; or why not. One that is counted already takes no other place."""
        own = 1 if workspace in self._found.counted else 0
        usage = self._found.usages[owner]
        left = Usage(user=usage.user + self.given.count(owner) - own, total=usage.total + len(self.given) - own)
        refused = refusal(left, quota_of(owner, self._found.limits, configured))
        if refused is None and not own:
            self.given.append(owner)
        return refused
