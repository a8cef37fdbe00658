"""An S3 server in this process that takes parts of any size and answers as it is told, as no real one does."""

import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, str]  # a status and a code


@dataclass
class FakeS3:
    """One bucket; `refuse` is asked about every request first."""

    refuse: Callable[[str, str, dict[str, str]], Answer | None] = lambda _method, _path, _query: None
    # Done, but the connection breaks before the answer.
    loses: Callable[[str, str, dict[str, str]], bool] = lambda _method, _path, _query: False
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    parts: list[tuple[int, int]] = field(default_factory=list)  # number and size of each that arrived, repeats too
    asked: list[str] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)  # of objects, if another than usual
    served: int = 0  # bytes of objects
    slowness: float = 0.0  # seconds before each answer
    endpoint: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: FakeS3
    is_lost = False

    def log_message(self, *_: object) -> None:
        pass

    def _serve(self) -> None:
        fake, target = self.fake, urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(target.query, keep_blank_values=True).items()}
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fake.asked.append(f"{self.command} {self.path}")
        time.sleep(fake.slowness)
        refused = fake.refuse(self.command, target.path, query)
        if refused:
            return self._answer(refused[0], f"<Error><Code>{refused[1]}</Code><Message>no</Message></Error>".encode())
        self.is_lost = fake.loses(self.command, target.path, query)
        match self.command:
            case "POST" if "uploads" in query:
                name = f"upload-{len(fake.uploads)}"
                fake.uploads[name] = {}
                return self._answer(200, f"<X><UploadId>{name}</UploadId></X>".encode())
            case "PUT" if "uploadId" in query:
                number = int(query["partNumber"])
                fake.parts.append((number, len(body)))
                assert self.headers["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
                fake.uploads[query["uploadId"]][number] = body
                return self._answer(200, b"", f'"{number}"')
            case "POST" if query["uploadId"] not in fake.uploads:
                return self._answer(404, b"<Error><Code>NoSuchUpload</Code></Error>")
            case "POST":
                parts = fake.uploads.pop(query["uploadId"])
                numbers = [int(found) for found in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
                assert numbers == sorted(parts)
                fake.objects[target.path] = b"".join(parts[number] for number in numbers)
                return self._answer(
                    200, b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
                )
            case "PUT":
                fake.objects[target.path] = body
                return self._answer(200, b"", '"e"')
            case "DELETE":
                fake.uploads.pop(query.get("uploadId", ""), None)
                return self._answer(204, b"")
            case _ if "uploads" in query:
                return self._answer(200, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
        return self._get(fake.objects.get(target.path), fake.tags.get(target.path, '"e"'))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815 - as the base class has it

    def _get(self, found: bytes | None, tag: str) -> None:
        if found is None:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        if (ranged := self.headers.get("range")) and (span := re.fullmatch(r"bytes=(\d+)-(\d+)", ranged)):
            start, end = int(span[1]), min(int(span[2]) + 1, len(found))
            self.fake.served += end - start
            return self._answer(206, found[start:end], where=f"bytes {start}-{end - 1}/{len(found)}", etag=tag)
        return self._answer(200, found, tag)

    def _answer(self, status: int, body: bytes, etag: str = '"e"', where: str = "") -> None:
        if self.is_lost:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", etag)
        self.send_header("Last-Modified", "Wed, 01 Jan 2025 00:00:00 GMT")
        if where:
            self.send_header("Content-Range", where)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    fake = FakeS3()
    handler = type("Handler", (_Handler,), {"fake": fake})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    fake.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
