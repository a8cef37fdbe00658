"""The last lines of instances that were removed, for whoever wants to know why. A hint: losing it costs those lines.

codehub:last-log:{workspace_id}   the end of what it wrote; it expires after a day
"""

from typing import cast

from codehub.model.workspace import WorkspaceId
from codehub.signals.connect import Redis, answering

KEY = "codehub:last-log:"
LINES = 100
_MOST_BYTES = 8 << 10
_DAY_SECONDS = 24 * 3600


class RedisLastLogs:
    """The leader keeps them, whoever shows a workspace reads them."""

    def __init__(self, client: Redis) -> None:
        self._client = client

    async def keep(self, workspace_id: WorkspaceId, text: str) -> None:
        with answering():
            await self._client.set(f"{KEY}{workspace_id}", text.encode()[-_MOST_BYTES:], ex=_DAY_SECONDS)

    async def read(self, workspace_id: WorkspaceId) -> str:
        """Empty when nothing is known."""
        with answering():
            found = cast("bytes | None", await self._client.get(f"{KEY}{workspace_id}"))
        return found.decode(errors="ignore") if found else ""
