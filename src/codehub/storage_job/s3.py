"""One object in S3, through obstore, with its quirks turned into the job's errors.

Uploads are multipart with parts of one size in bounded number; an object appears only when all of it is there. What a
killed job left unfinished is aborted by the next one (`unfinished.py`).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from .protocol import BadRequest, JobFailed, Request, StoreUnreachable, TryAgain
from .unfinished import Unfinished

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Config

PART = 16 << 20
PARTS_AT_ONCE = 3
MOST_PARTS = 9_000  # S3 allows 10,000
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
# What obstore's catch-all error says when nobody answered, or answered that it cannot now.
_OUTAGE = (
    "Connect", "connect", "Timeout", "timed out", "dns", "error sending request", "error decoding response body",
    "IncompleteMessage", "status: 5", "Server returned non-2xx status code: 5", "after 0 retries", "retries",
)  # fmt: skip


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
        "timeout": timeout,
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
    part = max(PART, -(-(request.limits.bytes or 0) // MOST_PARTS))
    return S3Object(store, key, part, Unfinished.of(parts.netloc, key, options))


class S3Object:
    """One key of a bucket."""

    def __init__(self, store: S3Store, key: str, part: int, unfinished: Unfinished) -> None:
        self._store = store
        self._key = key
        self._part = part
        self._unfinished = unfinished

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
        """By ranges, a few ahead: each is a request with a time limit and retries of its own."""
        size = self.size()
        if size is None:
            return
        starts = iter(range(0, size, RANGE))
        coming: deque[Future[Any]] = deque()
        with _errors(), ThreadPoolExecutor(RANGES_AHEAD, "fetch") as pool:
            while True:
                while len(coming) < RANGES_AHEAD and (start := next(starts, None)) is not None:
                    end = min(start + RANGE, size)
                    coming.append(pool.submit(obstore.get_range, self._store, self._key, start=start, end=end))
                if not coming:
                    return
                yield bytes(coming.popleft().result())

    def write(self, chunks: Iterable[bytes | memoryview]) -> None:
        rest = iter(chunks)
        first: list[bytes | memoryview] = []
        while sum(map(len, first)) < self._part and (chunk := next(rest, None)) is not None:
            first.append(chunk)
        with _errors():
            if sum(map(len, first)) < self._part:
                obstore.put(self._store, self._key, b"".join(first), use_multipart=False)
                return
            self._unfinished.abort()
            try:
                obstore.put(
                    self._store,
                    self._key,
                    chain(first, rest),
                    use_multipart=True,
                    chunk_size=self._part,
                    max_concurrency=PARTS_AT_ONCE,
                )
            except BaseException:
                with suppress(JobFailed, OSError):
                    self._unfinished.abort()
                raise


def _must_be_key(error: FileNotFoundError) -> None:
    if "NoSuchBucket" in str(error):
        raise StoreUnreachable("the bucket is not there") from error


@contextmanager
def _errors() -> Iterator[None]:
    """obstore says most things with one class of error and a text."""
    try:
        yield
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise StoreUnreachable("the archive store refuses our credentials") from error
    except FileNotFoundError as error:
        raise TryAgain("an object vanished from the archive store") from error
    except BaseError as error:
        text = str(error)
        if any(sign in text for sign in _OUTAGE):
            raise StoreUnreachable(f"the archive store does not answer: {first_line(text)}") from error
        raise TryAgain(f"the archive store failed: {first_line(text)}") from error


def first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else "no reason given"
