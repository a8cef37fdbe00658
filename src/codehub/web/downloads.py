"""Archives that are sent as files: only so many at once, of a user and of this process, and while the login holds.

A download lasts as long as its client likes, with a question for the leader under way. Whoever ends one, or goes away,
gives its place back.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from codehub.errors import NotLoggedIn, OverLimit, Unavailable
from codehub.model.workspace import UserId

MOST_OF_ONE = 3
MOST = 64
_AGAIN_SECONDS = 5
_CHECK_SECONDS = 3.0  # between checks of the login


class Downloads:
    """Those that are open."""

    def __init__(self) -> None:
        self._open: Counter[UserId] = Counter()

    @contextmanager
    def place_of(self, user: UserId) -> Iterator[None]:
        if self._open[user] >= MOST_OF_ONE:
            raise OverLimit(
                f"You have {MOST_OF_ONE} downloads open already.", "Wait for one to end.", retry_after=_AGAIN_SECONDS
            )
        if self._open.total() >= MOST:
            raise OverLimit("Too many downloads are open.", "Try again in a moment.", retry_after=_AGAIN_SECONDS)
        self._open[user] += 1
        try:
            yield
        finally:
            self._open[user] -= 1
            self._open += Counter()  # forgets whoever has none


async def while_alive(parts: AsyncIterator[bytes], is_alive: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
    """The parts, for as long as the login or token holds that asked for them."""
    now = asyncio.get_running_loop().time
    check_at = now() + _CHECK_SECONDS
    async for part in parts:
        if now() >= check_at:
            with suppress(Unavailable):  # while the database is out nobody's login ends there
                if not await is_alive():
                    raise NotLoggedIn("The login or token that the download began with has ended.")
            check_at = now() + _CHECK_SECONDS
        yield part


class FileStream(StreamingResponse):
    """A file that keeps its place until it is sent, or whoever takes it has gone."""

    def __init__(
        self, parts: AsyncIterator[bytes], place: ExitStack, headers: Mapping[str, str], media_type: str
    ) -> None:
        super().__init__(parts, headers=headers, media_type=media_type)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)
