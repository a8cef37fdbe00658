"""What every request can use: put together once at start, read from the application's state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from codehub.config import Settings
from codehub.db.pool import Pool
from codehub.model.workspace import InstanceBackend
from codehub.services.sharing import Shared
from codehub.services.workspaces.reading import Shelf
from codehub.services.workspaces.terms import Terms
from codehub.signals.connect import Redis
from codehub.web.downloads import Downloads
from codehub.web.watching import Watch


@dataclass(frozen=True)
class Context:
    """Connections and settings. `images` says which names for image_ref each backend can start now.

    `folders` are those that this process writes to, or whoever it stands for: their disks should not be full.
    """

    settings: Settings
    pool: Pool  # acts as the service layer's role
    redis: Redis
    images: Callable[[], Mapping[InstanceBackend, Sequence[str]]]
    default_backend: InstanceBackend
    folders: Sequence[Path] = ()
    to_localhost: bool = False  # localhost is surely us: people who come to a loopback address are sent there

    @cached_property
    def terms(self) -> Terms:
        return Terms.of(self.settings, self.images, self.default_backend)

    @cached_property
    def shelf(self) -> Shelf:
        """One for the whole application."""
        return Shelf(self.pool, self.terms.retention)

    @cached_property
    def shared(self) -> Shared:
        """What many wait for at once."""
        return Shared()

    @cached_property
    def watch(self) -> Watch:
        """Of the workspaces that menus show."""
        return Watch(self.pool, self.settings.accounts)

    @cached_property
    def downloads(self) -> Downloads:
        """Those that this process sends."""
        return Downloads()

    @cached_property
    def making_room(self) -> set[str]:
        """Sessions whose visitor waits until there is room for another workspace (visit/routes.py)."""
        return set()


def of(connection: HTTPConnection) -> Context:
    context: Context = connection.app.state.context
    return context


async def context_of(connection: HTTPConnection) -> Context:  # not sync: that would be a thread's turn
    return of(connection)


InContext = Annotated[Context, Depends(context_of)]
