"""Reading archives back: each byte once, by ranges, on from where it was after a broken connection.

What was read is remembered with the stamp of the object that it was read from. While the store shows that stamp, the
object is the same one: a reading that an outage ended goes on where it was, and one that came to its end is proof for
an hour. A stamp that is another, or tells nothing, makes it begin anew. Only this process remembers (docs/adr/0019).
"""

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from codehub.drivers.archive_store.objects import Changed, Stamp
from codehub.errors import Unreachable

if TYPE_CHECKING:
    from hashlib import _Hash

BLOCK = 4 << 20
SMALLEST = 256 << 10  # what is asked for on a line that breaks again and again
AHEAD = 2  # blocks on their way while one is hashed
TRIES = 4  # without a single block, before it is an outage
REMEMBERED_SECONDS = 3600.0  # longer than it takes from a commit to the deletion of the volume
REMEMBERED = 1000  # readings


class Parts(Protocol):
    """Of the store, what reading needs."""

    async def part(self, path: str, start: int, size: int, stamp: Stamp, /) -> bytes:
        """As Objects has it."""
        ...


@dataclass(slots=True)
class _Reading:
    """How far one object was read."""

    stamp: Stamp
    digest: "_Hash" = field(default_factory=hashlib.sha256)
    done: int = 0  # bytes of it
    at: float | None = None  # when the last of them was read, if it is not being read


class ReadBack:
    """The readings of one store."""

    def __init__(self, objects: Parts, *, first_pause: float = 0.5) -> None:
        """`first_pause`: seconds before a block is asked for again; later ones are longer."""
        self._objects = objects
        self._first_pause = first_pause
        self._remembered: OrderedDict[str, _Reading] = OrderedDict()

    async def sha256_of(self, path: str, stamp: Stamp, expected: str, moved: Callable[[int], None]) -> str:
        """Of the object with this stamp; `moved` is told how many bytes of it are read so far.

        Raises Unreachable when the store gives nothing for a while. Nothing but what was read in one go tells that an
        object is not what is expected: otherwise it is to be looked at again.
        """
        reading = self._recalled(path, stamp)
        is_recalled = reading.at is not None
        try:
            if reading.done < stamp.size:
                reading.at = None
                await self._go_on(path, reading, moved)
        except Changed:
            raise
        except Unreachable:
            self._remember(path, reading)
            raise
        found = reading.digest.hexdigest()
        if found == expected:
            self._remember(path, reading)
        elif is_recalled:
            raise Changed(path)
        return found

    def _recalled(self, path: str, stamp: Stamp) -> _Reading:
        reading = self._remembered.pop(path, None)
        if reading is None or reading.stamp != stamp or _is_old(reading):
            return _Reading(stamp)
        return reading

    def _remember(self, path: str, reading: _Reading) -> None:
        if not reading.stamp.is_telling:
            return
        if reading.at is None:  # a proof does not become younger by being used
            reading.at = asyncio.get_running_loop().time()
        self._remembered[path] = reading
        while len(self._remembered) > REMEMBERED or _is_old(next(iter(self._remembered.values()))):
            self._remembered.popitem(last=False)

    async def _go_on(self, path: str, reading: _Reading, moved: Callable[[int], None]) -> None:
        """To its end. A block that does not come is asked for again; on a bad line, fewer bytes at once."""
        tries, block = 0, BLOCK
        while reading.done < reading.stamp.size:
            try:
                async with aclosing(self._blocks(path, reading, block)) as blocks:
                    async for data in blocks:
                        await asyncio.to_thread(reading.digest.update, data)
                        reading.done += len(data)
                        moved(reading.done)
                        tries = 0
            except Changed:
                raise
            except Unreachable:
                tries += 1
                if tries >= TRIES:
                    raise
                block = max(block // 4, min(block, SMALLEST))
                await asyncio.sleep(self._first_pause * 2 ** (tries - 1))

    async def _blocks(self, path: str, reading: _Reading, block: int) -> AsyncGenerator[bytes, None]:
        """From where it is to the end, in order."""
        stamp = reading.stamp
        starts = iter(range(reading.done, stamp.size, block))
        coming: deque[asyncio.Task[bytes]] = deque()
        try:
            while True:
                while len(coming) < AHEAD and (start := next(starts, None)) is not None:
                    part = self._objects.part(path, start, min(block, stamp.size - start), stamp)
                    coming.append(asyncio.create_task(part))
                if not coming:
                    return
                yield await coming[0]
                coming.popleft()
        finally:
            for task in coming:
                task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)


def _is_old(reading: _Reading) -> bool:
    return reading.at is None or asyncio.get_running_loop().time() - reading.at > REMEMBERED_SECONDS
