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
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from .answers import code_in
from .protocol import StoreUnreachable, TryAgain
from .refusals import refusal

Piece = bytes | memoryview
_UPLOAD = re.compile(r"<Upload>.*?</Upload>", re.DOTALL)
_PART_TAG = re.compile(r'"?([0-9a-f]{32})"?')
_WHOLE_TAG = re.compile(r'"?([0-9a-f]{32}-[0-9]+)"?')
_NO_UPLOAD = "NoSuchUpload"
_SECONDS = 20
_NOT_FOR_US = (403, 405, 501)  # may not be listed, or cannot be: no reason to keep a home from its archive


class UploadGone(TryAgain):
    """There is no such upload: it was ended, or has become the object and the answer that said so was lost."""


class Answer(NamedTuple):
    status: int
    body: str
    tag: str
    size: int | None  # of what was asked for, where the answer says so


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
        answer = self._exchange("POST", self.key, {"uploads": ""})
        return unescape(part(_checked(answer), "UploadId"))

    def put_part(self, upload_id: str, number: int, content: "Content") -> str:
        """Send one part; its tag."""
        query = {"partNumber": str(number), "uploadId": upload_id}
        answer = self._exchange("PUT", self.key, query, content)
        _checked(answer)
        return answer.tag

    def complete(self, upload_id: str, tags: Sequence[str]) -> str:
        """Make the object of all its parts. UploadGone: perhaps it was made."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, 1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        digest = hashlib.sha256(body).hexdigest()
        content = Content(lambda: iter([body]), len(body), digest, _SECONDS, 60 + len(tags) / 50)
        answer = self._exchange("POST", self.key, {"uploadId": upload_id}, content)
        if answer.status == 404 and code_in(answer.body) == _NO_UPLOAD:
            raise UploadGone(f"an upload vanished from the archive store (404 {_NO_UPLOAD})")
        return _checked(answer)

    def is_made_of(self, size: int, tags: Sequence[str]) -> bool:
        """Whether the object is there and is that of these parts, as far as the store's tags tell."""
        found = self._exchange("HEAD", self.key, {})
        if found.status == 404:
            return False
        _checked(found)
        expected = _tag_of(tags)
        told = _WHOLE_TAG.fullmatch(found.tag)
        return found.size == size and (expected is None or told is None or told[1] == expected)

    def _ask(self, method: str, key: str, query: Mapping[str, str], allowed: tuple[int, ...]) -> str:
        answer = self._exchange(method, key, query)
        if answer.status not in allowed:
            raise StoreUnreachable(f"the archive store answers {answer.status} to a question about unfinished uploads")
        return answer.body

    def _exchange(self, method: str, key: str, query: Mapping[str, str], content: "Content | None" = None) -> Answer:
        address = urlsplit(self.base)
        path = quote(f"{address.path}/{key}".rstrip("/") or "/", safe="/~-._")
        asked = "&".join(f"{name}={quote(query[name], safe='~-._')}" for name in sorted(query))
        target = f"{path}?{asked}" if asked else path
        connection = self._connection(address.scheme, address.netloc, content.stall if content else _SECONDS)
        digest = content.sha256 if content else hashlib.sha256(b"").hexdigest()
        headers = self._signed(method, address.netloc, path, asked, digest)
        try:
            # A server that refuses may answer and hang up before it has everything.
            with suppress(BrokenPipeError, ConnectionResetError):
                if content is None:
                    connection.request(method, target, headers=headers)
                else:
                    length = {"content-length": str(content.size)}
                    connection.request(method, target, body=content.pieces(), headers=headers | length)
            if connection.sock is not None and content is not None:
                connection.sock.settimeout(content.limit)
            answer = connection.getresponse()
            told = answer.headers.get("Content-Length", "")
            size = int(told) if told.isdecimal() else None
            return Answer(answer.status, answer.read().decode(errors="replace"), answer.headers.get("ETag", ""), size)
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


def _checked(answer: Answer) -> str:
    """The body of a success; S3 may report an error inside a 200 too."""
    code = code_in(answer.body) if "<Error>" in answer.body else ""
    if 200 <= answer.status < 300 and not code:
        return answer.body
    raise refusal(answer.status, code)


def _tag_of(tags: Sequence[str]) -> str | None:
    """That of an object made of parts with these tags, where those are their MD5; a store may have others."""
    digests = [_PART_TAG.fullmatch(tag) for tag in tags]
    if not all(digests):
        return None
    joined = b"".join(bytes.fromhex(digest[1]) for digest in digests if digest)
    return f"{hashlib.md5(joined, usedforsecurity=False).hexdigest()}-{len(tags)}"


def part(xml: str, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", xml, re.DOTALL)
    return found[1] if found else ""
