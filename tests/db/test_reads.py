"""What a tick gets to see, what a TTL finds, and what counts against the limits."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codehub.db.limits import count_held, count_running
from codehub.db.pool import Connection, Role
from codehub.db.reads import by_ids, needing_work, sweep, ttl_candidates
from codehub.model import conditions as c
from codehub.model.limits import Usage
from codehub.model.phase import VALID_PAIRS
from codehub.model.ttl import due
from codehub.model.workspace import Desired, Operation, Phase, UserId, WorkspaceId
from tests.db.conftest import connect_as
from tests.db.support import OWNER, STRANGER, add_user, add_workspace, change, is_waiting_for_lock
from tests.support import eventually_async

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SOON, EARLIER = NOW + timedelta(seconds=9), NOW - timedelta(seconds=9)
REQUEST = UUID(int=1)


def gone() -> dict[str, Any]:
    return {
        c.VOLUME_READY: {"status": False, "reason": c.VOLUME_NOT_FOUND},
        c.CONTAINER_READY: {"status": False, "reason": c.CONTAINER_NOT_FOUND},
    }


def deleted(**columns: Any) -> dict[str, Any]:
    return {"deleted_at": NOW, "desired_state": "DELETED", **columns}


ARCHIVING_PAUSES = {
    "phase": "STANDBY",
    "operation": "ARCHIVING",
    "error_reason": "Unreachable",
    "retry_at": SOON,
}

PUT_OFF = {
    "phase": "STANDBY",
    "desired_state": "ARCHIVED",
    "error_reason": "ActionFailed",
    "error_count": 9,
    "conditions": {c.HEALTHY: {"status": True, "reason": c.ARCHIVE_FAILED}},
}

NEEDS_WORK: dict[str, tuple[dict[str, Any], bool]] = {
    "new": ({}, True),
    "converged": ({"phase": "RUNNING"}, False),
    "archived": ({"phase": "ARCHIVED", "desired_state": "ARCHIVED"}, False),
    "to be stopped": ({"phase": "RUNNING", "desired_state": "STANDBY"}, True),
    "arrived but not finished": ({"phase": "RUNNING", "operation": "STOPPING"}, True),
    "waits for a retry": (
        {"operation": "PROVISIONING", "error_reason": "ActionFailed", "retry_at": SOON, "error_count": 1},
        True,
    ),
    "waits for the end of an outage": (
        {"operation": "PROVISIONING", "error_reason": "Unreachable", "retry_at": SOON},
        False,
    ),
    "has waited for the end of an outage": (
        {"operation": "PROVISIONING", "error_reason": "Unreachable", "retry_at": EARLIER},
        True,
    ),
    "waits for longer than anything does, since the clock jumped back": (
        {"operation": "PROVISIONING", "error_reason": "Unreachable", "retry_at": NOW + timedelta(days=1)},
        True,
    ),
    "is archived once the outage is over": ({**ARCHIVING_PAUSES, "desired_state": "ARCHIVED"}, False),
    "is not to be archived any more, whatever is out": ({**ARCHIVING_PAUSES, "desired_state": "RUNNING"}, True),
    "could not be archived, and waits": ({**PUT_OFF, "retry_at": NOW + timedelta(hours=5)}, False),
    "could not be archived before its deletion, and waits": (
        {**PUT_OFF, "retry_at": SOON, "desired_state": "DELETED"},
        False,
    ),
    "could not be archived, and is tried again": ({**PUT_OFF, "retry_at": EARLIER}, True),
    "could not be archived, before the clock jumped back": ({**PUT_OFF, "retry_at": NOW + timedelta(hours=7)}, True),
    "could not be archived, and is wanted again": ({**PUT_OFF, "retry_at": SOON, "desired_state": "RUNNING"}, True),
    "error": ({"phase": "ERROR", "error_reason": "Timeout"}, False),
    "error with a recovery": (
        {"phase": "ERROR", "error_reason": "Timeout", "recover_request": {"id": str(REQUEST)}},
        True,
    ),
    "error with a recovery that was answered": (
        {
            "phase": "ERROR",
            "error_reason": "Timeout",
            "recover_request": {"id": str(REQUEST)},
            "recover_handled_id": REQUEST,
        },
        False,
    ),
    "just deleted": (deleted(phase="ARCHIVED"), True),
    "just deleted from error": (deleted(phase="ERROR", error_reason="Timeout"), True),
    "being deleted": (deleted(phase="DELETING", operation="DELETING", conditions=gone()), True),
    "deleted, something is left": (deleted(phase="DELETING"), True),
    "deleted, waits for GC": (deleted(phase="DELETING", conditions=gone()), False),
    "deleted": (deleted(phase="DELETED", conditions=gone()), False),
}


async def test_needing_work(owner: Connection, controller: Connection) -> None:
    names = {await add_workspace(owner, **columns): name for name, (columns, _) in NEEDS_WORK.items()}
    found = {names[workspace.id] for workspace in await needing_work(controller, NOW, 100)}
    assert found == {name for name, (_, needed) in NEEDS_WORK.items() if needed}


async def test_what_needs_no_work_is_swept(owner: Connection, controller: Connection) -> None:
    names = {await add_workspace(owner, **columns): name for name, (columns, _) in NEEDS_WORK.items()}
    swept = {names[workspace.id] for workspace in await sweep(controller, None, 100)}
    assert swept == set(NEEDS_WORK) - {"deleted"}


@pytest.mark.parametrize("limit", [1, 2, 7])
async def test_pages_join_up(owner: Connection, controller: Connection, limit: int) -> None:
    everything = {
        await add_workspace(owner, **columns)
        for columns in ({}, deleted(), {"operation": "STARTING"})
        for _ in range(3)
    }
    paged: list[WorkspaceId] = []
    swept: list[WorkspaceId] = []
    after = WorkspaceId(UUID(int=0))
    while page := await needing_work(controller, NOW, limit, after):
        paged += [workspace.id for workspace in page]
        after = page[-1].id
    last = None
    while slice_ := await sweep(controller, last, limit):
        swept += [workspace.id for workspace in slice_]
        last = slice_[-1].id
    assert paged == sorted(everything)
    assert swept == sorted(everything)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_rows_that_cannot_be_read_end_no_page(owner: Connection, controller: Connection, limit: int) -> None:
    """A short page means the end: with one bad row in it, everything behind would never be looked at."""
    ids = sorted([await add_workspace(owner) for _ in range(6)])
    for number in (0, 2, 3):
        await change(owner, ids[number], error_reason="OfANewerVersion")
    readable = [ids[1], ids[4], ids[5]]
    assert [workspace.id for workspace in await needing_work(controller, NOW, limit)] == readable[:limit]
    assert [workspace.id for workspace in await sweep(controller, None, limit)] == readable[:limit]


async def test_by_ids(owner: Connection, api: Connection) -> None:
    first, _, third = [await add_workspace(owner) for _ in range(3)]
    found = await by_ids(api, [third, first, WorkspaceId(UUID(int=0))])
    assert {workspace.id for workspace in found} == {first, third}


async def test_ttl_candidates_are_what_the_rule_calls_due(owner: Connection, api: Connection) -> None:
    """Crossed factors, times relative to the database's clock; the model's rule is the judge."""
    row = await (await owner.execute("SELECT now()")).fetchone()
    assert row is not None
    now: datetime = row[0]
    old, recent = now - timedelta(seconds=300), now - timedelta(seconds=100)
    for phase, desired, operation, changed, accessed, awake, ttl in product(
        ("RUNNING", "STANDBY", "ARCHIVED"),
        ("RUNNING", "STANDBY"),
        ("NONE", "STOPPING"),
        (old, recent),
        (None, old, recent),
        (None, recent, now + timedelta(hours=1)),
        (0, 200),
    ):
        await add_workspace(
            owner,
            phase=phase,
            desired_state=desired,
            operation=operation,
            phase_changed_at=changed,
            last_access_at=accessed,
            keep_awake_until=awake,
            standby_ttl_seconds=ttl,
            archive_ttl_seconds=ttl,
        )
    await add_workspace(owner, phase="RUNNING", phase_changed_at=old, standby_ttl_seconds=60, deleted_at=now)
    expected = {each.id for each in await sweep(owner, None, 1000) if due(each, now)}
    found = await ttl_candidates(api, 1000)
    assert {workspace.id for workspace in found} == expected
    assert len(expected) == 11
    assert [each.status.phase_changed_at for each in found] == sorted(each.status.phase_changed_at for each in found)


# SPEC section 11: desired RUNNING and neither deleted nor ERROR, or an instance that exists.
COUNTED: dict[str, tuple[dict[str, Any], bool]] = {
    "new": ({}, True),
    "running": ({"phase": "RUNNING"}, True),
    "to be woken": ({"phase": "ARCHIVED"}, True),
    "being restored": ({"phase": "ARCHIVED", "operation": "RESTORING"}, True),
    "new and not to run": ({"desired_state": "ARCHIVED"}, False),
    "stopped": ({"phase": "STANDBY", "desired_state": "STANDBY"}, False),
    "asked to stop": ({"phase": "RUNNING", "desired_state": "STANDBY"}, True),
    "stopping": ({"phase": "RUNNING", "desired_state": "STANDBY", "operation": "STOPPING"}, True),
    "still stopping": ({"phase": "STANDBY", "desired_state": "STANDBY", "operation": "STOPPING"}, True),
    "starting, no longer wanted": ({"phase": "STANDBY", "desired_state": "STANDBY", "operation": "STARTING"}, True),
    "archiving": ({"phase": "STANDBY", "desired_state": "ARCHIVED", "operation": "ARCHIVING"}, False),
    "error": ({"phase": "ERROR"}, False),
    "error with its container": ({"phase": "ERROR", "conditions": {c.CONTAINER_READY: {"status": True}}}, True),
    "error with a dead container": (
        {"phase": "ERROR", "conditions": {c.CONTAINER_READY: {"status": False, "reason": c.CONTAINER_NOT_RUNNING}}},
        True,
    ),
    "deleted while running": (
        deleted(phase="DELETING", operation="DELETING", conditions={c.CONTAINER_READY: {"status": True}}),
        True,
    ),
    "deleted": (deleted(phase="DELETING", conditions=gone()), False),
    "deleted before it was looked at": (deleted(phase="PENDING"), False),
}


async def usage_of(conn: Connection, user: UserId) -> Usage:
    return (await count_held(conn, [user], [])).usages[user]


async def test_what_counts(owner: Connection, api: Connection) -> None:
    await add_user(owner)
    for name, (columns, is_counted) in COUNTED.items():
        before = await usage_of(api, OWNER)
        identity = await add_workspace(owner, **columns)
        held = await count_held(api, [OWNER, STRANGER], [identity])
        more = 1 if is_counted else 0
        assert held.usages[OWNER] == Usage(user=before.user + more, total=before.total + more), name
        assert held.usages[STRANGER] == Usage(user=0, total=before.total + more), name
        assert held.counted == ({identity} if is_counted else set()), name
    assert await count_running(api) == sum(is_counted for _, is_counted in COUNTED.values())


_MAY_HAVE_ONE = {Phase.RUNNING, Phase.ERROR, Phase.DELETING}
_HANDLES_ONE = {Operation.STARTING, Operation.STOPPING}
_containers = st.sampled_from([c.CONTAINER_RUNNING, c.CONTAINER_NOT_RUNNING, c.CONTAINER_NOT_FOUND])
_rows = st.tuples(
    st.sampled_from(sorted(VALID_PAIRS)), st.sampled_from(Desired), _containers, st.booleans(), st.booleans()
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(_rows, max_size=25))
async def test_the_count_is_exact_for_every_row_that_can_exist(
    owner: Connection, api: Connection, rows: list[tuple[tuple[Phase, Operation], Desired, str, bool, bool]]
) -> None:
    """Against the definition, over whatever the partial indexes leave out."""
    await owner.execute("DELETE FROM workspaces")
    await add_user(owner)
    expected = {OWNER: 0, STRANGER: 0}
    for (phase, operation), desired, container, is_deleted, is_mine in rows:
        if is_deleted != (phase in (Phase.DELETING, Phase.DELETED)):
            continue  # only for the moment between a deletion and the next tick, in which both are counted alike
        exists = container != c.CONTAINER_NOT_FOUND
        if exists and (phase is Phase.DELETED or (phase not in _MAY_HAVE_ONE and operation not in _HANDLES_ONE)):
            continue  # a container that exists shows in the phase, or an operation deals with it
        if container == c.CONTAINER_RUNNING and phase not in _MAY_HAVE_ONE:
            continue
        user = OWNER if is_mine else STRANGER
        await add_workspace(
            owner,
            owner_user_id=user,
            phase=phase.value,
            operation=operation.value,
            desired_state=desired.value,
            conditions={c.CONTAINER_READY: {"status": container == c.CONTAINER_RUNNING, "reason": container}},
            deleted_at=NOW if is_deleted else None,
        )
        wanted = desired is Desired.RUNNING and not is_deleted and phase is not Phase.ERROR
        exists = exists or operation in _HANDLES_ONE or phase is Phase.RUNNING
        expected[user] += wanted or exists
    assert await usage_of(api, OWNER) == Usage(user=expected[OWNER], total=sum(expected.values()))


async def test_counting_and_admitting_is_one_step(owner: Connection, api: Connection, database: str) -> None:
    identity = await add_workspace(owner, phase="STANDBY", desired_state="STANDBY")
    async with await connect_as(database, Role.API) as second:

        async def ask() -> Usage:
            async with second.transaction():
                return await usage_of(second, OWNER)

        async with api.transaction():
            assert (await usage_of(api, OWNER)).user == 0
            asking = asyncio.create_task(ask())
            await eventually_async(lambda: is_waiting_for_lock(owner, second), "the second request waits")
            await api.execute("UPDATE workspaces SET desired_state = 'RUNNING' WHERE id = %s", [identity])
        assert (await asking).user == 1


async def test_a_change_of_the_wish_is_counted_at_once(owner: Connection, api: Connection) -> None:
    identity = await add_workspace(owner, phase="STANDBY", desired_state="STANDBY")
    await change(owner, identity, desired_state="RUNNING")
    assert await usage_of(api, OWNER) == Usage(user=1, total=1)
