"""`codehub doctor --remote` on a server that tells its details to other networks only."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from codehub.cli.checks import remote
from codehub.services.doctor.finding import State


@contextmanager
def saying(status: int, told: dict[str, object]) -> Iterator[str]:
    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_whether_it_is_ready_is_enough_to_go_by() -> None:
    with saying(200, {"status": "ready", "dependencies": {}}) as url:
        first, *_ = remote.server(url)
    assert (first.state, first.detail) == (State.OK, f"{url} is ready")
    with saying(503, {"status": "not ready", "dependencies": {}}) as url:
        first, *_ = remote.server(url)
    assert first.state is State.FAILED
    assert "is not ready" in first.detail
