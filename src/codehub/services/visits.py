"""Visits: who enters a workspace, and by which door (SPEC section 12).

Owners enter by being logged in. An administrator enters only with an entry in the audit log, which the owner can see.
At a workspace's own origin a browser has a secret of its own, which opens that workspace (or that port of it) alone
and ends with the session it came from.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from codehub.config import AccountConfig
from codehub.db import clock, doors, history, listing, live, visits
from codehub.db.doors import Door, Opened
from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Connection, Pool, connection, read
from codehub.errors import NotLoggedIn
from codehub.model.visiting import Destination, Step, step_of
from codehub.model.workspace import Operation, UserId, WorkspaceId
from codehub.services import audit
from codehub.services.actors import Actor, ActorKind, UserRole
from codehub.services.sessions import hash_of, idle_of, new_secret
from codehub.services.workspaces.deciding import find

LONGEST = timedelta(days=7)
LONGEST_OF_OTHERS = timedelta(hours=12)  # then an administrator's next visit is recorded anew
_MOST_SHOWN = 200
_ROWS_AT_ONCE = 100  # that are made into workspaces before others get a turn


class Doors:
    """The proxy's: acts as a role that looks up little and writes only when a login was last used."""

    def __init__(self, pool: Pool, *, idle: timedelta, is_guarded: bool = True) -> None:
        self._pool = pool
        self._idle = idle
        self._is_guarded = is_guarded

    async def opened(self, asked: Sequence[Door]) -> Mapping[Door, Opened]:
        """Those that are open, in one statement. Raises Unavailable when the database does not answer in time."""
        return await read(self._pool, lambda conn: doors.opened(conn, asked, self._idle, is_guarded=self._is_guarded))

    async def touch(self, sessions: Collection[UUID], tokens: Collection[UUID]) -> None:
        await read(self._pool, lambda conn: doors.touch(conn, sessions, tokens))


async def let_in(pool: Pool, actor: Actor, workspace: WorkspaceId, owner: UserId) -> bool:
    """Whether the door was opened just now: for one who is not the owner, with an entry in the audit log."""
    if actor.user_id == owner:
        return False
    actor.require_admin()
    actor.require_write()
    credential = UUID(actor.credential_id)
    async with connection(pool) as conn:
        is_new = await visits.let_in(
            conn,
            session=credential if actor.kind is ActorKind.USER else None,
            token=credential if actor.kind is ActorKind.TOKEN else None,
            workspace=workspace,
            lifetime=LONGEST_OF_OTHERS,
        )
        if is_new:
            await audit.record(conn, actor, "workspace.visit", workspace)
        return is_new


async def enter(
    pool: Pool, config: AccountConfig, session: UUID, to: Destination, address: str | None
) -> tuple[str, timedelta]:
    """A secret for one browser at the workspace's own origin, and how long it may last at most."""
    secret = new_secret()
    async with connection(pool) as conn:
        arrival = await visits.arrive(conn, session, to.workspace, idle_of(config))
        if arrival is None:
            raise NotLoggedIn("The login has ended.", "Log in again.")
        is_other = arrival.user_id != arrival.owner_id
        lifetime = LONGEST_OF_OTHERS if is_other else LONGEST
        await visits.insert(conn, session, hash_of(secret), to, lifetime)
        if is_other:
            await _record(conn, arrival, session, to.workspace, address)
    return secret, lifetime


async def _record(
    conn: Connection, arrival: visits.Arrival, session: UUID, workspace: WorkspaceId, address: str | None
) -> None:
    actor = Actor(
        user_id=arrival.user_id,
        username=arrival.username,
        role=UserRole.ADMIN,
        kind=ActorKind.USER,
        credential_id=str(session),
        address=address,
    )
    await audit.record(conn, actor, "workspace.visit", workspace)


async def has_entered(pool: Pool, config: AccountConfig, secret: str, to: Destination) -> bool:
    """Whether a browser's visit to the workspace's own origin still holds: the gate lets it pass while it runs."""
    return await visitor(pool, config, secret, to) is not None


async def visitor(
    pool: Pool, config: AccountConfig, secret: str, to: Destination, address: str | None = None
) -> Actor | None:
    """Who is behind a visit that still holds. What they may do with it is for this one workspace only."""
    found = await read(pool, lambda conn: visits.visitor(conn, hash_of(secret), to, idle_of(config)))
    if found is None:
        return None
    return Actor(
        user_id=found.user_id,
        username=found.username,
        role=UserRole(found.role),
        kind=ActorKind.USER,
        credential_id=str(found.session),
        address=address,
    )


async def look(
    pool: Pool, config: AccountConfig, workspaces: Sequence[WorkspaceId], sessions: Collection[UUID]
) -> tuple[datetime, Mapping[WorkspaceId, ShownWorkspace], Collection[UUID]]:
    """The database's time, these workspaces, and which of the sessions have not ended: for many at once."""
    shown: dict[WorkspaceId, ShownWorkspace] = {}
    async with connection(pool) as conn:
        now = await clock.now(conn)
        alive = await live.alive(conn, sessions, [], idle_of(config))
        for at in range(0, len(workspaces), _ROWS_AT_ONCE):
            shown |= await listing.by_ids(conn, workspaces[at : at + _ROWS_AT_ONCE])
    return now, shown, alive


async def found(pool: Pool, actor: Actor, workspace: WorkspaceId) -> ShownWorkspace:
    """The workspace that somebody wants to enter; NotFound unless it is theirs, or they are an administrator."""
    return await read(pool, lambda conn: find(conn, actor, workspace))


async def is_running(pool: Pool, workspace: WorkspaceId) -> bool:
    """For one who has entered before."""
    shown = await read(pool, lambda conn: listing.by_id(conn, workspace))
    return shown is not None and step_of(shown.workspace) is Step.IN


async def usual_seconds(pool: Pool, workspace: WorkspaceId, operation: Operation) -> float | None:
    """How long this operation took, of this workspace, the last times; None when that is not known."""
    return await read(pool, lambda conn: history.usual_seconds(conn, workspace, operation))


async def by_others(pool: Pool, actor: Actor, workspace: WorkspaceId) -> Sequence[tuple[datetime, str | None]]:
    """When somebody else than the owner entered, and who: for the owner to see."""

    async def work(conn: Connection) -> Sequence[tuple[datetime, str | None]]:
        await find(conn, actor, workspace)
        return await visits.by_others(conn, workspace, _MOST_SHOWN)

    return await read(pool, work)
