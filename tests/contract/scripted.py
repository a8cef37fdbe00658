"""An S3 server that answers what a test tells it to, for answers that no healthy server gives."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from codehub.drivers.archives import S3Options


@dataclass
class Answer:
    """One answer. A body shorter than `length` is followed by silence, or by the end of the connection."""

    status: int = 200
    body: bytes = b""
    length: int | None = None
    hang_up: bool = False
    then: "Answer | None" = None  # what is answered from the next time on
    tag: str = '"e"'


def error(status: int, code: str) -> Answer:
    return Answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode())


@dataclass
class ScriptedS3:
    """Answers by the end of the path; everything else is NoSuchKey."""

    answers: dict[str, Answer] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""
    accepts_writes: bool = False

    @property
    def options(self) -> S3Options:
        return S3Options(endpoint=self.endpoint, access_key_id="a", secret_access_key="b")

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                self.asked.append(f"{method} {target}")
                lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
                await reader.readexactly(int(lines.get(b"content-length", b"0")))
                if self.accepts_writes and method in ("PUT", "DELETE"):
                    writer.write(b'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 0\r\n\r\n')
                elif not await self.answer(writer, target.split("?")[0], lines.get(b"range", b"").decode()):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, writer: asyncio.StreamWriter, path: str, ranged: str) -> bool:
        end = next((end for end in self.answers if path.endswith(end)), "")
        answer = self.answers.get(end, error(404, "NoSuchKey"))
        if answer.then is not None:
            self.answers[end] = answer.then
        body, length = answer.body, answer.length if answer.length is not None else len(answer.body)
        headers = f"Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT\r\nETag: {answer.tag}\r\n"
        status = answer.status
        if status == 200 and (span := re.fullmatch(r"bytes=(\d+)-(\d+)", ranged)):
            first, past = int(span[1]), max(1, min(int(span[2]) + 1, length))
            status, headers = 206, headers + f"Content-Range: bytes {first}-{past - 1}/{length}\r\n"
            body, length = body[first:past], past - first
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{headers}\r\n".encode() + body)
        await writer.drain()
        if len(body) < length and not answer.hang_up:
            await asyncio.Event().wait()
        return len(body) == length


@asynccontextmanager
async def scripted_s3() -> AsyncIterator[ScriptedS3]:
    script = ScriptedS3()
    handlers: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            await script.handle(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            handlers.discard(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    script.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield script
    finally:
        server.close()
        for handler in list(handlers):
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
