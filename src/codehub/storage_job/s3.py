"""One object in S3, through obstore, with its quirks turned into the job's errors.

Large uploads are multipart (multipart.py); an object appears only when all of it is there. What a
killed job left unfinished is aborted by the next one (`unfinished.py`).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from .answers import About, about, answer_in
from .multipart import Multipart
from .parts import MIB, MOST_PARTS, size_of
from .patience import Patience
from .protocol import BadRequest, Request, StoreUnreachable, Unarchivable
from .refusals import refusal
from .unfinished import Piece, Unfinished

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

PART = size_of(1)  # what is smaller is sent in one request
FIXED_PART = 64  # units: without keys of our own obstore uploads, in parts of one size, so 625 GiB at most
RANGE = 8 << 20
RANGES_AHEAD = 3
_PASSED_ON = (
    "endpoint",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "region",
    "virtual_hosted_style_request",
    "skip_signature",
)


def open_s3(url: str, request: Request) -> "S3Object":
    parts = urlsplit(url)
    key = unquote(parts.path).removeprefix("/")
    if not parts.netloc or not key:
        raise BadRequest("an s3:// URL must name a bucket and a key")
    options = dict(request.store)
    timeout = timedelta(seconds=float(options.get("timeout_seconds", 60)))
    retry = timedelta(seconds=float(options.get("retry_seconds", 30)))
    client: ClientConfig = {
        "allow_http": bool(options.get("allow_http", False)),
        "connect_timeout": timedelta(seconds=5),
        "timeout": "7d",  # of a whole request, which takes long on a slow line
        "read_timeout": timeout,  # without getting further
    }
    if certificate := options.get("root_certificate"):
        client["root_certificate"] = str(certificate)
    try:
        store = S3Store(
            parts.netloc,
            config=cast("S3Config", {key: options[key] for key in _PASSED_ON if options.get(key) is not None}),
            client_options=client,
            retry_config={"max_retries": 5, "retry_timeout": retry},
        )
    except (BaseError, ValueError, TypeError):
        raise BadRequest("the options of the store are not understood") from None  # they hold credentials
    limits = (timeout.total_seconds(), retry.total_seconds())
    return S3Object(store, key, Unfinished.of(parts.netloc, key, options), limits)


class S3Object:
    """One key of a bucket."""

    def __init__(
        self, store: S3Store, key: str, unfinished: Unfinished, limits: tuple[float, float], unit: int = MIB
    ) -> None:
        """`limits`: seconds of a request, and for which it is tried again; `unit`: of parts (parts.py)."""
        self._store = store
        self._key = key
        self._unit = unit
        self._unfinished = unfinished
        self._timeout, self._retry = limits

    def size(self) -> int | None:
        with _errors():
            try:
                return int(obstore.head(self._store, self._key)["size"])
            except FileNotFoundError as error:
                _must_be_key(error)
                return None

    def content(self, most: int) -> bytes | None:
        with _errors():
            try:
                found = obstore.get(self._store, self._key)
                return bytes(found.bytes())[:most] if found.meta["size"] <= most else b""
            except FileNotFoundError as error:
                _must_be_key(error)
                return None

    def chunks(self) -> Iterator[bytes]:
        """By ranges, a few ahead: each is asked for again by itself when its connection breaks or the store is out."""
        size = self.size()
        if size is None:
            return
        starts = iter(range(0, size, RANGE))
        coming: deque[Future[bytes]] = deque()
        patience = Patience(self._retry)
        with ThreadPoolExecutor(RANGES_AHEAD, "fetch") as pool:
            try:
                while True:
                    while len(coming) < RANGES_AHEAD and (start := next(starts, None)) is not None:
                        fetch = partial(self._range, start, min(start + RANGE, size))
                        coming.append(pool.submit(patience.call, fetch))
                    if not coming:
                        return
                    yield coming.popleft().result()
            finally:
                patience.stopping.set()

    def _range(self, start: int, end: int) -> bytes:
        with _errors():
            return bytes(obstore.get_range(self._store, self._key, start=start, end=end))

    def write(self, chunks: Iterable[Piece], moved: Callable[[int], None]) -> None:
        rest = iter(chunks)
        first: list[Piece] = []
        part = size_of(1, self._unit)
        while sum(map(len, first)) < part and (chunk := next(rest, None)) is not None:
            first.append(chunk)
        with _errors():
            if sum(map(len, first)) < part:
                obstore.put(self._store, self._key, b"".join(first), use_multipart=False)
                return
            if self._unfinished.access_key:
                upload = Multipart(self._unfinished, timeout=self._timeout, retry=self._retry, unit=self._unit)
                upload.upload(chain(first, rest), moved)
                return
            obstore.put(
                self._store,
                self._key,
                counted(chain(first, rest), moved, FIXED_PART * self._unit * MOST_PARTS),
                use_multipart=True,
                chunk_size=FIXED_PART * self._unit,
                max_concurrency=1,
            )


def counted(chunks: Iterable[Piece], moved: Callable[[int], None], most: int) -> Iterator[Piece]:
    """What an upload of `most` bytes at most takes: how long an archive gets is known only as it is made."""
    taken = 0
    for chunk in chunks:
        taken += len(chunk)
        if taken > most:
            raise Unarchivable(
                f"the archive is larger than {most >> 30} GiB, which needs S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY"
            )
        yield chunk
        moved(len(chunk))


def _must_be_key(error: FileNotFoundError) -> None:
    answer = answer_in(str(error))
    if answer is not None and about(*answer) is not About.ABSENT:
        raise refusal(*answer) from error


@contextmanager
def _errors() -> Iterator[None]:
    """obstore says most things with one class of error and a text, of which only status and code are gone by."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        answer = answer_in(str(error))
        if answer is None:  # whatever it was, nobody has spoken about this archive
            raise StoreUnreachable(f"the archive store does not answer: {first_line(str(error))}") from error
        raise refusal(*answer) from error


def first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else "no reason given"
