"""Leading a browser that is logged in to a workspace's own origin, by a code that works once (ADR 8).

The code is bound to the session, the workspace, the port and the host that it was drawn for; where the browser goes
afterwards is kept with it, so nobody else can choose that.
"""

from datetime import timedelta
from uuid import UUID

from codehub.model.visiting import Destination
from codehub.services import visits
from codehub.services.actors import Actor
from codehub.services.sessions import hash_of, new_secret
from codehub.signals.codes import RedisCodes
from codehub.web.context import Context

ENTER = "/.codehub/enter"
_MOST = 8  # codes in a few seconds for one session and workspace
_LONGEST_CODE = 100


async def draw(context: Context, actor: Actor, to: Destination, authority: str, path: str) -> str | None:
    """A code; None for a browser that keeps coming back, because it does not keep the cookie."""
    code = new_secret()
    told = {
        "session": actor.credential_id,
        "workspace": str(to.workspace),
        "port": to.port,
        "authority": authority,
        "path": path,
    }
    visitor = f"{actor.credential_id}:{to.workspace}:{to.port or ''}"
    drawn = await RedisCodes(context.redis).keep(hash_of(code).hex(), told, visitor)
    return code if drawn <= _MOST else None


async def enter(
    context: Context, code: str, to: Destination, authority: str, address: str | None
) -> tuple[str, timedelta, str] | None:
    """The visit's secret, how long it lasts, and where to go on; None when the code does not hold, or not here."""
    told = await RedisCodes(context.redis).take(hash_of(code).hex()) if 0 < len(code) <= _LONGEST_CODE else None
    if told is None or told["authority"] != authority:
        return None
    if (told["workspace"], told["port"]) != (str(to.workspace), to.port):
        return None
    accounts = context.settings.accounts
    secret, lifetime = await visits.enter(context.pool, accounts, UUID(str(told["session"])), to, address)
    return secret, lifetime, str(told["path"])
