"""Multipart uploads in S3, as plain requests with an AWS signature (version 4).

What obstore does not offer: parts of any size, and the uploads that a killed job left, which are invisible and paid
for: those of one key are listed, and each is aborted. Only where the request holds fixed keys; with other
credentials, or where listing is not allowed, the bucket needs a lifecycle rule.
"""

import hashlib
import hmac
import http.client
import re
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import escape, unescape
from typing import Any
from urllib.parse import quote, urlsplit

from .answers import code_in
from .protocol import StoreUnreachable
from .refusals import refusal

Piece = bytes | memoryview
Exchange = tuple[int, str, str]
_UPLOAD = re.compile(r"<Upload>.*?</Upload>", re.DOTALL)
_SECONDS = 20
_NOT_FOR_US = (403, 405, 501)  # may not be listed, or cannot be: no reason to keep a home from its archive


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The unfinished uploads of exactly one key."""

    base: str  # the bucket's own URL
    key: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(repr=False)
    certificate: str | None = None  # of an authority to trust besides the system's

    @classmethod
    def of(cls, bucket: str, key: str, options: Mapping[str, Any]) -> "Unfinished":
        region = str(options.get("region") or "us-east-1")
        endpoint = str(options.get("endpoint") or "").rstrip("/")
        # With a virtual host an endpoint names the bucket already; Amazon's own takes it in the path as well.
        named = endpoint and options.get("virtual_hosted_style_request")
        return cls(
            endpoint if named else f"{endpoint or f'https://s3.{region}.amazonaws.com'}/{bucket}",
            key,
            region,
            str(options.get("access_key_id") or ""),
            str(options.get("secret_access_key") or ""),
            str(options.get("session_token") or ""),
            options.get("root_certificate"),
        )

    def abort(self) -> int:
        """Abort them all; how many there were."""
        found = self.ids()
        for upload_id in found:
            self._ask("DELETE", self.key, {"uploadId": upload_id}, allowed=(204, 404, *_NOT_FOR_US))
        return len(found)

    def ids(self) -> list[str]:
        if not self.access_key:
            return []
        body = self._ask("GET", "", {"prefix": self.key, "uploads": ""}, allowed=(200, *_NOT_FOR_US))
        return [
            unescape(part(upload, "UploadId"))
            for upload in _UPLOAD.findall(body)
            if unescape(part(upload, "Key")) == self.key
        ]

    def begin(self) -> str:
        """Begin an upload; its id."""
        status, body, _ = self._exchange("POST", self.key, {"uploads": ""})
        return unescape(part(_checked(status, body), "UploadId"))

    def put_part(self, upload_id: str, number: int, content: "Content") -> str:
        """Send one part; its tag."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        status, body, tag = self._exchange("PUT", self.key, query, content)
        _checked(status, body)
        return tag

    def complete(self, upload_id: str, tags: Sequence[str]) -> str:
        """Make the object of all its parts."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        digest = hashlib.sha256(body).hexdigest()
        content = Content(lambda: iter([body]), len(body), digest, _SECONDS, 60 + len(tags) / 50)
        status, said, _ = self._exchange("POST", self.key, {"uploadId": upload_id}, content)
        return _checked(status, said)

    def _ask(self, method: str, key: str, query: Mapping[str, str], allowed: tuple[int, ...]) -> str:
        status, body, _ = self._exchange(method, key, query)
        if status not in allowed:
            raise StoreUnreachable(f"the archive store answers {status} to a question about unfinished uploads")
        return body

    def _exchange(self, method: str, key: str, query: Mapping[str, str], content: "Content | None" = None) -> Exchange:
        """Status, body and tag of the answer."""
        address = urlsplit(self.base)
        path = quote(f"{address.path}/{key}".rstrip("/") or "/", safe="/~-._")
        asked = "&".join(f"{name}={quote(query[name], safe='~-._')}" for name in sorted(query))
        connection = self._connection(address.scheme, address.netloc, content.stall if content else _SECONDS)
        digest = content.sha256 if content else hashlib.sha256(b"").hexdigest()
        headers = self._signed(method, address.netloc, path, asked, digest)
        try:
            # A server that refuses may answer and hang up before it has everything.
            with suppress(BrokenPipeError, ConnectionResetError):
                if content is None:
                    connection.request(method, f"{path}?{asked}", headers=headers)
                else:
                    length = {"content-length": str(content.size)}
                    connection.request(method, f"{path}?{asked}", body=content.pieces(), headers=headers | length)
            if connection.sock is not None and content is not None:
                connection.sock.settimeout(content.limit)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace"), answer.headers.get("ETag", "")
        except (OSError, http.client.HTTPException) as error:
            raise StoreUnreachable(f"the archive store does not answer: {error!r}") from error
        finally:
            connection.close()

    def _connection(self, scheme: str, host: str, seconds: float) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, timeout=seconds)
        trusted = ssl.create_default_context()
        if self.certificate:
            trusted.load_verify_locations(cadata=self.certificate)
        return http.client.HTTPSConnection(host, timeout=seconds, context=trusted)

    def _signed(self, method: str, host: str, path: str, query: str, digest: str) -> dict[str, str]:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
        if self.token:
            headers["x-amz-security-token"] = self.token
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        asked = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
        key = f"AWS4{self.secret_key}".encode()
        for step in (now[:8], self.region, "s3", "aws4_request"):
            key = hmac.digest(key, step.encode(), "sha256")
        signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return headers


@dataclass(frozen=True, slots=True)
class Content:
    """What a request sends."""

    pieces: Callable[[], Iterator[Piece]]
    size: int
    sha256: str
    stall: float  # seconds without getting further
    limit: float  # seconds until it is answered, once all was sent


def _checked(status: int, body: str) -> str:
    """The body of a success; S3 may report an error inside a 200 too."""
    code = code_in(body) if "<Error>" in body else ""
    if 200 <= status < 300 and not code:
        return body
    raise refusal(status, code)


def part(xml: str, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", xml, re.DOTALL)
    return found[1] if found else ""
