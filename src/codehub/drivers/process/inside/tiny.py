"""A tiny workspace: HTTP and WebSocket with the standard library alone, for tests and for a first look.

    GET  /                its workspace id            GET, PUT, DELETE /files/PATH   a file below the home
    GET  /echo            a WebSocket that echoes     POST /run   a shell command: what it wrote and its exit code
    GET  /request         the request as it arrived   anything else   404

It listens on the socket inherited as descriptor 3, or on --port. Behind a proxy that strips its prefix, like any IDE.
It starts at the price of a bare interpreter, since hundreds of tests and a benchmark wait for it: `_socket` and
`_thread` are what `socket` and `threading` are made of, which would double that. What few requests need is imported by
them.
"""

import _socket
import _thread
import io
import os
import sys

INHERITED = 3
_BACKLOG = 128
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_RUN_SECONDS = 30
_SLEEP = ["sleep", "infinity"]
_PING, _PONG, _CLOSE = 9, 10, 8
_OK, _SWITCHING, _NOT_FOUND, _CONFLICT = 200, 101, 404, 409
_KINDS = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".json": "application/json"}
_WORDS = {_OK: "OK", _SWITCHING: "Switching Protocols", _NOT_FOUND: "Not Found", _CONFLICT: "Conflict"}


def read(file: str) -> bytes:
    with open(file, "rb") as content:
        return content.read()


class Connection:
    """One connection of a visitor: a request after the other, until either side has enough."""

    home = os.path.expanduser("~")
    workspace_id = os.environ.get("CODEHUB_WORKSPACE_ID", "")

    def __init__(self, connection: _socket.socket) -> None:
        self.connection = connection
        self.rfile = io.BufferedReader(io.FileIO(connection.fileno(), closefd=False))
        self.command = self.path = ""
        self.fields: list[tuple[str, str]] = []
        self.is_last = False

    def serve(self) -> None:
        try:
            while not self.is_last and self.read_head():
                print(f"{self.command} {self.path}", flush=True)
                {"GET": self.get, "PUT": self.put, "DELETE": self.delete, "POST": self.post}.get(
                    self.command, self.nothing
                )()
        except (OSError, ValueError):
            return  # the visitor has gone, or speaks no HTTP
        finally:
            self.connection.close()

    def read_head(self) -> bool:
        line = self.rfile.readline().decode("latin-1")
        if not line:
            return False
        self.command, self.path, version = line.split()
        self.fields = []
        while line := self.rfile.readline().decode("latin-1").rstrip("\r\n"):
            name, _, value = line.partition(":")
            self.fields.append((name, value.strip()))
        self.is_last = version == "HTTP/1.0" or self.field("Connection").lower() == "close"
        if self.field("Expect").lower() == "100-continue":
            self.connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def field(self, name: str) -> str:
        return next((value for each, value in self.fields if each.lower() == name.lower()), "")

    @property
    def place(self) -> str:
        return self.path.partition("?")[0]

    def get(self) -> None:
        match self.place:
            case "/":
                page = f"<!doctype html><title>workspace</title><h1>workspace {self.workspace_id}</h1>"
                self.answer(_OK, page.encode(), "text/html; charset=utf-8")
            case "/request":
                import json

                content = {"method": self.command, "path": self.path, "headers": self.fields}
                self.answer(_OK, json.dumps(content).encode(), "application/json")
            case "/echo" if self.field("Upgrade").lower() == "websocket":
                self.echo()
            case path if path.startswith("/files/"):
                self.on_file(read)
            case _:
                self.answer(_NOT_FOUND, b"not found\n")

    def nothing(self) -> None:
        self.body()
        self.answer(_NOT_FOUND, b"not found\n")

    def put(self) -> None:
        body = self.body()

        def write(file: str) -> bytes:
            os.makedirs(os.path.dirname(file), exist_ok=True)
            with open(file, "wb") as content:
                content.write(body)
            return b""

        self.on_file(write)

    def delete(self) -> None:
        def remove(file: str) -> bytes:
            os.unlink(file)
            return b""

        self.on_file(remove)

    def post(self) -> None:
        import json
        import subprocess

        body = self.body().decode()
        if self.place != "/run":
            self.answer(_NOT_FOUND, b"not found\n")
            return
        # Running what its user types is what a workspace is for.
        done = subprocess.run(  # noqa: S602
            body,
            shell=True,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=_RUN_SECONDS,
        )
        content = {"code": done.returncode, "output": done.stdout.decode(errors="replace")}
        self.answer(_OK, json.dumps(content).encode(), "application/json")

    def on_file(self, act: "object") -> None:
        from urllib.parse import unquote

        home = os.path.realpath(self.home)
        file = os.path.realpath(os.path.join(home, unquote(self.place.removeprefix("/files/"))))
        if not self.place.startswith("/files/") or os.path.commonpath([home, file]) != home:
            self.answer(_NOT_FOUND, b"not found\n")
            return
        assert callable(act)
        try:
            content = act(file)
        except OSError as error:
            status = _NOT_FOUND if isinstance(error, FileNotFoundError) else _CONFLICT
            self.answer(status, f"{error.strerror}\n".encode())
            return
        kind = _KINDS.get(os.path.splitext(file)[1], "application/octet-stream") if act is read else "text/plain"
        self.answer(_OK, content, kind)

    def body(self) -> bytes:
        if self.field("Transfer-Encoding").lower() != "chunked":
            return self.rfile.read(int(self.field("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def answer(self, status: int, content: bytes, kind: str = "text/plain") -> None:
        self.send_head(status, f"Content-Type: {kind}", f"Content-Length: {len(content)}")
        self.connection.sendall(content)

    def send_head(self, status: int, *fields: str) -> None:
        lines = [f"HTTP/1.1 {status} {_WORDS[status]}", "Server: tiny", *fields]
        if self.is_last and status != _SWITCHING:
            lines.append("Connection: close")
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def echo(self) -> None:
        import base64
        import hashlib

        key = self.field("Sec-WebSocket-Key").encode()
        accept = base64.b64encode(hashlib.sha1(key + _MAGIC).digest()).decode()  # noqa: S324 - as the protocol says
        self.is_last = True
        self.send_head(_SWITCHING, "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Accept: {accept}")
        while (frame := self.frame()) is not None:
            first, content = frame
            kind = first & 0x0F
            if kind == _PING:
                self.send_frame(0x80 | _PONG, content)
            elif kind != _PONG:
                self.send_frame(first, content)
            if kind == _CLOSE:
                return

    def frame(self) -> tuple[int, bytes] | None:
        head = self.rfile.read(2)
        if len(head) < 2:
            return None
        size = head[1] & 0x7F
        if size == 126:
            size = int.from_bytes(self.rfile.read(2), "big")
        elif size == 127:
            size = int.from_bytes(self.rfile.read(8), "big")
        mask = self.rfile.read(4) if head[1] & 0x80 else b"\0\0\0\0"
        content = self.rfile.read(size)
        whole = (mask * (size // 4 + 1))[:size]
        clear = int.from_bytes(content, "big") ^ int.from_bytes(whole, "big")
        return head[0], clear.to_bytes(size, "big")

    def send_frame(self, first: int, content: bytes) -> None:
        size = len(content)
        if size < 126:
            head = bytes([first, size])
        elif size < 1 << 16:
            head = bytes([first, 126]) + size.to_bytes(2, "big")
        else:
            head = bytes([first, 127]) + size.to_bytes(8, "big")
        self.connection.sendall(head + content)


def listener_of(words: list[str]) -> _socket.socket:
    """`[--host ADDRESS] [--port NUMBER]`, or else the inherited one."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    if "--port" not in given:
        return _socket.socket(fileno=INHERITED)
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind((given.get("--host", "0.0.0.0"), int(given["--port"])))  # noqa: S104 - a container's own address
    listener.listen(_BACKLOG)
    return listener


def main() -> None:
    listener = listener_of(sys.argv[1:])
    for own_session in (False, True):  # so that tests see whether a removal takes everything
        os.posix_spawnp(_SLEEP[0], _SLEEP, os.environ, setsid=own_session)
    print("tiny workspace: listening", flush=True)
    while True:
        number, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001
        _thread.start_new_thread(Connection(_socket.socket(fileno=number)).serve, ())


if __name__ == "__main__":
    main()
