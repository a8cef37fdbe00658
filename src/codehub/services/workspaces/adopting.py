"""Giving an archive that no workspace names to a user, as a new workspace. For whoever runs the installation: no
request over HTTP can ask for it, since whose home the archive holds is known to nobody but people.
"""

from codehub.db import accounts
from codehub.db.pool import Pool, connection
from codehub.errors import NotFound
from codehub.model.workspace import ArchiveKey, Desired
from codehub.services.actors import Actor, ActorKind, UserRole
from codehub.services.workspaces.creating import Blueprint, create
from codehub.services.workspaces.showing import Encoded
from codehub.services.workspaces.terms import Terms


async def adopt(pool: Pool, terms: Terms, key: ArchiveKey, username: str, name: str) -> Encoded:
    """A new workspace, archived, whose home is what the archive holds; the archive itself stays."""
    async with connection(pool) as conn:
        user = await accounts.by_name(conn, username)
    if user is None:
        raise NotFound(f"There is no user {username!r}.", "See: codehub user list")
    owner = Actor(
        user_id=user.id,
        username=user.username,
        role=UserRole(user.role),
        kind=ActorKind.USER,
        credential_id="operator",
    )
    return await create(pool, terms, owner, Blueprint(name=name, desired_state=Desired.ARCHIVED), adopting=key)
