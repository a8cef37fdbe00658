"""Fetching images: one fetch for everybody who wants the same one, which goes on whoever stops waiting for it.

A large image may take longer than a start may. Whoever has waited for a while is told that it is still on its way,
which is an outage to wait for, and finds it when it has come.
"""

import asyncio

import structlog

from codehub.drivers.docker.api import Engine, EngineError, first
from codehub.drivers.docker.options import Patience
from codehub.drivers.registry import pull_failure
from codehub.errors import Unreachable
from codehub.together import ended

log = structlog.get_logger()


class Pulls:
    """Those under way on one engine."""

    def __init__(self, engine: Engine, patience: Patience) -> None:
        self._engine = engine
        self._patience = patience
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def fetch(self, image: str) -> None:
        """Return when the engine has it. Raises what pull_failure says, or Unreachable while it takes long."""
        task = self._under_way.get(image)
        if task is None:
            log.info("image is fetched", image=image)
            task = asyncio.create_task(self._pull(image), name=f"pull {image}")
            self._under_way[image] = task
            task.add_done_callback(lambda done: self._ended(image, done))
        done, _ = await asyncio.wait({task}, timeout=self._patience.pull_wait)
        if not done:
            raise Unreachable(f"The image {image} is still being fetched.")
        task.result()

    async def close(self) -> None:
        await ended(list(self._under_way.values()))

    def _ended(self, image: str, done: asyncio.Task[None]) -> None:
        self._under_way.pop(image, None)
        if not done.cancelled() and (error := done.exception()) is not None:  # whether or not anybody waits for it
            log.warning("an image could not be fetched", image=image, cause=str(error))

    async def _pull(self, image: str) -> None:
        repository, tag = split_reference(image)
        try:
            lines = self._engine.lines(
                "POST", "/images/create", seconds=self._patience.pull, fromImage=repository, tag=tag
            )
            failed = await first(lines, lambda line: "error" in line)
        except EngineError as error:
            failed = {"error": error.message}
        if failed is not None:
            raise pull_failure(image, str(failed["error"]))


def split_reference(image: str) -> tuple[str, str]:
    """Repository and tag (or digest), as the engine wants them; without a tag it would fetch every one there is."""
    if "@" in image:
        repository, _, digest = image.partition("@")
        return repository, digest
    head, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return head, tag
