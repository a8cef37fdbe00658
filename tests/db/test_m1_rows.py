"""M1's rows after the migration to M2: named cases, and every combination against the model's rules."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from codehub.db import migrate, reads
from codehub.model.phase import VALID_PAIRS, calculate_phase
from codehub.model.workspace import Desired, Operation, OpId, Phase, VolumeState, Workspace, WorkspaceId
from tests.db.support import Databases

USER = UUID(int=1)
OP = OpId(UUID(int=77))
OBSERVED_AT = datetime(2025, 12, 31, 23, 59, 58, 500000, tzinfo=UTC)
DELETED_AT = datetime(2025, 12, 30, 12, 0, tzinfo=UTC)
OLD_KEY = "w/00000000-0000-0000-0000-000000000001/home.tar.zst"
OUR_KEY = f"w/{OP}/home.tar.zst"


@dataclass(frozen=True, kw_only=True)
class M1:
    """A row as M1 wrote it."""

    observed: str = "PENDING"
    health: str = "OK"
    operation: str = "NONE"
    op_id: UUID | None = OP
    archive_key: str | None = None
    desired: str = "RUNNING"
    deleted: bool = False
    error_reason: str | None = None
    error_count: int = 0


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What it must be afterwards; reasons in the order volume, container, archive, policy."""

    phase: str
    operation: str = "NONE"
    volume: str = "none"
    reasons: tuple[str, str, str, str]
    true: str = ""  # which of v, c, a, p are true
    error_reason: str | None = None


FOUND, LOST, HALF = "VolumeProvisioned", "VolumeNotFound", "RestoreIncomplete"
RUNS, STOPPED, ABSENT = "ContainerRunning", "ContainerNotRunning", "ContainerNotFound"
KEPT, NONE = "ArchiveUploaded", "NoArchive"
FINE = "AllConditionsMet"

CASES: dict[str, tuple[M1, Expected]] = {
    "new": (M1(), Expected(phase="PENDING", reasons=(LOST, ABSENT, NONE, FINE), true="p")),
    "stopped": (
        M1(observed="STANDBY"),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "running": (
        M1(observed="RUNNING", archive_key=OLD_KEY),
        Expected(phase="RUNNING", volume="live", reasons=(FOUND, RUNS, KEPT, FINE), true="vcap"),
    ),
    "archived": (
        M1(archive_key=OLD_KEY),
        Expected(phase="ARCHIVED", reasons=(LOST, ABSENT, KEPT, FINE), true="ap"),
    ),
    "being provisioned": (
        M1(operation="PROVISIONING"),
        Expected(phase="PENDING", operation="PROVISIONING", reasons=(LOST, ABSENT, NONE, FINE), true="p"),
    ),
    "being provisioned, and M1 already saw the volume": (
        M1(operation="PROVISIONING", observed="STANDBY"),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "being started": (
        M1(operation="STARTING", observed="STANDBY"),
        Expected(phase="STANDBY", operation="STARTING", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "started, not yet noted": (
        M1(operation="STARTING", observed="RUNNING"),
        Expected(phase="RUNNING", volume="live", reasons=(FOUND, RUNS, NONE, FINE), true="vcp"),
    ),
    "being stopped": (
        M1(operation="STOPPING", observed="RUNNING"),
        Expected(phase="RUNNING", operation="STOPPING", volume="live", reasons=(FOUND, RUNS, NONE, FINE), true="vcp"),
    ),
    "being archived": (
        M1(operation="ARCHIVING", observed="STANDBY", archive_key=OLD_KEY),
        Expected(
            phase="STANDBY", operation="ARCHIVING", volume="live", reasons=(FOUND, STOPPED, KEPT, FINE), true="vap"
        ),
    ),
    "archived by this operation, volume gone": (
        M1(operation="ARCHIVING", archive_key=OUR_KEY),
        Expected(phase="ARCHIVED", operation="ARCHIVING", reasons=(LOST, ABSENT, KEPT, FINE), true="ap"),
    ),
    "volume gone before its archive was committed": (
        M1(operation="ARCHIVING"),
        Expected(phase="ERROR", reasons=(LOST, ABSENT, NONE, "DataLost"), error_reason="DataLost"),
    ),
    "volume gone, only an older archive": (
        M1(operation="ARCHIVING", archive_key=OLD_KEY),
        Expected(phase="ERROR", reasons=(LOST, ABSENT, KEPT, "DataLost"), true="a", error_reason="DataLost"),
    ),
    "an operation without an id cannot go on": (
        M1(operation="STARTING", observed="STANDBY", op_id=None),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "being restored": (
        M1(operation="RESTORING", archive_key=OLD_KEY),
        Expected(
            phase="ARCHIVED", operation="RESTORING", volume="restoring", reasons=(HALF, ABSENT, KEPT, FINE), true="ap"
        ),
    ),
    "being restored, the half volume in sight": (
        M1(operation="RESTORING", archive_key=OLD_KEY, observed="STANDBY"),
        Expected(
            phase="ARCHIVED", operation="RESTORING", volume="restoring", reasons=(HALF, STOPPED, KEPT, FINE), true="ap"
        ),
    ),
    "running in the middle of a restore": (
        M1(operation="RESTORING", archive_key=OLD_KEY, observed="RUNNING"),
        Expected(
            phase="ERROR",
            volume="restoring",
            reasons=(HALF, RUNS, KEPT, "ContainerWithoutVolume"),
            true="ca",
            error_reason="ContainerWithoutVolume",
        ),
    ),
    "restored from nothing": (
        M1(operation="RESTORING", observed="STANDBY"),
        Expected(
            phase="ERROR",
            reasons=("VolumeUnknown", STOPPED, NONE, "VolumeUnknown"),
            error_reason="VolumeUnknown",
        ),
    ),
    "given up without a reason": (
        M1(health="ERROR", observed="STANDBY"),
        Expected(
            phase="ERROR",
            volume="live",
            reasons=(FOUND, STOPPED, NONE, "RetryExceeded"),
            true="v",
            error_reason="RetryExceeded",
        ),
    ),
    "given up in the middle of a restore": (
        M1(health="ERROR", operation="RESTORING", archive_key=OLD_KEY, error_reason="ActionFailed"),
        Expected(
            phase="ERROR",
            volume="restoring",
            reasons=(HALF, ABSENT, KEPT, "RetryExceeded"),
            true="a",
            error_reason="RetryExceeded",
        ),
    ),
    "a terminal error": (
        M1(health="ERROR", observed="RUNNING", error_reason="Timeout", operation="STOPPING"),
        Expected(
            phase="ERROR", volume="live", reasons=(FOUND, RUNS, NONE, "Timeout"), true="vc", error_reason="Timeout"
        ),
    ),
    "an attempt that failed and is retried": (
        M1(observed="STANDBY", operation="STARTING", error_reason="ActionFailed", error_count=1),
        Expected(
            phase="STANDBY",
            operation="STARTING",
            volume="live",
            reasons=(FOUND, STOPPED, NONE, FINE),
            true="vp",
            error_reason="ActionFailed",
        ),
    ),
    "an old error of a healthy workspace": (
        M1(observed="STANDBY", error_reason="Timeout"),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
    "deleted with everything": (
        M1(observed="STANDBY", archive_key=OLD_KEY, deleted=True),
        Expected(phase="DELETING", volume="live", reasons=(FOUND, STOPPED, KEPT, FINE), true="vap"),
    ),
    "deleted, the archive is left": (
        M1(archive_key=OLD_KEY, deleted=True),
        Expected(phase="DELETING", reasons=(LOST, ABSENT, KEPT, FINE), true="ap"),
    ),
    "deleted, nothing is left": (
        M1(deleted=True, health="ERROR", operation="DELETING", error_reason="Timeout"),
        Expected(
            phase="DELETED",
            reasons=(LOST, ABSENT, NONE, "Timeout"),
            error_reason="Timeout",
        ),
    ),
    "being deleted": (
        M1(observed="STANDBY", deleted=True, operation="DELETING"),
        Expected(
            phase="DELETING",
            operation="DELETING",
            volume="condemned",
            reasons=("VolumeCondemned", STOPPED, NONE, FINE),
            true="p",
        ),
    ),
    "deleting what was not deleted": (
        M1(observed="STANDBY", operation="DELETING"),
        Expected(phase="STANDBY", volume="live", reasons=(FOUND, STOPPED, NONE, FINE), true="vp"),
    ),
}


def _insert(conn: psycopg.Connection, rows: dict[WorkspaceId, M1]) -> None:
    conn.execute("INSERT INTO users (id, username) VALUES (%s, 'ada')", [USER])
    with conn.cursor() as cursor:
        cursor.executemany(
            """INSERT INTO workspaces (id, owner_user_id, name, image_ref, instance_backend, storage_backend,
                   home_store_key, home_ctx, observed_status, health_status, desired_state, operation, op_started_at,
                   op_id, archive_key, observed_at, last_access_at, error_reason, error_count, deleted_at)
               VALUES (%(id)s, %(user)s, 'w', 'ide', 'local-docker', 'minio', 'ws-' || %(id)s || '-home',
                   '{"restore_marker": "k"}', %(observed)s, %(health)s, %(desired)s, %(operation)s,
                   '2020-01-01', %(op_id)s, %(archive_key)s, %(observed_at)s, '2025-06-01 10:00', %(error_reason)s,
                   %(error_count)s, %(deleted_at)s)""",
            [
                {
                    "id": identity,
                    "user": USER,
                    "observed": row.observed,
                    "health": row.health,
                    "desired": row.desired,
                    "operation": row.operation,
                    "op_id": row.op_id,
                    "archive_key": row.archive_key,
                    "observed_at": OBSERVED_AT.replace(tzinfo=None),
                    "error_reason": row.error_reason,
                    "error_count": row.error_count,
                    "deleted_at": DELETED_AT.replace(tzinfo=None) if row.deleted else None,
                }
                for identity, row in rows.items()
            ],
        )


NAMED = {WorkspaceId(UUID(int=number)): name for number, name in enumerate(CASES, start=100)}
EVERY: dict[WorkspaceId, M1] = {
    WorkspaceId(uuid4()): M1(
        observed=observed,
        health=health,
        operation=operation,
        archive_key=archive_key,
        desired=desired,
        deleted=deleted,
        error_reason=error_reason,
    )
    for observed, health, operation, archive_key, desired, deleted, error_reason in product(
        ("PENDING", "STANDBY", "RUNNING", "DELETED"),
        ("OK", "ERROR"),
        ("NONE", "PROVISIONING", "RESTORING", "STARTING", "STOPPING", "ARCHIVING", "DELETING"),
        (None, OLD_KEY, OUR_KEY),
        ("PENDING", "STANDBY", "RUNNING"),
        (False, True),
        (None, "ActionFailed", "Timeout"),
    )
}


@pytest.fixture(scope="module")
async def carried_over(databases: Databases) -> Any:
    """Every row above, after the migration."""
    with databases.one() as url:
        migrate.upgrade(url, "0001")
        with psycopg.connect(url) as conn:
            _insert(conn, {**{identity: CASES[name][0] for identity, name in NAMED.items()}, **EVERY})
        migrate.upgrade(url)
        async with await psycopg.AsyncConnection.connect(url) as read:
            await read.execute("SET timezone = 'UTC'")
            found = await reads.by_ids(read, [*NAMED, *EVERY])
            yield {workspace.id: workspace for workspace in found}


Migrated = dict[WorkspaceId, Workspace]


@pytest.mark.parametrize(("identity", "name"), NAMED.items(), ids=NAMED.values())
def test_case(carried_over: Migrated, identity: WorkspaceId, name: str) -> None:
    before, expected = CASES[name]
    workspace = carried_over[identity]
    status = workspace.status
    seen = status.conditions
    facts = (seen.volume_ready, seen.container_ready, seen.archive_ready, seen.healthy)
    assert status.phase == expected.phase
    assert status.operation == expected.operation
    assert status.home_ctx.volume == expected.volume
    assert tuple(fact.reason for fact in facts) == expected.reasons
    assert "".join(letter for letter, fact in zip("vcap", facts, strict=True) if fact.status) == expected.true
    assert status.error_reason == expected.error_reason
    assert status.archive_key == before.archive_key
    assert status.op_id == before.op_id


def test_every_combination_gets_the_phase_of_its_conditions(carried_over: Migrated) -> None:
    for identity, before in EVERY.items():
        workspace = carried_over[identity]
        status = workspace.status
        phase = calculate_phase(status.conditions, workspace.wish.deleted_at, status.archive_key)
        assert status.phase is phase, before
        assert (status.phase, status.operation) in VALID_PAIRS, before


def test_every_combination_keeps_what_M1_was_sure_of(carried_over: Migrated) -> None:  # noqa: N802 - a name
    assert len(EVERY) == 3024
    for identity, before in EVERY.items():
        workspace = carried_over[identity]
        status, wish = workspace.status, workspace.wish
        had_volume = before.observed in ("STANDBY", "RUNNING")
        interrupted = before.operation == "RESTORING" or (before.operation == "DELETING" and before.deleted)
        live = status.home_ctx.volume is VolumeState.LIVE
        assert live == (had_volume and not interrupted), before
        assert status.conditions.volume_ready.status == live, before
        assert status.conditions.container_ready.status == (before.observed == "RUNNING"), before
        assert status.conditions.archive_ready.status == (before.archive_key is not None), before
        assert status.archive_key == before.archive_key
        assert status.op_id == before.op_id
        if before.health == "ERROR":
            assert not status.conditions.healthy.status, before
            terminal = before.error_reason if before.error_reason == "Timeout" else "RetryExceeded"
            assert status.error_reason == terminal, before
            assert status.conditions.healthy.reason == terminal, before
            assert status.phase is Phase.ERROR or before.deleted, before
        wanted = {"PENDING": "ARCHIVED"}.get(before.desired, before.desired)
        assert wish.desired_state == ("DELETED" if before.deleted else wanted), before
        assert wish.deleted_at == (DELETED_AT if before.deleted else None)


def test_nothing_restored_halfway_is_ever_a_home(carried_over: Migrated) -> None:
    for identity, before in EVERY.items():
        if before.operation == "RESTORING":
            status = carried_over[identity].status
            assert not status.conditions.volume_ready.status, before
            assert status.home_ctx.restore_marker is None or before.archive_key is None, before


def test_times_are_kept_in_utc_and_clocks_start_over(carried_over: Migrated) -> None:
    now = datetime.now(UTC)
    for identity, name in NAMED.items():
        workspace = carried_over[identity]
        status, seen = workspace.status, workspace.status.conditions
        assert status.observed_at == OBSERVED_AT
        assert workspace.wish.last_access_at == datetime(2025, 6, 1, 10, 0, tzinfo=UTC)
        for fact in (seen.volume_ready, seen.container_ready, seen.archive_ready, seen.healthy):
            assert fact.last_transition_time == OBSERVED_AT
        assert now - status.phase_changed_at < timedelta(minutes=5), "a TTL must not strike because of the upgrade"
        if status.operation is Operation.NONE:
            assert status.op_started_at is None, name
        else:
            assert status.op_started_at is not None
            assert now - status.op_started_at < timedelta(minutes=5), "nor a deadline"


def test_the_volume_and_instance_of_m1_have_no_label(carried_over: Migrated) -> None:
    """What the drivers will report for them, and what each operation that goes on is to make."""
    by_name = {name: carried_over[identity].status.home_ctx for identity, name in NAMED.items()}
    assert by_name["running"].incarnation == ""
    assert by_name["running"].instance_op is None
    assert by_name["being restored"].incarnation == ""
    assert by_name["being provisioned"].incarnation == ""
    assert by_name["being started"].instance_op == OP
    assert by_name["new"].incarnation is None
    assert by_name["archived"].restore_marker == "k"


def test_backends_and_ttls_are_translated(empty_database: str) -> None:
    migrate.upgrade(empty_database, "0001")
    with psycopg.connect(empty_database) as conn:
        _insert(conn, dict.fromkeys(list(EVERY)[:4], M1()))
        ids = list(EVERY)[:4]
        for identity, assignment in zip(
            ids,
            (
                "instance_backend = 'local-docker', storage_backend = 'docker-volume', standby_ttl_seconds = 0",
                "instance_backend = 'k8s', storage_backend = 'minio', standby_ttl_seconds = -1",
                "name = ' ', standby_ttl_seconds = 59",
                "error_count = -1, standby_ttl_seconds = 61, observed_at = NULL",
            ),
            strict=True,
        ):
            conn.execute(f"UPDATE workspaces SET {assignment} WHERE id = %s", [identity])
    migrate.upgrade(empty_database)
    with psycopg.connect(empty_database) as conn:
        rows = {
            row[0]: row[1:]
            for row in conn.execute(
                """SELECT id, instance_backend, storage_backend, name, standby_ttl_seconds, archive_ttl_seconds,
                       error_count, conditions -> 'policy.healthy' ->> 'last_transition_time' IS NOT NULL
                   FROM workspaces"""
            )
        }
    assert [rows[identity] for identity in ids] == [
        ("docker", "docker-volume", "w", 0, 86400, 0, True),
        ("k8s", "k8s-pvc", "w", 0, 86400, 0, True),
        ("docker", "docker-volume", "unnamed", 60, 86400, 0, True),
        ("docker", "docker-volume", "w", 61, 86400, 0, True),
    ]


def test_every_wish_is_one_that_can_be_asked_for(carried_over: Migrated) -> None:
    assert {workspace.wish.desired_state for workspace in carried_over.values()} <= set(Desired)
