"""What obstore does not offer of S3's multipart uploads: copying in parts on the server, listing, aborting.

A copy that fails or is cancelled aborts its upload; an upload that its maker could not abort (it was killed, or the
server went away) is found by `uploads`, so that garbage collection ends it. Requests are signed here (AWS signature
version 4), which takes keys of our own.
"""

import asyncio
import hashlib
import hmac
import html
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx

from codehub.drivers.archive_store.answers import meaning
from codehub.drivers.archive_store.objects import Absent, Limits, TimedOut
from codehub.errors import DriverError, Unreachable

AT_ONCE = 4
MOST_PARTS = 10_000
_NOT_OFFERED = (405, 501)


@dataclass(frozen=True, slots=True)
class S3Account:
    """What requests are signed with."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(repr=False)
    region: str

    def sign(self, method: str, url: str, query: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, str]:
        """The headers to send: those given and the signature, for a body that is not part of it."""
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        given = {**headers, "host": urlsplit(url).netloc, "x-amz-date": now, "x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
        if self.session_token:
            given["x-amz-security-token"] = self.session_token
        sent = dict(sorted(given.items()))
        names = ";".join(sent)
        lines = "".join(f"{name}:{value}\n" for name, value in sent.items())
        request = "\n".join([method, urlsplit(url).path, encoded(query), lines, names, "UNSIGNED-PAYLOAD"])
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = f"AWS4{self.secret_access_key}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"Credential={self.access_key_id}/{scope}"
        return sent | {"authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"}


@dataclass(frozen=True, slots=True)
class Upload:
    """A multipart upload that was begun and not ended."""

    path: str
    id: str
    started_at: datetime


class Multipart:
    """The multipart uploads of one bucket."""

    def __init__(self, bucket: str, base: str, account: S3Account, limits: Limits, ca_file: Path | None) -> None:
        self._bucket = bucket
        self._base = base
        self._account = account
        self._limits = limits
        self._ca_file = ca_file

    async def uploads(self, prefix: str) -> list[Upload]:
        """Every unfinished upload under the prefix; none where the server does not offer, or allow, to list them."""
        found: list[Upload] = []
        query = {"uploads": "", "prefix": prefix}
        async with self._client() as client:
            while True:
                answer = await self._ask(client, "GET", "", query)
                if answer.status_code in _NOT_OFFERED or _code(answer) == "AccessDenied":
                    return found
                text = self._checked(answer, prefix)
                for block in re.findall(r"<Upload>(.*?)</Upload>", text, re.DOTALL):
                    started = datetime.fromisoformat(_field(block, "Initiated"))
                    path = _field(block, "Key")
                    if path.startswith(prefix):
                        found.append(Upload(path, _field(block, "UploadId"), started))
                if _field(text, "IsTruncated") != "true":
                    return found
                key, upload_id = _field(text, "NextKeyMarker"), _field(text, "NextUploadIdMarker")
                query = {"uploads": "", "prefix": prefix, "key-marker": key, "upload-id-marker": upload_id}

    async def abort_all(self, path: str) -> None:
        """End every unfinished upload of this very path."""
        mine = [upload for upload in await self.uploads(path) if upload.path == path]
        async with self._client() as client:
            for upload in mine:
                await self._abort(client, upload.path, upload.id)

    async def copy(self, source: str, target: str, size: int) -> None:
        """Copy on the server, part by part; each part must be done within the limit for progress."""
        await self.abort_all(target)
        async with self._client() as client:
            begun = await self._ask(client, "POST", target, {"uploads": ""})
            upload = _field(self._checked(begun, source), "UploadId")
            try:
                await self._copy_parts(client, source, target, size, upload)
            except BaseException:
                # Also when cancelled: nobody else would end it before garbage collection does.
                with suppress(DriverError):
                    await asyncio.shield(self._abort(client, target, upload))
                raise

    async def _copy_parts(self, client: httpx.AsyncClient, source: str, target: str, size: int, upload: str) -> None:
        part = max(self._limits.part_bytes, -(-size // MOST_PARTS))
        starts = range(0, size, part)
        gate = asyncio.Semaphore(AT_ONCE)

        async def copy_one(number: int, start: int) -> str:
            headers = {
                "x-amz-copy-source": quote(f"/{self._bucket}/{source}"),
                "x-amz-copy-source-range": f"bytes={start}-{min(start + part, size) - 1}",
            }
            query = {"partNumber": str(number), "uploadId": upload}
            async with gate:
                answer = await self._ask(client, "PUT", target, query, headers=headers)
            return _field(self._checked(answer, source), "ETag")

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(copy_one(number, start)) for number, start in enumerate(starts, 1)]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{html.escape(task.result())}</ETag></Part>"
            for number, task in enumerate(tasks, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>"
        done = await self._ask(client, "POST", target, {"uploadId": upload}, body=body)
        self._checked(done, source)

    async def _abort(self, client: httpx.AsyncClient, path: str, upload: str) -> None:
        with suppress(Absent):  # it ended by itself
            self._checked(await self._ask(client, "DELETE", path, {"uploadId": upload}), path)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[httpx.AsyncClient]:
        limits = httpx.Timeout(self._limits.request, connect=self._limits.connect, read=self._limits.progress)
        verify: ssl.SSLContext | bool = False
        if self._base.startswith("https"):
            verify = ssl.create_default_context(cafile=self._ca_file)
        async with httpx.AsyncClient(timeout=limits, verify=verify) as client:
            yield client

    async def _ask(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        query: Mapping[str, str],
        *,
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> httpx.Response:
        url = f"{self._base}/{quote(path)}" if path else self._base
        signed = self._account.sign(method, url, query, headers or {})
        try:
            async with asyncio.timeout(self._limits.progress):
                return await client.request(method, f"{url}?{encoded(query)}", headers=signed, content=body)
        except (TimeoutError, httpx.TimeoutException):
            raise TimedOut("The archive store did not answer in time.") from None
        except httpx.TransportError as error:
            raise Unreachable(f"The archive store cannot be reached: {error}") from error

    def _checked(self, answer: httpx.Response, path: str) -> str:
        """The text of an answer that is a success; S3 may report an error inside a 200 too."""
        code = _code(answer)
        if answer.is_success and not code:
            return answer.text
        status = answer.status_code if not answer.is_success else 500
        raise meaning(status, code, bucket=self._bucket, path=path, said=f"{answer.status_code} {code}")


def _code(answer: httpx.Response) -> str:
    return _field(answer.text, "Code") if "<Error>" in answer.text else ""


def encoded(query: Mapping[str, str]) -> str:
    """A query as the signature wants it: sorted, everything but letters, digits and -_.~ escaped."""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in sorted(query.items()))


def _field(text: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return html.unescape(match[1]).strip() if match else ""
