"""One look at all workspaces that menus of open IDEs show, every two seconds, however many they are.

Nobody is asked for anything while no menu is open. What could not be looked at is looked at again; until then menus
show what they did. A menu is no sign of use: nothing here is activity.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog

from codehub.config import AccountConfig
from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Pool
from codehub.model.workspace import WorkspaceId
from codehub.services import visits
from codehub.web.troubles import Troubles

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
_TROUBLE = "workspaces that menus show cannot be looked at"


@dataclass(frozen=True, slots=True)
class Look:
    """What was asked about, and seen: the database's time, the workspaces there are, the sessions that still hold."""

    asked: Collection[tuple[WorkspaceId, UUID]]
    now: datetime
    shown: Mapping[WorkspaceId, ShownWorkspace]
    alive: Collection[UUID]


class Watch:
    """One for each process that serves menus."""

    def __init__(self, pool: Pool, config: AccountConfig, look_seconds: float = LOOK_SECONDS) -> None:
        self.looks = 0  # so far
        self._pool = pool
        self._config = config
        self._look_seconds = look_seconds
        self._watched: Counter[tuple[WorkspaceId, UUID]] = Counter()
        self._something = asyncio.Event()
        self._turn: asyncio.Future[Look | None] | None = None
        self._is_over = False
        self._troubles = Troubles(log)

    @property
    def menus(self) -> int:
        """How many are open."""
        return self._watched.total()

    def open_by(self, workspace: WorkspaceId, session: UUID) -> int:
        """How many of this workspace's menus are open with this login."""
        return self._watched[workspace, session]

    async def run(self) -> None:
        """For ever; being cancelled ends every menu's stream."""
        try:
            while True:
                await self._something.wait()
                self._something.clear()
                await self._look()
                await asyncio.sleep(self._look_seconds)
                if self._watched:
                    self._something.set()
        finally:
            self._is_over = True
            self._tell(None)

    @contextmanager
    def watching(self, workspace: WorkspaceId, session: UUID) -> Iterator[None]:
        """While inside, both are looked at."""
        self._watched[workspace, session] += 1
        self._something.set()
        try:
            yield
        finally:
            self._watched[workspace, session] -= 1
            if not self._watched[workspace, session]:
                del self._watched[workspace, session]

    async def next(self, seconds: float) -> Look | None:
        """The next look. Raises TimeoutError when there is none for so long; None: there will be none any more."""
        if self._is_over:
            return None
        if self._turn is None:
            self._turn = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(seconds):
            return await asyncio.shield(self._turn)

    async def _look(self) -> None:
        asked = frozenset(self._watched)
        workspaces, sessions = list({one for one, _ in asked}), {other for _, other in asked}
        try:
            look = Look(asked, *await visits.look(self._pool, self._config, workspaces, sessions))
        except Exception as error:  # noqa: BLE001 - menus show what they did until it goes again
            self._troubles.begin(_TROUBLE, error)
            return
        self._troubles.end(_TROUBLE)
        self.looks += 1
        self._tell(look)

    def _tell(self, look: Look | None) -> None:
        turn, self._turn = self._turn, None
        if turn is not None and not turn.done():
            turn.set_result(look)
