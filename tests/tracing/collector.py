"""An OpenTelemetry collector as far as a sender can tell: OTLP over HTTP, checked as strictly as the protocol is."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_TRACE, _SPAN = re.compile(r"[0-9a-f]{32}"), re.compile(r"[0-9a-f]{16}")


@dataclass
class Collector:
    url: str = ""
    spans: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    status: int = 200

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


def _checked(body: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for resource in body["resourceSpans"]:
        assert {"key": "service.name", "value": {"stringValue": "codehub"}} in resource["resource"]["attributes"]
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                assert _TRACE.fullmatch(span["traceId"])
                assert int(span["traceId"], 16)
                assert _SPAN.fullmatch(span["spanId"])
                assert int(span["spanId"], 16)
                assert int(span["endTimeUnixNano"]) >= int(span["startTimeUnixNano"]) > 1_600_000_000 * 10**9
                found.append(span)
    return found


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.path == "/v1/traces"
            assert self.headers["Content-Type"] == "application/json"
            if collector.status == 200:
                collector.spans += _checked(body)
                collector.headers.append(dict(self.headers))
            self.send_response(collector.status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name elsewhere
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
