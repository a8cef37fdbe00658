"""The least of a WebSocket's client: text there and back. The standard library only."""

import base64
import os
import socket
import struct

_TEXT, _CLOSE, _PING, _PONG = 1, 8, 9, 10


class Line:
    """One that is open. ConnectionError when it is not opened, or ends."""

    def __init__(self, port: int, host: str, path: str, cookies: str, seconds: float) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=seconds)
        self._file = self._socket.makefile("rb")
        key = base64.b64encode(os.urandom(16)).decode()
        asked = (
            f"GET {path} HTTP/1.1", f"Host: {host}", f"Origin: http://{host}", f"Cookie: {cookies}",
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}",
        )  # fmt: skip
        self._socket.sendall("\r\n".join((*asked, "", "")).encode())
        status = self._file.readline().decode(errors="replace").strip()
        if " 101" not in status:
            raise ConnectionError(f"{path} is not opened: {status}")
        while self._file.readline().strip():
            pass

    def send(self, text: str, kind: int = _TEXT) -> None:
        content, mask = text.encode(), os.urandom(4)
        size = len(content)
        if size < 126:
            length = bytes([0x80 | size])
        else:
            length = struct.pack("!BH", 0xFE, size) if size < 1 << 16 else struct.pack("!BQ", 0xFF, size)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))
        self._socket.sendall(bytes([0x80 | kind]) + length + mask + masked)

    def receive(self) -> str:
        """The next message."""
        message = b""
        while True:
            is_last, kind, content = self._frame()
            if kind == _CLOSE:
                raise ConnectionError("it was closed")
            if kind == _PING:
                self.send(content.decode(errors="replace"), _PONG)
            elif kind != _PONG:
                message += content
                if is_last:
                    return message.decode()

    def _frame(self) -> tuple[bool, int, bytes]:
        first, size = self._read(2)
        if size == 126:
            (size,) = struct.unpack("!H", self._read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", self._read(8))
        return bool(first & 0x80), first & 0x0F, self._read(size)

    def _read(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            raise ConnectionError("it ended")
        return found

    def close(self) -> None:
        self._file.close()
        self._socket.close()
