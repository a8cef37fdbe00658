"""Whether an instance takes traffic: one HTTP request over its socket, with a time limit."""

import asyncio
from contextlib import suppress
from pathlib import Path

_LONGEST_LINE = 4096


async def answers(socket: Path, path: str, seconds: float) -> bool:
    """True for any answer with a status below 500."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_unix_connection(str(socket), limit=_LONGEST_LINE)
            try:
                request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                writer.write(request.encode())
                line = await reader.readline()
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, ValueError):
        return False
    version, _, rest = line.partition(b" ")
    return version.startswith(b"HTTP/1.") and rest[:1] in (b"1", b"2", b"3", b"4")
