"""Multipart uploads that a killed job left in S3: invisible, paid for, and beyond obstore's reach.

Two plain requests with an AWS signature (version 4): list the uploads of one key, abort each. Only where the request
holds fixed keys; with other credentials, or where listing is not allowed, the bucket needs a lifecycle rule.
"""

import hashlib
import hmac
import http.client
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import quote, urlsplit

from .protocol import StoreUnreachable

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

    def _ask(self, method: str, key: str, query: Mapping[str, str], allowed: tuple[int, ...]) -> str:
        address = urlsplit(self.base)
        path = quote(f"{address.path}/{key}".rstrip("/") or "/", safe="/~-._")
        asked = "&".join(f"{name}={quote(query[name], safe='~-._')}" for name in sorted(query))
        connection = self._connection(address.scheme, address.netloc)
        try:
            connection.request(method, f"{path}?{asked}", headers=self._signed(method, address.netloc, path, asked))
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise StoreUnreachable(f"the archive store does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status not in allowed:
            raise StoreUnreachable(f"the archive store answers {answer.status} to a question about unfinished uploads")
        return body

    def _connection(self, scheme: str, host: str) -> http.client.HTTPConnection:
        if scheme != "https":
            return http.client.HTTPConnection(host, timeout=_SECONDS)
        trusted = ssl.create_default_context()
        if self.certificate:
            trusted.load_verify_locations(cadata=self.certificate)
        return http.client.HTTPSConnection(host, timeout=_SECONDS, context=trusted)

    def _signed(self, method: str, host: str, path: str, query: str) -> dict[str, str]:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        nothing = hashlib.sha256(b"").hexdigest()
        headers = {"host": host, "x-amz-content-sha256": nothing, "x-amz-date": now}
        if self.token:
            headers["x-amz-security-token"] = self.token
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        asked = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{nothing}"
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


def part(xml: str, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", xml, re.DOTALL)
    return found[1] if found else ""
