"""Multipart uploads that a killed job left in S3: invisible, paid for, and beyond obstore's reach.

Two plain requests with an AWS signature (version 4): list the uploads of one key, abort each. Only where the request
holds fixed keys; with other credentials the bucket needs a lifecycle rule (docs/operating.md).
"""

import hashlib
import hmac
import http.client
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import quote, urlsplit

from .protocol import StoreUnreachable

_UPLOAD = re.compile(r"<Upload>.*?</Upload>", re.DOTALL)
_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The unfinished uploads of exactly one key."""

    bucket: str
    key: str
    endpoint: str
    region: str
    access_key: str
    secret_key: str
    token: str = ""

    @classmethod
    def of(cls, bucket: str, key: str, options: Mapping[str, Any]) -> "Unfinished":
        region = str(options.get("region") or "us-east-1")
        endpoint = str(options.get("endpoint") or f"https://s3.{region}.amazonaws.com")
        return cls(
            bucket,
            key,
            endpoint.rstrip("/"),
            region,
            str(options.get("access_key_id") or ""),
            str(options.get("secret_access_key") or ""),
            str(options.get("session_token") or ""),
        )

    def abort(self) -> int:
        """Abort them all; how many there were."""
        found = self.ids()
        for upload_id in found:
            self._ask("DELETE", self.key, {"uploadId": upload_id}, allowed=(204, 404))
        return len(found)

    def ids(self) -> list[str]:
        if not self.access_key:
            return []
        body = self._ask("GET", "", {"prefix": self.key, "uploads": ""}, allowed=(200,))
        return [
            unescape(part(upload, "UploadId"))
            for upload in _UPLOAD.findall(body)
            if unescape(part(upload, "Key")) == self.key
        ]

    def _ask(self, method: str, key: str, query: Mapping[str, str], allowed: tuple[int, ...]) -> str:
        address = urlsplit(self.endpoint)
        path = quote(f"{address.path}/{self.bucket}/{key}".rstrip("/"), safe="/~-._")
        asked = "&".join(f"{name}={quote(query[name], safe='~-._')}" for name in sorted(query))
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.netloc, timeout=_SECONDS)
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
