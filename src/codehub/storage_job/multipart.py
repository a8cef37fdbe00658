"""An upload to S3 in parts that grow (parts.py), each sent again by itself when it fails.

obstore's own uploads have parts of one size and start over when one fails. A part must get further all the time, and
be answered within a time that grows with its size; how long it is tried again grows with what would be lost.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from .parts import MIB, MOST_PARTS, held_at_once, size_of
from .patience import Patience
from .protocol import JobFailed, StoreUnreachable, TryAgain
from .unfinished import Content, Piece, Unfinished, UploadGone

PIECE = 256 << 10  # what must be taken within one time limit
SLOWEST = 4 * MIB  # bytes a second that a store digests a part with, at least


class Multipart:
    """One upload of one key."""

    def __init__(self, bucket: Unfinished, *, timeout: float, retry: float, unit: int = MIB) -> None:
        self._bucket = bucket
        self._timeout, self._unit = timeout, unit
        self._patience = Patience(retry)

    def upload(self, chunks: Iterable[Piece], moved: Callable[[int], None]) -> None:
        """All of `chunks`, or an error and nothing."""
        self._patience.call(self._bucket.abort)
        begun = 0

        def begin() -> str:
            nonlocal begun
            begun += 1
            return self._bucket.begin()

        upload_id = self._patience.call(begin)
        try:
            cutter = Cutter(chunks)
            tags = self._send_all(upload_id, cutter, moved)
            self._patience.call(lambda: self._complete(upload_id, tags, cutter.taken))
        except BaseException:
            self._end_all()
            raise
        if begun > 1:  # one whose answer was lost
            self._end_all()

    def _complete(self, upload_id: str, tags: Sequence[str], size: int) -> None:
        """Repeated after a lost answer, it may find that the upload has become the object already."""
        try:
            self._bucket.complete(upload_id, tags)
        except UploadGone:
            if not self._bucket.is_made_of(size, tags):
                raise

    def _end_all(self) -> None:
        """As far as the store lets us: the next job of this archive ends what is left."""
        with suppress(JobFailed, OSError):
            self._bucket.abort()

    def _send_all(self, upload_id: str, cutter: "Cutter", moved: Callable[[int], None]) -> list[str]:
        """The tag of each part."""
        tags: list[str] = []
        on_their_way: deque[Future[str]] = deque()
        with ThreadPoolExecutor(4, "part") as pool:
            try:
                for number in range(1, MOST_PARTS + 1):
                    size = size_of(number, self._unit)
                    while len(on_their_way) >= held_at_once(size, self._unit):
                        tags.append(on_their_way.popleft().result())
                    part = cutter.take(size)
                    if not part:
                        break
                    on_their_way.append(pool.submit(self._send, upload_id, number, part, moved))
                    del part  # in memory only as long as it is on its way
                cutter.must_be_at_end()
                return [*tags, *(sent.result() for sent in on_their_way)]
            except BaseException:
                self._patience.stopping.set()
                raise

    def _send(self, upload_id: str, number: int, part: list[Piece], moved: Callable[[int], None]) -> str:
        size = sum(map(len, part))
        limit = self._timeout + size / SLOWEST
        digest = hashlib.sha256()
        for chunk in part:
            digest.update(chunk)

        def pieces() -> Iterator[Piece]:
            for chunk in part:
                for start in range(0, len(chunk), PIECE):
                    if self._patience.stopping.is_set():
                        raise StoreUnreachable("another part could not be sent")
                    piece = memoryview(chunk)[start : start + PIECE]
                    yield piece
                    moved(len(piece))

        return self._patience.call(
            lambda: self._bucket.put_part(
                upload_id, number, Content(pieces, size, digest.hexdigest(), self._timeout, limit)
            )
        )


class Cutter:
    """Chunks of any size, cut into parts without copying them."""

    def __init__(self, chunks: Iterable[Piece]) -> None:
        self._chunks = iter(chunks)
        self._rest: memoryview | None = None
        self.taken = 0  # bytes

    def must_be_at_end(self) -> None:
        if self.take(1):
            raise TryAgain(f"the archive needs more than {MOST_PARTS} parts, and the store takes no more")

    def take(self, size: int) -> list[Piece]:
        """As many bytes, fewer at the end, none after it."""
        part: list[Piece] = []
        while size:
            if self._rest is None:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._rest = memoryview(chunk)
            part.append(self._rest[:size])
            taken = len(part[-1])
            size -= taken
            self.taken += taken
            self._rest = self._rest[taken:] if taken < len(self._rest) else None
        return part
