"""Metrics: what /metrics shows, in a registry of its own so that tests and processes do not share state."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from codehub import __version__


class Metrics:
    """Every metric of one process; names begin with codehub_."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        Info("codehub", "The running version.", registry=self.registry).info({"version": __version__})
        self.dependency_up = Gauge(
            "codehub_dependency_up", "1 while the dependency answers, else 0.", ["name"], registry=self.registry
        )
        self.requests = Counter(
            "codehub_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "codehub_http_request_seconds", "Time to answer a request.", ["route"], registry=self.registry
        )

        self.sse_clients = Gauge("codehub_sse_clients", "Open streams of live events.", registry=self.registry)

    def exposition(self) -> bytes:
        return generate_latest(self.registry)
