"""Objects in a bucket of an S3 server, through obstore.

obstore says little by type: a refused connection, a time-out and a 500 are one class, and a missing bucket looks like a
missing object. `failure` tells them apart by what the server answered. Two clients are kept: one whose requests must be
answered at once, and one for long bodies, limited by progress. Nothing is retried for longer than a moment.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from codehub.drivers.archive_store.answers import meaning
from codehub.drivers.archive_store.multipart import Multipart, S3Account
from codehub.drivers.archive_store.objects import Absent, Changed, Entry, Limits, Stamp, TimedOut
from codehub.errors import ActionFailed, DriverError, SettingsError, Unreachable
from codehub.storage_job.answers import answer_in

if TYPE_CHECKING:
    from obstore import ObjectMeta

BLOCK = 4 << 20
PIECE = 256 << 10
PAGE = 1000
STREAM_PART = 64 << 20  # 10,000 parts at most: 640 GB

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class S3Options:
    """How to reach the server. Without keys obstore looks for AWS's own (environment, instance, web identity)."""

    endpoint: str | None = None  # None is AWS
    access_key_id: str | None = None
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str = "us-east-1"
    virtual_hosted: bool = False  # the bucket is in the host's name instead of the path
    ca_file: Path | None = None


class BucketObjects:
    """One bucket."""

    def __init__(self, bucket: str, options: S3Options, limits: Limits) -> None:
        self._bucket = bucket
        self._limits = limits
        self._config, self._client = settings_of(bucket, options)
        self._quick = self._store({"timeout": timedelta(seconds=limits.request)})
        self._slow = self._store({"timeout": "7d", "read_timeout": timedelta(seconds=limits.progress)})
        self._multipart: Multipart | None = None
        if options.access_key_id and options.secret_access_key:
            account = S3Account(options.access_key_id, options.secret_access_key, options.session_token, options.region)
            self._multipart = Multipart(bucket, base_url(bucket, options), account, limits, options.ca_file)

    def _store(self, client: Mapping[str, Any]) -> S3Store:
        # obstore's own types name each key; these come from one function and are tested against a server.
        options: Any = {**self._client, "connect_timeout": timedelta(seconds=self._limits.connect), **client}
        config: Any = self._config
        # Time-outs are longer than this and so are not repeated; a dropped connection or a 503 is.
        retry: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=1)}
        return S3Store(self._bucket, config=config, client_options=options, retry_config=retry)

    async def prepare(self) -> None:
        await self._within(obstore.list_with_delimiter_async(self._quick, "a-prefix-that-nothing-has"), "")

    async def stamp(self, path: str) -> Stamp:
        """Asks for one byte instead of a HEAD: only that tells an archived tier, and a missing bucket from a key."""
        try:
            answer = await self._within(obstore.get_async(self._quick, path, options={"range": (0, 1)}), path)
        except EmptyObject:
            return Stamp(0, "")
        return stamp_of(answer.meta)

    async def part(self, path: str, start: int, size: int, stamp: Stamp) -> bytes:
        """Each piece of it must come within the limit for progress, so a slow line is no outage."""
        limit = self._limits.progress
        wanted = obstore.get_async(self._slow, path, options={"range": (start, start + size)})
        answer = await self._within(wanted, path, limit)
        if stamp_of(answer.meta) != stamp or answer.range != (start, start + size):
            raise Changed(path)
        pieces, found = answer.stream(min_chunk_size=PIECE), bytearray()
        while (piece := await self._within(anext(pieces, None), path, limit)) is not None:
            found += piece
        if len(found) != size:
            raise Unreachable(f"The archive store sent {len(found)} bytes of {path} instead of {size}.")
        return bytes(found)

    async def read(self, path: str, most: int) -> bytes:
        answer = await self._within(obstore.get_async(self._quick, path), path)
        if answer.meta["size"] > most:
            answer = await self._within(obstore.get_async(self._quick, path, options={"range": (0, most + 1)}), path)
        return bytes(await self._within(answer.bytes_async(), path))

    async def _stream(self, path: str) -> AsyncGenerator[bytes, None]:
        limit = self._limits.progress
        answer = await self._within(obstore.get_async(self._slow, path), path, limit)
        blocks = answer.stream(min_chunk_size=BLOCK)
        while (block := await self._within(anext(blocks, None), path, limit)) is not None:
            yield block

    async def put(self, path: str, data: bytes, *, is_only_writer: bool = False) -> None:
        del is_only_writer  # a single request leaves nothing
        await self._within(obstore.put_async(self._quick, path, data, use_multipart=False), path)

    async def copy(self, source: str, target: str, size: int) -> None:
        if size > self._limits.part_bytes and self._multipart is not None:
            await self._multipart.copy(source, target, size)
        elif size > self._limits.one_copy_bytes:
            # Without keys of our own to sign with, it goes through here; a failure may leave an unfinished upload.
            blocks = self._stream(source)
            upload = obstore.put_async(self._slow, target, blocks, use_multipart=True, chunk_size=STREAM_PART)
            await self._within(upload, target, None)
        else:
            await self._within(obstore.copy_async(self._slow, source, target), source, self._limits.progress)
        copied = await self.stamp(target)
        if copied.size != size:
            raise ActionFailed(f"The copy {target} has {copied.size} bytes instead of {size}.")

    async def delete(self, path: str) -> None:
        with suppress(Absent):
            await self._within(obstore.delete_async(self._quick, path), path)
        if self._multipart is not None:
            await self._multipart.abort_all(path)

    async def settle(self, paths: Sequence[str]) -> None:
        """An S3 server has stored what it confirmed."""

    async def pages(self, prefix: str) -> AsyncIterator[Sequence[Entry]]:
        if self._multipart is not None:
            uploads = await self._multipart.uploads(prefix)
            if uploads:
                yield [Entry(upload.path, upload.started_at, unfinished=True) for upload in uploads]
        listing = aiter(obstore.list(self._slow, prefix or None, chunk_size=PAGE))
        while page := await self._within(anext(listing, None), prefix, self._limits.progress):
            # obstore compares whole folder names; an object called like the prefix itself is not under it.
            yield [
                Entry(item["path"], item["last_modified"], size=item["size"])
                for item in page
                if item["path"].startswith(prefix)
            ]

    def url(self, path: str) -> str:
        return f"s3://{self._bucket}/{path}"

    @property
    def job_options(self) -> Mapping[str, object]:
        return {
            name: value for name, value in {**self._config, **self._client}.items() if name != "disable_bulk_delete"
        }

    async def _within(self, call: Awaitable[T], path: str, limit: float | None = -1.0) -> T:
        """The call's answer within a limit (None is none), or an error of ours."""
        # obstore's own limits are tighter; this one is for what they do not cover.
        seconds = self._limits.request * 2 + self._limits.connect if limit == -1.0 else limit
        try:
            async with asyncio.timeout(seconds):
                return await call
        except TimeoutError:
            raise TimedOut(f"The archive store did not answer within {seconds:g} s.") from None
        except (BaseError, OSError) as error:
            raise failure(error, path, self._bucket) from error


class EmptyObject(ActionFailed):
    """There are no bytes to ask one of."""


def stamp_of(meta: "ObjectMeta") -> Stamp:
    """A tag that is absent or weak does not tell one object from another."""
    tag = meta["e_tag"]
    telling = tag is not None and not tag.startswith("W/")
    mark = f"{tag} {meta['last_modified'].isoformat()} {meta['version']}" if telling else ""
    return Stamp(meta["size"], mark)


def settings_of(bucket: str, options: S3Options) -> tuple[dict[str, Any], dict[str, Any]]:
    """obstore's `config` and `client_options`, without time limits; plain values that survive JSON."""
    config: dict[str, Any] = {"region": options.region, "disable_bulk_delete": True}
    client: dict[str, Any] = {}
    if options.endpoint:
        config["endpoint"] = base_url(bucket, options) if options.virtual_hosted else options.endpoint
        client["allow_http"] = options.endpoint.startswith("http://")
    if options.virtual_hosted:
        config["virtual_hosted_style_request"] = True
    for name in ("access_key_id", "secret_access_key", "session_token"):
        if value := getattr(options, name):
            config[name] = value
    if options.ca_file is not None:
        try:
            client["root_certificate"] = options.ca_file.read_text()
        except OSError as error:
            raise SettingsError(f"S3_CA_FILE={options.ca_file}: cannot be read: {error.strerror}.") from error
    return config, client


def base_url(bucket: str, options: S3Options) -> str:
    """The bucket's own URL."""
    endpoint = (options.endpoint or f"https://s3.{options.region}.amazonaws.com").rstrip("/")
    if not options.virtual_hosted:
        return f"{endpoint}/{bucket}"
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{bucket}.{host}"


def failure(error: Exception, path: str, bucket: str) -> DriverError:
    """What an exception of obstore means."""
    text = str(error)
    said = text.split("\n\nDebug source", 1)[0]
    answer = answer_in(text)
    if "object was only 0 bytes" in text or (answer and answer[0] == 416):
        return EmptyObject(f"{path} is empty.")
    if answer is None and isinstance(error, FileNotFoundError):
        return Absent(f"The archive store has no {path}.")
    if answer is not None:
        return meaning(*answer, bucket=bucket, path=path, said=said)
    if "kind: Timeout" in text:
        return TimedOut("The archive store did not answer in time.")
    return Unreachable(f"The archive store cannot be reached: {said}")
