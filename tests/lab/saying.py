"""Servers that say one thing to everybody, whole or bit by bit: for what a real one seldom does."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def saying(
    body: bytes, status: int = 200, *, counted: list[str] | None = None, until: threading.Event | None = None
) -> Iterator[str]:
    """Its URL, to every GET. `counted` gets the path of each request; nothing is said before `until`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if counted is not None:
                counted.append(self.path)
            if until is not None:
                until.wait(30)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name elsewhere
            pass

    with _served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


@contextmanager
def babbling(line: bytes, *, until: threading.Event | None = None) -> Iterator[str]:
    """The URL of one that says this as soon as it is called, and no HTTP; over and over until `until`."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(line)
            while until is not None and not until.wait(0.1):
                self.request.sendall(line)
            self.request.recv(65536)  # what is left unread would take back what was said

    with _served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as url:
        yield url


@contextmanager
def _served(server: socketserver.TCPServer) -> Iterator[str]:
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
