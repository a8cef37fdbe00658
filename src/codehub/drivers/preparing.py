"""Something that must be made ready before it is used: tried until it works, and nothing waits for it for ever.

A store or an engine that is out when CodeHub starts is an outage like any other: reported, and over when it is over.
What others may undo (a firewall that somebody flushed) is made ready again every so often.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from codehub.errors import CodeHubError, Unavailable

log = structlog.get_logger()

FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 30.0


class Preparing:
    """`run` ends when it is ready, or begins again `every` so many seconds; `tried` is set after the first attempt."""

    def __init__(
        self,
        name: str,
        prepare: Callable[[], Awaitable[None]],
        *,
        wait: float = FIRST_WAIT_SECONDS,
        every: float | None = None,
    ) -> None:
        self._name = name
        self._prepare = prepare
        self._wait = wait
        self._every = every
        self._trouble: CodeHubError | None = Unavailable("It is being prepared.")
        self.tried = asyncio.Event()

    def check(self) -> None:
        """Raises what keeps it from being ready."""
        if self._trouble is not None:
            raise Unavailable(self._trouble.message, self._trouble.hint)

    async def run(self) -> None:
        while True:
            wait = self._wait
            while not await self._try():
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT_SECONDS)
            if self._every is None:
                return
            await asyncio.sleep(self._every)

    async def _try(self) -> bool:
        before, was_ready = str(self._trouble), self._trouble is None
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
            if self.tried.is_set() and not was_ready:
                log.info("ready now", what=self._name)
        finally:
            self.tried.set()
        return self._trouble is None
