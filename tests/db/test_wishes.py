"""The service layer's writes: creation, wishes by compare-and-set, activity."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.db import clock
from codehub.db.pool import Connection
from codehub.db.rows import recover_request_json
from codehub.db.wishes import NewWorkspace, expire, finish_deletions, insert, touch_access
from codehub.model.conditions import Conditions
from codehub.model.ttl import Transition
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    HomeContext,
    InstanceBackend,
    Operation,
    Phase,
    RecoverFrom,
    RecoverRequest,
    StorageBackend,
    WorkspaceId,
)
from tests.db.support import OWNER, add_user, add_workspace, change, read

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TO_STANDBY = Transition(Desired.STANDBY, NOW, "600 s since it was last used")


async def test_a_new_workspace_begins_with_nothing(owner: Connection, api: Connection) -> None:
    await add_user(owner)
    new = NewWorkspace(
        id=WorkspaceId(uuid4()),
        owner_user_id=OWNER,
        name="w",
        image_ref="ide",
        instance_backend=InstanceBackend.K8S,
        storage_backend=StorageBackend.K8S_PVC,
        standby_ttl_seconds=600,
        archive_ttl_seconds=0,
        source_archive=ArchiveKey("k"),
        desired_state=Desired.ARCHIVED,
        asked_by="user\0 ada",
    )
    made = await insert(api, new)
    assert made == await read(owner, new.id)
    assert (made.id, made.owner_user_id) == (new.id, OWNER)
    assert (made.instance_backend, made.storage_backend) == (InstanceBackend.K8S, StorageBackend.K8S_PVC)
    assert made.source_archive == "k"
    assert (made.wish.image_ref, made.wish.desired_state) == ("ide", Desired.ARCHIVED)
    assert (made.wish.standby_ttl_seconds, made.wish.archive_ttl_seconds) == (600, 0)
    assert made.wish.asked_by == "user ada"
    assert (made.status.phase, made.status.operation) == (Phase.PENDING, Operation.NONE)
    assert made.status.conditions == Conditions()
    assert made.status.home_ctx == HomeContext()


async def test_a_recover_request_survives_the_round_trip(owner: Connection) -> None:
    identity = await add_workspace(owner)
    for request in (
        RecoverRequest(UUID(int=3), RecoverFrom.BLANK, "DataLost", forced=True),
        RecoverRequest(UUID(int=4)),
    ):
        await change(owner, identity, recover_request=recover_request_json(request))
        assert (await read(owner, identity)).wish.recover_request == request


# what changed since the row was read, and whether a TTL loses to it
RACES: list[tuple[dict[str, Any], bool]] = [
    ({"desired_state": "ARCHIVED"}, True),
    ({"operation": "STOPPING"}, True),
    ({"phase": "STANDBY"}, True),
    ({"deleted_at": NOW}, True),
    ({"last_access_at": NOW}, True),
    ({"keep_awake_until": NOW}, True),
    ({"standby_ttl_seconds": 0}, True),
    ({"archive_ttl_seconds": 0}, True),
    ({"phase_changed_at": NOW}, True),
    ({"memo": "m"}, False),
]


@pytest.mark.parametrize(("competing", "loses"), RACES)
async def test_a_ttl_acts_only_on_what_it_was_decided_from(
    owner: Connection, api: Connection, competing: dict[str, Any], loses: bool
) -> None:
    was = await read(owner, await add_workspace(owner, phase="RUNNING"))
    bystander = await read(owner, await add_workspace(owner, phase="RUNNING"))
    await change(owner, was.id, **competing)
    expected = {was.id, bystander.id} - ({was.id} if loses else set())
    assert await expire(api, [(was, TO_STANDBY), (bystander, TO_STANDBY)]) == len(expected)
    for each in (was, bystander):
        wish = (await read(owner, each.id)).wish
        assert (wish.desired_state is Desired.STANDBY) == (each.id in expected)
        assert wish.asked_by == ("ttl: 600 s since it was last used" if each.id in expected else "")


async def test_each_expires_to_what_its_own_ttl_asks_for(owner: Connection, api: Connection) -> None:
    running = await read(owner, await add_workspace(owner, phase="RUNNING", last_access_at=NOW))
    stopped = await read(owner, await add_workspace(owner, phase="STANDBY", desired_state="STANDBY"))
    assert await expire(api, [(running, TO_STANDBY), (stopped, replace(TO_STANDBY, to=Desired.ARCHIVED))]) == 2
    assert (await read(owner, running.id)).wish.desired_state is Desired.STANDBY
    assert (await read(owner, running.id)).wish.last_access_at == NOW
    assert (await read(owner, stopped.id)).wish.desired_state is Desired.ARCHIVED
    assert await expire(api, []) == 0


# a row that was to be deleted, and whether its deletion is finished
def volume_seen(reason: str) -> dict[str, Any]:
    return {"storage.volume_ready": {"status": False, "reason": reason, "message": "", "last_transition_time": None}}


STEPPING_DOWN: dict[str, tuple[dict[str, Any], bool]] = {
    "archived": ({"phase": "ARCHIVED"}, True),
    "empty": ({"phase": "PENDING"}, True),
    "an old volume is left": ({"phase": "ARCHIVED", "conditions": volume_seen("VolumeCondemned")}, False),
    "never looked at": ({"phase": "ARCHIVED", "conditions": {}}, False),
    "given up for a blank home": ({"phase": "PENDING", "conditions": volume_seen("VolumeCondemned")}, True),
    "still has a volume": ({"phase": "STANDBY"}, False),
    "failed on the way": ({"phase": "ERROR", "error_reason": "Timeout"}, False),
    "an operation is under way": ({"phase": "ARCHIVED", "operation": "ARCHIVING"}, False),
    "taken back": ({"phase": "ARCHIVED", "desired_state": "ARCHIVED"}, False),
    "in the trash": ({"phase": "ARCHIVED", "deleted_at": NOW}, False),
}


@pytest.mark.parametrize("case", STEPPING_DOWN)
async def test_a_deletion_is_finished_where_it_arrived(owner: Connection, api: Connection, case: str) -> None:
    columns, finished = STEPPING_DOWN[case]
    gone = volume_seen("VolumeNotFound")
    identity = await add_workspace(owner, **{"desired_state": "DELETED", "conditions": gone, **columns})
    bystander = await add_workspace(owner, phase="ARCHIVED", desired_state="DELETED")
    assert await finish_deletions(api, [identity, WorkspaceId(uuid4())]) == finished
    deleted_at = (await read(owner, identity)).wish.deleted_at
    assert (deleted_at is not None and deleted_at != NOW) == finished
    assert (await read(owner, bystander)).wish.deleted_at is None
    assert await finish_deletions(api, []) == 0


async def test_access_only_moves_forward(owner: Connection, api: Connection) -> None:
    ahead = await clock.now(owner) + timedelta(1)
    never, earlier, later = [await add_workspace(owner, last_access_at=at) for at in (None, NOW - timedelta(1), ahead)]
    hour = timedelta(hours=1)
    async with api.transaction():
        now = await clock.now(api)
        ages = dict.fromkeys((never, earlier, later, WorkspaceId(uuid4())), hour.total_seconds())
        assert await touch_access(api, ages) == 2
        assert await touch_access(api, ages) == 0
        assert await touch_access(api, {}) == 0
    found = [(await read(owner, each)).wish.last_access_at for each in (never, earlier, later)]
    assert found == [now - hour, now - hour, ahead]
