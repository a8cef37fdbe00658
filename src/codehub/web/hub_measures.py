"""How the live events of this process do, for /metrics: read from the hub at every scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from codehub.web.live import Hub


class HubCollector(Collector):
    """One for each hub."""

    def __init__(self, hub: Hub, registry: CollectorRegistry) -> None:
        self._hub = hub
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        status = self._hub.status
        yield GaugeMetricFamily(
            "codehub_streams_deaf", "1 while Redis is not heard and changes are found by reading.", status.is_deaf
        )
        yield CounterMetricFamily("codehub_streams_dropped", "Streams whose other end took nothing.", status.dropped)
        yield CounterMetricFamily("codehub_streams_gaps", "Times that everything was read anew.", status.gaps)
        yield CounterMetricFamily("codehub_streams_reads", "Reads of the database for streams.", status.reads)
        yield CounterMetricFamily("codehub_streams_events", "Events, each once for all who see it.", status.told)
