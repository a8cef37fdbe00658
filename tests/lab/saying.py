"""A server that says one thing to every GET, after a while: for what a real one seldom does."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def saying(body: bytes, *, counted: list[str] | None = None, until: threading.Event | None = None) -> Iterator[str]:
    """Its URL. `counted` gets the path of each request; nothing is said before `until`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if counted is not None:
                counted.append(self.path)
            if until is not None:
                until.wait(30)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name elsewhere
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()
