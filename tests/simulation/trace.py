"""What happened, in order: counted, digested, and the last of it kept for whoever asks what went wrong."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NoReturn

from codehub.model.workspace import WorkspaceId

KEPT = 60  # events of each workspace, and of everything that is about none


class Violation(AssertionError):
    """Something happened that must never happen."""


@dataclass
class Trace:
    """The same seed gives the same digest, event by event."""

    events: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    violation: str | None = None  # the first
    story: tuple[str, ...] = ()  # what led to it
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    _hash: blake2b = field(default_factory=lambda: blake2b(digest_size=16))
    _kept: dict[WorkspaceId | None, deque[tuple[int, float, str]]] = field(default_factory=dict)

    def note(self, workspace_id: WorkspaceId | None, what: str) -> None:
        now = asyncio.get_running_loop().time()
        self.events += 1
        self._hash.update(f"{now!r} {workspace_id} {what}\n".encode())
        kept = self._kept.get(workspace_id)
        if kept is None:
            kept = self._kept[workspace_id] = deque(maxlen=KEPT)
        kept.append((self.events, now, what))

    def fault(self, kind: str, workspace_id: WorkspaceId | None = None, what: str = "") -> None:
        """Something went wrong on purpose."""
        self.faults[kind] += 1
        self.note(workspace_id, f"!! {kind} {what}".rstrip())

    def fail(self, what: str, workspace_id: WorkspaceId | None = None) -> NoReturn:
        """Something happened that must never happen: the simulation ends here."""
        self.note(workspace_id, f"VIOLATION {what}")
        if self.violation is None:
            self.violation, self.story = what, tuple(self.last(workspace_id))
            self.failed.set()
        raise Violation(what)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def last(self, workspace_id: WorkspaceId | None) -> list[str]:
        """The last events of this workspace, and those about none, in their order."""
        both = [*self._kept.get(workspace_id, ()), *self._kept.get(None, ())]
        return [f"{at:12.3f} s  {what}" for _, at, what in sorted(set(both))][-KEPT:]
