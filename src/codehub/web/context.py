"""What every request can use: put together once at start, read from the application's state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from codehub.config import Settings
from codehub.db.pool import Pool
from codehub.model.workspace import InstanceBackend
from codehub.signals.connect import Redis


@dataclass(frozen=True, slots=True)
class Context:
    """Connections and settings. `images` says which names for image_ref each backend can start now."""

    settings: Settings
    pool: Pool  # acts as the service layer's role
    redis: Redis
    images: Callable[[], Mapping[InstanceBackend, Sequence[str]]]
    default_backend: InstanceBackend


async def context_of(connection: HTTPConnection) -> Context:  # not sync: that would be a thread's turn
    context: Context = connection.app.state.context
    return context


InContext = Annotated[Context, Depends(context_of)]
