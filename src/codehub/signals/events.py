"""Events to whoever shows or does something about them, by PUBLISH: hints that nobody may rely on.

    {sse_prefix}{user_id}   {"id", "event"}: this workspace of the user's has changed; the row says what it is now
    {sse_prefix}all         {"gap": true}: something may have been missed; every reader reads anew
    {wake_prefix}{part}     {}: the coordinator's part (`ob` looks, `wc` acts) need not wait for its next tick

A reader looks at the row: `event` names the last thing that was heard, and several may have become one.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass

from codehub.signals.connect import Redis, answering

UPDATED, DELETED = "workspace_updated", "workspace_deleted"
EVERYBODY = "all"
PARTS = ("ob", "wc")


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened to a workspace of a user's."""

    workspace_id: str
    user_id: str
    name: str = UPDATED


class RedisEvents:
    """One pipeline for each batch, however many events are in it."""

    def __init__(self, client: Redis, *, sse_prefix: str, wake_prefix: str) -> None:
        self._client = client
        self._sse_prefix = sse_prefix
        self._wake_prefix = wake_prefix

    async def publish(self, events: Collection[Event], *, wake: bool = False, gap: bool = False) -> None:
        """All of it or Unavailable; then some may have arrived."""
        with answering():
            async with self._client.pipeline(transaction=False) as pipeline:
                if gap:
                    pipeline.publish(f"{self._sse_prefix}{EVERYBODY}", json.dumps({"gap": True}))
                if wake:
                    for part in PARTS:
                        pipeline.publish(f"{self._wake_prefix}{part}", "{}")
                for event in events:
                    message = json.dumps({"id": event.workspace_id, "event": event.name})
                    pipeline.publish(f"{self._sse_prefix}{event.user_id}", message)
                await pipeline.execute()
