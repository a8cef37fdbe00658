"""An HTTP client that costs next to nothing: a full one would take time from what is measured beside it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

_LONGEST_SECONDS = 120.0
_LONGEST_HEAD = 1 << 20

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    fields: Mapping[str, str]  # by name in small letters
    text: str


class Caller:
    """Asks one server, over connections that are kept and as many as it takes."""

    def __init__(self, url: str, fields: Mapping[str, str]) -> None:
        self._address = urlsplit(url)
        given = {"Host": self._address.netloc, **fields}
        self._head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        self._free: list[Line] = []

    async def ask(self, method: str, path: str, body: str = "") -> Answer:
        content = body.encode()
        kind = "Content-Type: application/json\r\n" if content else ""
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{kind}Content-Length: {len(content)}\r\n\r\n"
        async with asyncio.timeout(_LONGEST_SECONDS):
            line, answer = await self._exchange(head.encode() + content)
        if answer.fields.get("connection", "").lower() == "close":
            line[1].close()
        else:
            self._free.append(line)
        return answer

    async def _exchange(self, request: bytes) -> tuple[Line, Answer]:
        while self._free:
            line = self._free.pop()
            try:
                return line, await _answer(line, request)
            except (ConnectionError, asyncio.IncompleteReadError):  # it was closed while nobody used it
                line[1].close()
        line = await self._dial()
        return line, await _answer(line, request)

    async def _dial(self) -> Line:
        return await asyncio.open_connection(self._address.hostname, self._address.port, limit=_LONGEST_HEAD)

    def close(self) -> None:
        for _, writer in self._free:
            writer.close()


async def _answer(line: Line, request: bytes) -> Answer:
    reader, writer = line
    writer.write(request)
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if fields.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        content = b"".join(parts)
    else:
        content = await reader.readexactly(int(fields.get("content-length", 0)))
    return Answer(int(first.split()[1]), fields, content.decode())
