"""Leading a browser that is logged in to a workspace's own origin, by a code that works once (ADR 8).

    main  /w/{id}/path                        who is logged in and may enter is sent on
    own   /.codehub/enter?path=…              the browser gets a secret, in a cookie of this host
    main  /w/{id}/.codehub/enter?for=…&path=… a code is drawn, for the browser with that secret
    own   /.codehub/enter?code=…              … which brings both, and gets the visit's cookie

The code is bound to the session, the workspace, the port and the host that it was drawn for, and to the browser that it
was drawn in: nobody can make another's browser enter as themselves by sending them a link.
"""

from datetime import timedelta
from urllib.parse import urlencode
from uuid import UUID

from codehub.model.visiting import Destination
from codehub.services import visits
from codehub.services.actors import Actor
from codehub.services.sessions import hash_of, new_secret
from codehub.signals.codes import RedisCodes
from codehub.web.context import Context

ENTER = "/.codehub/enter"
ENTERING_SECONDS = 600.0
_MOST = 8  # codes in a few seconds for one session and workspace
LONGEST = 100


def begin_url(own_origin: str, path: str, main: str) -> str:
    """Where the browser gets its secret; `main` is the host that it knows CodeHub by."""
    return f"{own_origin}{ENTER}?{urlencode({'path': path, 'main': main})}"


def draw_url(main_origin: str, to: Destination, path: str, secret: str) -> str:
    """Where a code is drawn for the browser with that secret."""
    told: dict[str, object] = {"for": _mark(secret), "path": path}
    if to.port is not None:
        told["port"] = to.port
    return f"{main_origin}/w/{to.workspace}{ENTER}?{urlencode(told)}"


async def draw(
    context: Context, actor: Actor, to: Destination, *, authority: str, path: str, browser: str, look: str | None
) -> str | None:
    """A code; None for a browser that keeps coming back, because it does not keep the cookie.

    `look` is the dashboard's language and theme, for what CodeHub shows at the other origin.
    """
    code = new_secret()
    told = {
        "session": actor.credential_id,
        "workspace": str(to.workspace),
        "port": to.port,
        "authority": authority,
        "path": path,
        "browser": browser,
        "look": look,
    }
    visitor = f"{actor.credential_id}:{to.workspace}:{to.port or ''}"
    drawn = await RedisCodes(context.redis).keep(hash_of(code).hex(), told, visitor)
    return code if drawn <= _MOST else None


async def enter(
    context: Context, code: str, secret: str, to: Destination, *, authority: str, address: str | None
) -> tuple[str, timedelta, str, str | None] | None:
    """The visit's secret, how long it lasts, where to go on, and the look; None when the code does not hold here."""
    told = await RedisCodes(context.redis).take(hash_of(code).hex()) if 0 < len(code) <= LONGEST else None
    if told is None or told["authority"] != authority or told["browser"] != _mark(secret):
        return None
    if (told["workspace"], told["port"]) != (str(to.workspace), to.port):
        return None
    accounts = context.settings.accounts
    visit, lifetime = await visits.enter(context.pool, accounts, UUID(str(told["session"])), to, address)
    look = told.get("look")  # an older process draws codes without
    return visit, lifetime, str(told["path"]), str(look) if look else None


def _mark(secret: str) -> str:
    """By which the main origin knows the browser: it must not learn the secret, which stands in a URL there."""
    return hash_of(secret).hex()
