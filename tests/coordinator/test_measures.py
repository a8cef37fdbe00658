"""What Prometheus is told of the coordinator's work."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from codehub.coordinator.measures import Deeds, StandingCollector
from codehub.drivers.memory import Misbehaviour
from codehub.model.failure import Rules
from codehub.model.workspace import Operation, Phase
from tests.coordinator.installation import Installation, installation, is_at


@pytest.fixture
async def site(database: str) -> AsyncIterator[Installation]:
    async with installation(database) as site:
        yield site


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


async def test_each_operation_of_a_first_start_is_counted_once_with_its_duration(
    site: Installation, registry: CollectorRegistry
) -> None:
    async with site.controller(on_recorded=Deeds(registry).recorded) as controller:
        it = await site.add()
        row = await site.ticked_until(controller, it, is_at(Phase.RUNNING))
        backend = str(row.instance_backend)
        for operation in ("PROVISIONING", "STARTING"):
            done = {"operation": operation, "backend": backend}
            assert value(registry, "codehub_operations_total", **done, result="done") == 1
            assert value(registry, "codehub_operation_seconds_count", **done) == 1
            assert value(registry, "codehub_operations_total", **done, result="failed") == 0


async def test_attempts_that_fail_and_the_error_they_end_in_are_counted(
    site: Installation, registry: CollectorRegistry
) -> None:
    async with site.controller(on_recorded=Deeds(registry).recorded, rules=Rules(max_retry=1)) as controller:
        site.world.misbehave("instances.start", Misbehaviour.FLAKY)
        it = await site.add()
        row = await site.ticked_until(controller, it, is_at(Phase.ERROR))
        labels = {"operation": "STARTING", "backend": str(row.instance_backend)}
        assert value(registry, "codehub_operation_retries_total", **labels) == 1
        assert value(registry, "codehub_operations_total", **labels, result="failed") == 1
        assert value(registry, "codehub_workspace_errors_total", reason=str(row.status.error_reason)) == 1


def test_a_process_that_stands_by_says_so_and_nothing_else(registry: CollectorRegistry) -> None:
    StandingCollector(lambda: None, registry)
    assert b"codehub_leader 0.0" in generate_latest(registry)
    assert b"codehub_errands" not in generate_latest(registry)


async def test_workspaces_are_counted_by_phase_and_operations_by_kind(site: Installation) -> None:
    for phase, operation in (
        ("RUNNING", "NONE"),
        ("RUNNING", "STOPPING"),
        ("ARCHIVED", "RESTORING"),
        ("ERROR", "NONE"),
    ):
        reason = {"error_reason": "Timeout"} if phase == "ERROR" else {}
        await site.add(phase=phase, operation=operation, **reason)
    await site.add(phase="DELETED", desired_state="DELETED", deleted_at=datetime.now(UTC))
    census = await site.records.census()
    assert census.phases == {Phase.RUNNING: 2, Phase.ARCHIVED: 1, Phase.ERROR: 1}
    assert census.operations == {Operation.NONE: 2, Operation.STOPPING: 1, Operation.RESTORING: 1}
