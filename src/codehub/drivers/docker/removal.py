"""Removing a container so that nothing of it is left, whatever else is being done to it."""

import asyncio
import contextlib

from codehub.drivers.docker.api import Engine, EngineError, none_if_missing
from codehub.errors import ActionFailed

_POLL_SECONDS = 0.05


async def stop_container(engine: Engine, container_id: str, grace: int, seconds: float) -> None:
    """Ask it to end by itself; whatever comes of that, it is removed next."""
    with contextlib.suppress(EngineError):
        await engine.post(f"/containers/{container_id}/stop", seconds=grace + seconds, t=grace)


async def remove_container(engine: Engine, container_id: str, seconds: float) -> None:
    """Kill and remove this very container; volumes are never removed with it. Returns when it is gone."""
    try:
        await none_if_missing(engine.delete(f"/containers/{container_id}", force=1, v=0))
    except EngineError as error:
        if error.status != 409:  # 409: another call is removing it
            raise ActionFailed(f"The engine does not remove a container: {error.message}.") from error
    try:
        async with asyncio.timeout(seconds):
            while await none_if_missing(engine.get(f"/containers/{container_id}/json")) is not None:  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise ActionFailed(f"The container {container_id[:12]} does not go away.") from None
