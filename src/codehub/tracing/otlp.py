"""Spans on their way to an OpenTelemetry collector: OTLP over HTTP, as JSON.

They are sent in batches beside everything else. A collector that is away costs nothing but the spans: at most `MOST`
wait, what cannot be sent is dropped and counted, and nobody waits for it.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog

from codehub import __version__
from codehub.config import TracingConfig
from codehub.tracing import spans
from codehub.tracing.spans import Span, Value

log = structlog.get_logger(__name__)

MOST = 10_000
BATCH = 500
EVERY_SECONDS = 2.0
_SEND_SECONDS = 5.0
_INTERNAL, _SERVER, _ERROR = 1, 2, 2


def encoded(batch: Sequence[Span], service: str) -> dict[str, Any]:
    """The body of a request to /v1/traces."""
    resource = {"service.name": service, "service.version": __version__}
    scope = {"name": "codehub", "version": __version__}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeSpans": [{"scope": scope, "spans": [_encoded(one) for one in batch]}],
            }
        ]
    }


def _encoded(span: Span) -> dict[str, Any]:
    found: dict[str, Any] = {
        "traceId": f"{span.trace_id:032x}",
        "spanId": f"{span.span_id:016x}",
        "name": span.name,
        "kind": _SERVER if span.is_server else _INTERNAL,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(max(span.start, span.end)),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id is not None:
        found["parentSpanId"] = f"{span.parent_id:016x}"
    if span.error is not None:
        found["status"] = {"code": _ERROR, "message": span.error}
    return found


def _attributes(given: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in given.items()]


def _value(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case _:
            return {"stringValue": value}


class Exporter:
    """Takes spans and sends them."""

    def __init__(self, config: TracingConfig) -> None:
        assert config.endpoint is not None
        self.dropped = 0
        self.sent = 0
        self._url = f"{config.endpoint.rstrip('/')}/v1/traces"
        self._headers = config.header_fields
        self._service = config.service_name
        self._waiting: deque[Span] = deque()
        self._is_failing = False

    def take(self, span: Span) -> None:
        if len(self._waiting) >= MOST:
            self.dropped += 1
        else:
            self._waiting.append(span)

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.flush()

    async def flush(self) -> None:
        """Send what waits; never raises for a collector that is away."""
        import httpx  # noqa: PLC0415 - only who traces pays for it

        if not self._waiting:
            return
        async with httpx.AsyncClient(timeout=_SEND_SECONDS, headers=self._headers) as client:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
                try:
                    answer = await client.post(self._url, json=encoded(batch, self._service))
                    answer.raise_for_status()
                except httpx.HTTPError as error:
                    self.dropped += len(batch)
                    if not self._is_failing:
                        log.warning(
                            "traces cannot be sent", endpoint=self._url, cause=str(error) or type(error).__name__
                        )
                    self._is_failing = True
                    return
                self.sent += len(batch)
                self._is_failing = False


@asynccontextmanager
async def exporting(config: TracingConfig) -> AsyncIterator[Exporter | None]:
    """Tracing is on inside, if the settings name a collector; what was recorded by the end is sent, too."""
    if config.endpoint is None:
        yield None
        return
    exporter = Exporter(config)
    spans.switch(exporter.take)
    sending = asyncio.create_task(exporter.run(), name="traces")
    try:
        yield exporter
    finally:
        spans.switch(None)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await exporter.flush()
