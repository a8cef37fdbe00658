"""Traces: nothing while they are off, one tree per operation while they are on, and nobody waits for the collector."""

from collections.abc import AsyncIterator, Iterator

import pytest
from pydantic import SecretStr

from codehub import tracing
from codehub.config import Settings, TracingConfig
from codehub.coordinator import traces
from codehub.errors import SettingsError
from codehub.model.workspace import Desired, Phase
from codehub.tracing.otlp import MOST, Exporter, exporting
from codehub.tracing.spans import Span
from tests.coordinator.installation import Installation, installation, is_at
from tests.tracing.collector import Collector, attributes, collecting


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


@pytest.fixture
async def site(database: str) -> AsyncIterator[Installation]:
    async with installation(database) as site:
        yield site


def config(collector: Collector) -> TracingConfig:
    return TracingConfig.model_construct(endpoint=collector.url, headers=SecretStr(""), service_name="codehub")


async def test_an_operation_is_one_tree_by_its_op_id(site: Installation, collector: Collector) -> None:
    async with exporting(config(collector)), site.controller(on_recorded=traces.recorded) as controller:
        it = await site.add()
        await site.ticked_until(controller, it, is_at(Phase.RUNNING))
        await site.wish(it, Desired.ARCHIVED)
        row = await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
    (whole,) = collector.named("ARCHIVING")
    assert row.status.op_id is not None
    assert whole["traceId"] == row.status.op_id.hex
    assert attributes(whole)["codehub.workspace"] == str(it)
    assert "parentSpanId" not in whole
    below = {span["name"] for span in collector.spans if span.get("parentSpanId") == whole["spanId"]}
    assert {"StartArchiveJob", "DeleteVolume", "storage job"} <= below
    assert all(span["traceId"] == whole["traceId"] for span in collector.named("storage job"))
    assert {span["name"] for span in collector.spans} >= {"PROVISIONING", "STARTING", "StartInstance", "transaction"}


async def test_a_span_that_failed_says_so_and_children_are_below(collector: Collector) -> None:
    async with exporting(config(collector)):
        with pytest.raises(ZeroDivisionError), tracing.span("outer", codehub__number=3), tracing.span("inner"):
            _ = 1 / 0
    (outer,), (inner,) = collector.named("outer"), collector.named("inner")
    assert inner["parentSpanId"] == outer["spanId"]
    assert inner["traceId"] == outer["traceId"]
    assert outer["status"] == {"code": 2, "message": "ZeroDivisionError"}
    assert attributes(outer) == {"codehub.number": "3"}


async def test_off_means_nothing_at_all() -> None:
    async with exporting(TracingConfig.model_construct(endpoint=None)) as exporter:
        assert exporter is None
        assert not tracing.is_on()
        with tracing.span("x") as span:
            assert span is None


async def test_a_collector_that_is_away_costs_the_spans_only(collector: Collector) -> None:
    collector.status = 503
    async with exporting(config(collector)) as exporter:
        assert exporter is not None
        with tracing.span("lost"):
            pass
        await exporter.flush()
        assert (exporter.dropped, exporter.sent) == (1, 0)
        collector.status = 200
        with tracing.span("told"):
            pass
    assert [span["name"] for span in collector.spans] == ["told"]
    away = config(collector).model_copy(update={"endpoint": "http://127.0.0.1:1"})
    async with exporting(away):
        with tracing.span("lost"):
            pass


def test_what_waits_is_bounded(collector: Collector) -> None:
    exporter = Exporter(config(collector))
    for _ in range(MOST + 5):
        exporter.take(Span("x", 1, 1, None, 1))
    assert exporter.dropped == 5


async def test_header_fields_for_the_collector(collector: Collector) -> None:
    given = config(collector).model_copy(update={"headers": SecretStr("api-key=s%20ecret,x=1")})
    async with exporting(given):
        with tracing.span("x"):
            pass
    assert collector.headers[0]["api-key"] == "s ecret"
    assert collector.headers[0]["x"] == "1"


@pytest.mark.parametrize("wrong", ["collector:4318", "http://", "ftp://x", "http://user:pw@host"])
def test_a_wrong_collector_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", wrong)
    with pytest.raises(SettingsError, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        Settings.load()


def test_the_settings_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "a=b")
    found = Settings.load().tracing
    assert (found.endpoint, found.header_fields) == ("http://collector:4318", {"a": "b"})
