"""What the leader answers to other processes (signals/questions.py): what only whoever has the drivers can know."""

from collections.abc import Mapping
from uuid import UUID

from codehub.drivers.base import Backend
from codehub.errors import Unavailable
from codehub.model.workspace import InstanceBackend, WorkspaceId
from codehub.signals.questions import Body, Handler

MOST_LINES = 5000
MOST_BYTES = 256 * 1024


def logs_of(backends: Mapping[InstanceBackend, Backend]) -> Handler:
    """`logs` {workspace_id, backend, lines}: {text, cut}; the newest lines, `cut` when some of them had to go."""

    async def logs(body: Body) -> dict[str, object]:
        try:
            workspace_id, name = WorkspaceId(UUID(body["workspace_id"])), InstanceBackend(body["backend"])
            lines = max(1, min(int(body["lines"]), MOST_LINES))
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise Unavailable("The coordinator does not understand this question.") from error
        backend = backends.get(name)
        if backend is None:
            raise Unavailable(f"The coordinator has no access to {name} workspaces.", "See its settings.")
        text = await backend.instances.logs(workspace_id, lines)
        kept = newest(text, MOST_BYTES)
        return {"text": kept, "cut": len(kept) < len(text)}

    return logs


def newest(text: str, most_bytes: int) -> str:
    """The last whole lines that fit; of a line that is too long by itself, its end."""
    raw = text.encode(errors="replace")
    if len(raw) <= most_bytes:
        return text
    tail = raw[-most_bytes:]
    if raw[-most_bytes - 1] != ord("\n"):
        _, found, rest = tail.partition(b"\n")
        tail = rest if found and rest else tail
    return tail.decode(errors="ignore")
