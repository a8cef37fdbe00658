"""What is deleted for good is gone from the store within a run; what GC would spare is spared here, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from codehub.coordinator.purge import Purger
from codehub.coordinator.records import DatabaseRecords
from codehub.db.pool import Connection
from codehub.drivers.memory import Misbehaviour
from codehub.errors import Unreachable
from codehub.model.workspace import ArchiveKey, Desired, Phase, WorkspaceId
from codehub.signals.connect import Redis
from tests.coordinator.collecting import RULES, Store, Watched, nobody_objects
from tests.coordinator.installation import Installation, is_at, running
from tests.db.support import change

CONDITIONS = {
    "storage.volume_ready": {"status": False, "reason": "VolumeNotFound"},
    "infra.container_ready": {"status": False, "reason": "ContainerNotFound"},
    "storage.archive_ready": {"status": True, "reason": "ArchiveUploaded"},
}


@dataclass
class Purging:
    """A purger beside a collector's surroundings."""

    gc: Store
    records: DatabaseRecords

    def __post_init__(self) -> None:
        self.purger = Purger(
            self.records,
            self.gc.world.archives,
            self.gc.leader,
            RULES,
            on_change=self.gc.changed.extend,
            refusal=self.gc.refusal,
            page=2,
        )

    async def purged(self, **columns: Any) -> tuple[WorkspaceId, ArchiveKey]:
        at = datetime.now(UTC)
        gone = {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": at, "purged_at": at}
        return await self.gc.add(**gone | {"conditions": CONDITIONS} | columns)

    @property
    def stored(self) -> Sequence[str]:
        return sorted(self.gc.world.stored)


@pytest.fixture
def it(owner: Connection, records: DatabaseRecords, redis: Redis) -> Purging:
    return Purging(Store(owner, redis, Watched(records)), records)


async def test_every_archive_of_what_was_purged_is_removed_at_once(it: Purging) -> None:
    kept = (await it.gc.add())[1]
    found = [await it.purged() for _ in range(5)]
    older = await it.gc.put_remembered(found[0][0])
    half = await it.gc.put_remembered(found[0][0], complete=False)
    await it.purger.run_once()
    assert it.stored == [kept]
    assert {older, half}.isdisjoint(it.stored)
    assert sorted(it.gc.changed) == sorted(identity for identity, _ in found)


async def test_nothing_is_removed_from_a_store_that_is_another_installations(it: Purging) -> None:
    _, key = await it.purged()
    it.gc.objection = "it is another's"
    await it.purger.run_once()
    assert it.stored == [key]
    it.gc.objection = None
    await it.purger.run_once()
    assert it.stored == []


@pytest.mark.parametrize(
    "columns",
    [
        {"purged_at": None},  # in the trash
        {"operation": "DELETING"},
        {"conditions": {**CONDITIONS, "storage.volume_ready": {"status": False, "reason": "VolumeCondemned"}}},
        {"conditions": {**CONDITIONS, "infra.container_ready": {"status": False, "reason": "ContainerNotRunning"}}},
        {"phase": "ARCHIVED", "desired_state": "ARCHIVED", "deleted_at": None, "purged_at": None},
    ],
)
async def test_whatever_may_still_be_wanted_or_written_stays(it: Purging, columns: dict[str, Any]) -> None:
    _, key = await it.purged(**columns)
    await it.purger.run_once()
    assert it.stored == [key]


async def test_what_another_workspace_is_being_made_from_stays_until_it_was_copied(it: Purging) -> None:
    _, key = await it.purged()
    heir, own = await it.gc.add(source_archive=key, archive_key=None, phase="PENDING")
    await it.purger.run_once()
    assert key in it.stored
    await change(it.gc.owner, heir, archive_key=own)
    await it.purger.run_once()
    assert key not in it.stored


async def test_what_the_database_does_not_remember_is_an_administrators(it: Purging) -> None:
    identity, _ = await it.purged()
    future = it.gc.put(identity)
    await it.purger.run_once()
    assert it.stored == [future]


async def test_what_stays_is_looked_for_ever_more_rarely(it: Purging) -> None:
    """Each look costs a listing, and nobody may ever decide."""
    identity, _ = await it.purged()
    it.gc.put(identity)
    listings = it.gc.world.misbehave("archives.found", Misbehaviour.INCOMPLETE, workspace_id=WorkspaceId(uuid4()))
    listed = []
    for run in range(20):
        before = listings.struck
        await it.purger.run_once()
        if listings.struck > before:
            listed.append(run)
    assert listed == [0, 1, 3, 7, 15]
    _, key = await it.purged()
    await it.purger.run_once()
    assert key not in it.stored, "another one waits for nothing"


async def test_nothing_is_deleted_without_certain_leadership(it: Purging) -> None:
    await it.purged()
    it.gc.leader.sure = 1
    await it.purger.run_once()
    assert len(it.stored) == 1


async def test_an_outage_costs_time_only(it: Purging) -> None:
    await it.purged()
    fault = it.gc.world.misbehave("archives.delete", Misbehaviour.UNREACHABLE)
    with pytest.raises(Unreachable):
        await it.purger.run_once()
    assert len(it.stored) == 1
    fault.end()
    await it.purger.run_once()
    assert it.stored == []


async def test_one_that_cannot_be_deleted_holds_up_no_other(it: Purging) -> None:
    (first, key), _ = await it.purged(), await it.purged()
    it.gc.world.misbehave("archives.delete", Misbehaviour.FLAKY, workspace_id=first)
    await it.purger.run_once()
    assert it.stored == [key]


async def test_the_row_is_gone_with_the_archive(site: Installation, it: Purging) -> None:
    """Through the controller, from a running workspace to nothing."""
    leadership = await site.leadership()
    async with site.controller(leadership=leadership) as controller:
        identity = await running(site, controller)
        await site.wish(identity, Desired.ARCHIVED)
        await site.ticked_until(controller, identity, is_at(Phase.ARCHIVED))
        await site.owner.execute(
            "UPDATE workspaces SET desired_state = 'DELETED', deleted_at = now(), purged_at = now() WHERE id = %s",
            [identity],
        )
        await site.ticked_until(controller, identity, lambda row: row.status.phase is Phase.DELETING)
        purger = Purger(
            site.records,
            site.world.archives,
            leadership,
            RULES,
            on_change=controller.suspect_archives,
            refusal=nobody_objects,
        )
        await purger.run_once()
        assert site.world.stored == {}
        await site.ticked_until(controller, identity, is_at(Phase.DELETED))
