"""How the proxy does, for /metrics: plain numbers that the engine and the gate count, read at every scrape.

Most requests wait for nothing: they are counted as such, and only the others are timed.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from codehub.web.proxy.engine import Engine
    from codehub.web.proxy.gate import Gate

_BOUNDS = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0)  # seconds


class Tally:
    """What has happened so far in one process."""

    __slots__ = ("_waited", "_waited_seconds", "at_once", "by_api", "by_proxy", "by_workspace", "turned_away")

    def __init__(self) -> None:
        # Answers by the first digit of their status, and whose they are.
        self.by_workspace = [0] * 10
        self.by_api = [0] * 10
        self.by_proxy = [0] * 10
        self.at_once = 0  # requests that were sent on without a wait
        self.turned_away = 0  # connections
        self._waited = [0] * (len(_BOUNDS) + 1)
        self._waited_seconds = 0.0

    def waited(self, seconds: float) -> None:
        """A request, for the gate's answer or for a connection."""
        self._waited[bisect_left(_BOUNDS, seconds)] += 1
        self._waited_seconds += seconds

    def answers(self) -> Iterator[tuple[str, str, int]]:
        for by, counts in (("workspace", self.by_workspace), ("api", self.by_api), ("proxy", self.by_proxy)):
            yield from ((by, f"{digit}xx", count) for digit, count in enumerate(counts) if count)

    def waits(self) -> tuple[list[tuple[str, float]], float]:
        """Buckets as Prometheus has them, and the sum."""
        total, buckets = float(self.at_once), []
        for bound, count in zip((*_BOUNDS, float("inf")), self._waited, strict=True):
            total += count
            buckets.append((str(bound) if bound in _BOUNDS else "+Inf", total))
        return buckets, self._waited_seconds


class EngineCollector(Collector):
    """What passes."""

    def __init__(self, engine: "Engine", registry: CollectorRegistry) -> None:
        self._engine = engine
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        engine, tally = self._engine, self._engine.tally
        open_now = GaugeMetricFamily("codehub_proxy_connections", "Connections of clients.", labels=["kind"])
        for kind, count in (
            ("http", len(engine.clients)),
            ("websocket", len(engine.tunnels)),
            ("handshake", engine.greeting),
        ):
            open_now.add_metric([kind], count)
        yield open_now
        yield CounterMetricFamily("codehub_proxy_turned_away", "Connections beyond the limits.", tally.turned_away)
        answers = CounterMetricFamily("codehub_proxy_answers", "Answers, and whose they were.", labels=["by", "status"])
        for by, status, count in tally.answers():
            answers.add_metric([by, status], count)
        yield answers
        buckets, total = tally.waits()
        yield HistogramMetricFamily(
            "codehub_proxy_wait_seconds", "Time until a request was sent on: the gate, a connection.", buckets, total
        )


class GateCollector(Collector):
    """Who is known."""

    def __init__(self, gate: "Gate", registry: CollectorRegistry) -> None:
        self._gate = gate
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        status, now = self._gate.status, time.monotonic()
        ages = [now - each.confirmed_at for each in self._gate.visitors.all()]
        yield GaugeMetricFamily("codehub_gate_visitors", "Visitors who were let in and are known.", len(ages))
        yield GaugeMetricFamily(
            "codehub_gate_age_seconds", "How old the oldest knowledge of one is.", max(ages, default=0)
        )
        yield GaugeMetricFamily("codehub_gate_deaf", "1 while Redis is not heard.", status.is_deaf)
        yield CounterMetricFamily("codehub_gate_statements", "Statements sent to the database.", status.statements)
