"""What is published for users (events.py), heard by one process through one subscription, however many it serves.

`None` is a gap: from before it anything may have been missed. The first thing heard is one, so is the first after every
lost connection, and so is what is published for everybody. A server that says nothing is asked for an answer, so that
a connection that died without a word is noticed within seconds.
"""

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from uuid import UUID

import structlog
from redis.asyncio import ConnectionPool
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from codehub.errors import Unavailable
from codehub.model.workspace import UserId, WorkspaceId
from codehub.signals.connect import Redis, answering
from codehub.signals.events import EVERYBODY

log = structlog.get_logger(__name__)

_GLOB = re.compile(r"([*?\[\]\\^-])")


@dataclass(frozen=True, slots=True)
class Told:
    """Something about this workspace of this user's has changed, somebody says."""

    user_id: UserId
    workspace_id: WorkspaceId


async def subscribe(client: Redis, sse_prefix: str, *, ping_seconds: float = 3.0) -> AsyncGenerator[Told | None, None]:
    """Until the connection is lost, which raises Unavailable: whoever called subscribes anew, after a pause."""
    with answering():
        async with _once_connected(client) as channels:
            await channels.psubscribe(_GLOB.sub(r"\\\1", sse_prefix) + "*")
            is_asked = False
            while True:
                message = await channels.get_message(timeout=ping_seconds)
                if message is None:
                    if is_asked:
                        raise Unavailable("Redis does not answer.", "It is tried again in a moment.")
                    await channels.ping()
                    is_asked = True
                    continue
                is_asked = False
                if message["type"] == "psubscribe":
                    yield None  # only now: whatever is published from here on is heard
                elif message["type"] == "pmessage":
                    channel = message["channel"].decode(errors="replace").removeprefix(sse_prefix)
                    if channel == EVERYBODY:
                        yield None
                    elif (told := _told(channel, message["data"])) is not None:
                        yield told


def _once_connected(client: Redis) -> PubSub:
    """On a connection that is not made again behind our back: what was published meanwhile would be missed silently."""
    shared = client.connection_pool
    options = {**shared.connection_kwargs, "retry": Retry(NoBackoff(), 0), "retry_on_error": []}
    return PubSub(ConnectionPool(connection_class=shared.connection_class, **options))


def _told(user: str, message: bytes) -> Told | None:
    try:
        return Told(UserId(UUID(user)), WorkspaceId(UUID(json.loads(message)["id"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        log.warning("a message that is none of ours", channel=user[:80])
        return None
