"""A tiny workspace: HTTP and WebSocket with the standard library alone, for tests and for a first look.

    GET  /                its workspace id            GET, PUT, DELETE /files/PATH   a file below the home
    GET  /echo            a WebSocket that echoes     POST /run   a shell command: what it wrote and its exit code
    GET  /request         the request as it arrived   anything else   404

It listens on the socket inherited as descriptor 3, or on --port. Behind a proxy that strips its prefix, like any IDE.
"""

import argparse
import base64
import hashlib
import http.server
import json
import os
import socket
import struct
import subprocess
import sys
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote, urlsplit

INHERITED = 3
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_RUN_SECONDS = 30
_SLEEP = ["sleep", "infinity"]
_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        connection, address = self.socket.accept()
        return connection, address if isinstance(address, tuple) else ("proxy", 0)

    def server_bind(self) -> None:
        """Without the look-up of our own name, which takes seconds where there is no network."""
        self.socket.bind(self.server_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    home = Path.home()
    workspace_id = os.environ.get("CODEHUB_WORKSPACE_ID", "")

    def do_GET(self) -> None:
        match urlsplit(self.path).path:
            case "/":
                page = f"<!doctype html><title>workspace</title><h1>workspace {self.workspace_id}</h1>"
                self.answer(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8")
            case "/request":
                content = {"method": self.command, "path": self.path, "headers": self.headers.items()}
                self.answer(HTTPStatus.OK, json.dumps(content).encode(), "application/json")
            case "/echo" if self.headers.get("Upgrade", "").lower() == "websocket":
                self.echo()
            case path if path.startswith("/files/"):
                self.on_file(lambda file: file.read_bytes())
            case _:
                self.answer(HTTPStatus.NOT_FOUND, b"not found\n")

    def do_PUT(self) -> None:
        body = self.body()

        def write(file: Path) -> bytes:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(body)
            return b""

        self.on_file(write)

    def do_DELETE(self) -> None:
        def remove(file: Path) -> bytes:
            file.unlink()
            return b""

        self.on_file(remove)

    def do_POST(self) -> None:
        body = self.body().decode()
        if urlsplit(self.path).path != "/run":
            self.answer(HTTPStatus.NOT_FOUND, b"not found\n")
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
        self.answer(HTTPStatus.OK, json.dumps(content).encode(), "application/json")

    def on_file(self, act: "object") -> None:
        path = urlsplit(self.path).path
        file = (self.home / unquote(path.removeprefix("/files/"))).resolve()
        if not path.startswith("/files/") or not file.is_relative_to(self.home.resolve()):
            self.answer(HTTPStatus.NOT_FOUND, b"not found\n")
            return
        try:
            assert callable(act)
            content = act(file)
        except OSError as error:
            status = HTTPStatus.NOT_FOUND if isinstance(error, FileNotFoundError) else HTTPStatus.CONFLICT
            self.answer(status, f"{error.strerror}\n".encode())
            return
        self.answer(HTTPStatus.OK, content, "application/octet-stream")

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def answer(self, status: HTTPStatus, content: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def echo(self) -> None:
        key = self.headers.get("Sec-WebSocket-Key", "").encode()
        accept = base64.b64encode(hashlib.sha1(key + _MAGIC).digest()).decode()  # noqa: S324 - as the protocol says
        self.send_response(HTTPStatus.SWITCHING_PROTOCOLS)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", accept)
        self.end_headers()
        self.close_connection = True
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
            size = int(struct.unpack(">H", self.rfile.read(2))[0])
        elif size == 127:
            size = int(struct.unpack(">Q", self.rfile.read(8))[0])
        mask = self.rfile.read(4) if head[1] & 0x80 else b"\0\0\0\0"
        content = self.rfile.read(size)
        whole = (mask * (size // 4 + 1))[:size]
        clear = int.from_bytes(content, "big") ^ int.from_bytes(whole, "big")
        return head[0], clear.to_bytes(size, "big")

    def send_frame(self, first: int, content: bytes) -> None:
        size = len(content)
        if size < 126:
            head = struct.pack(">BB", first, size)
        elif size < 1 << 16:
            head = struct.pack(">BBH", first, 126, size)
        else:
            head = struct.pack(">BBQ", first, 127, size)
        self.wfile.write(head + content)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class's name
        sys.stdout.write(f"{format % arguments}\n")
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int)
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - a container's own address
    options = parser.parse_args()
    server = Server((options.host, options.port or 0), Handler, bind_and_activate=options.port is not None)
    if options.port is None:
        server.socket.close()
        server.socket = socket.socket(fileno=INHERITED)
    for own_session in (False, True):  # so that tests see whether a removal takes everything
        subprocess.Popen(_SLEEP, stdin=subprocess.DEVNULL, start_new_session=own_session)  # noqa: S603
    print("tiny workspace: listening", flush=True)  # noqa: T201
    server.serve_forever()


if __name__ == "__main__":
    main()
