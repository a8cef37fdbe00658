"""Something that must be made ready once before it is used: tried until it works, and nothing waits for it for ever.

A store or an engine that is out when CodeHub starts is an outage like any other: reported, and over when it is over.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from codehub.errors import CodeHubError, Unavailable

log = structlog.get_logger()

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0


class Preparing:
    """`run` ends when it is ready; `tried` is set after the first attempt, whatever came of it."""

    def __init__(self, name: str, prepare: Callable[[], Awaitable[None]], *, wait: float = FIRST_WAIT_SECONDS) -> None:
        self._name = name
        self._prepare = prepare
        self._wait = wait
        self._trouble: CodeHubError | None = Unavailable("It is being prepared.")
        self.tried = asyncio.Event()

    def check(self) -> None:
        """Raises what keeps it from being ready."""
        if self._trouble is not None:
            raise Unavailable(self._trouble.message, self._trouble.hint)

    async def run(self) -> None:
        wait = self._wait
        while not await self._try():
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT_SECONDS)

    async def _try(self) -> bool:
        before = str(self._trouble)
        try:
            await self._prepare()
        except CodeHubError as error:
            self._trouble = error
            if str(error) != before:
                log.warning("not ready", what=self._name, why=str(error))
        except Exception:  # a bug in one of them must not take the others down
            self._trouble = Unavailable("It could not be prepared; the log has the details.")
            log.exception("not ready", what=self._name)
        else:
            self._trouble = None
            if self.tried.is_set():
                log.info("ready now", what=self._name)
        finally:
            self.tried.set()
        return self._trouble is None
