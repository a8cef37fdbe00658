"""What happened, in order: counted, digested, and the last of it kept for whoever asks what went wrong."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NoReturn

from codehub.model.workspace import WorkspaceId

CIRCLES = 2000
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
    most_asked: int = 0  # calls for one workspace that changed nothing
    _asked: dict[WorkspaceId, int] = field(default_factory=dict)
    _changes: dict[WorkspaceId, int] = field(default_factory=dict)
    _hash: blake2b = field(default_factory=lambda: blake2b(digest_size=16))
    _kept: dict[WorkspaceId | None, deque[tuple[int, float, str]]] = field(default_factory=dict)

    def note(self, workspace_id: WorkspaceId | None, what: str, *, kept: bool = True) -> None:
        now = asyncio.get_running_loop().time()
        self.events += 1
        self._hash.update(f"{now!r} {workspace_id} {what}\n".encode())
        if kept:
            if workspace_id not in self._kept:
                self._kept[workspace_id] = deque(maxlen=KEPT)
            self._kept[workspace_id].append((self.events, now, what))

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

    def asked(self, workspace_id: WorkspaceId) -> None:
        """Something was asked for its sake: sooner or later its row must change, or it goes round in circles."""
        asked = self._asked[workspace_id] = self._asked.get(workspace_id, 0) + 1
        self.most_asked = max(self.most_asked, asked)
        if asked > CIRCLES:
            self.fail(f"it goes round in circles: {asked} calls, and its row is as it was", workspace_id)

    def got_further(self, workspace_id: WorkspaceId) -> None:
        """Its row was changed: what was asked led to something, unless it leads back again and again."""
        self._asked[workspace_id] = 0
        changes = self._changes[workspace_id] = self._changes.get(workspace_id, 0) + 1
        if changes > CIRCLES // 4:
            self.fail(f"it goes round in circles: {changes} changes, and nobody wanted anything", workspace_id)

    def wanted(self, workspace_id: WorkspaceId) -> None:
        """Somebody wants something of it."""
        self._changes[workspace_id] = 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def last(self, workspace_id: WorkspaceId | None) -> list[str]:
        """The last events of this workspace, and those about none, in their order."""
        both = [*self._kept.get(workspace_id, ()), *self._kept.get(None, ())]
        return [f"{at:12.3f} s  {what}" for _, at, what in sorted(set(both))][-KEPT:]
