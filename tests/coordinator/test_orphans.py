"""Instances and volumes of no workspace: seen at any time, removed when an administrator asks, never in a crowd."""

from collections.abc import Collection, Sequence
from uuid import uuid4

import pytest

from codehub.coordinator.orphans import Orphans
from codehub.coordinator.records import DatabaseRecords
from codehub.drivers.memory import Misbehaviour
from codehub.errors import Unreachable
from codehub.model.gc import KnownWorkspace
from codehub.model.names import instance_name, volume_name
from codehub.model.workspace import InstanceBackend, WorkspaceId
from tests.coordinator.collecting import RULES, Leader
from tests.coordinator.installation import Installation, running

PROCESS = InstanceBackend.PROCESS


def orphans_of(site: Installation, leader: Leader | None = None) -> Orphans:
    return Orphans(site.records, {PROCESS: site.world.backend()}, leader or Leader(), RULES)


async def forgotten(site: Installation, count: int = 1) -> list[WorkspaceId]:
    """They run, and the database knows nothing of them: it was restored to a moment before they were made."""
    async with site.controller() as controller:
        found = [await running(site, controller, id=uuid4()) for _ in range(count)]
    await site.owner.execute("DELETE FROM workspaces WHERE id = ANY(%s)", [found])
    return found


async def test_they_are_listed_and_left_alone(site: Installation) -> None:
    (lost,) = await forgotten(site)
    report = await orphans_of(site).collect(dry_run=True, override=False)
    assert (report["orphans"], report["deleted"]) == (1, 0)
    assert report["due"] == [f"process: {instance_name(lost)}", f"process: {volume_name(lost)}"]
    assert lost in site.world.volumes
    assert lost in site.world.instances


async def test_they_are_removed_when_somebody_asks_and_nobody_elses_are(site: Installation) -> None:
    (lost,) = await forgotten(site)
    async with site.controller() as controller:
        kept = await running(site, controller)
        report = await orphans_of(site).collect(dry_run=False, override=False)
    assert (report["orphans"], report["deleted"], report["failed"]) == (1, 1, 0)
    assert set(site.world.volumes) == {kept}
    assert set(site.world.instances) == {kept}
    assert lost not in site.world.volumes


async def test_an_implausible_number_stops_it_unless_it_is_overridden(site: Installation) -> None:
    lost = await forgotten(site, RULES.implausible_count + 1)
    orphans = orphans_of(site)
    report = await orphans.collect(dry_run=False, override=False)
    assert "implausible" in report["stopped"]
    assert set(site.world.volumes) == set(lost)
    report = await orphans.collect(dry_run=False, override=True)
    assert (report["stopped"], report["deleted"]) == (None, len(lost))
    assert site.world.volumes == {}


async def test_what_gets_a_row_meanwhile_is_spared(site: Installation) -> None:
    """An adoption between the listing and the removal, say."""
    (lost,) = await forgotten(site)

    class Meanwhile(DatabaseRecords):
        asked = 0

        async def known_of(self, ids: Collection[WorkspaceId], keys: Collection[str]) -> Sequence[KnownWorkspace]:
            self.asked += 1
            if self.asked == 2:
                await site.add(id=lost, phase="ERROR", error_reason="Timeout")
            return await super().known_of(ids, keys)

    records = Meanwhile(site.controller_pool, site.api)
    report = await Orphans(records, {PROCESS: site.world.backend()}, Leader(), RULES).collect(
        dry_run=False, override=False
    )
    assert (report["orphans"], report["deleted"], report["spared"]) == (1, 0, 1)
    assert lost in site.world.volumes


async def test_nothing_is_removed_without_certain_leadership(site: Installation) -> None:
    (lost,) = await forgotten(site)
    report = await orphans_of(site, Leader(sure=0)).collect(dry_run=False, override=False)
    assert "Leadership" in report["stopped"]
    assert lost in site.world.volumes


async def test_a_backend_that_cannot_be_listed_is_told_and_nothing_is_done(site: Installation) -> None:
    (lost,) = await forgotten(site)
    site.world.misbehave("volumes.observe", Misbehaviour.UNREACHABLE)
    with pytest.raises(Unreachable):
        await orphans_of(site).collect(dry_run=False, override=True)
    assert lost in site.world.instances


async def test_one_that_cannot_be_removed_is_counted(site: Installation) -> None:
    first, second = await forgotten(site, 2)
    site.world.misbehave("volumes.delete", Misbehaviour.FLAKY, workspace_id=first)
    report = await orphans_of(site).collect(dry_run=False, override=False)
    assert (report["deleted"], report["failed"]) == (1, 1)
    assert set(site.world.volumes) == {first}
    assert second not in site.world.volumes
