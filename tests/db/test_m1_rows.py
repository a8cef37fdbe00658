"""M1's rows after the migration to M2: named cases, and every combination against the model's rules."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from codehub.db import migrate, reads
from codehub.model.failure import Rules
from codehub.model.invariants import violations
from codehub.model.observation import ArchiveSeen, InstanceSeen, Life, Seen, VolumeSeen
from codehub.model.phase import VALID_PAIRS, calculate_phase
from codehub.model.tick import decide
from codehub.model.workspace import Desired, Operation, OpId, Phase, VolumeState, Workspace, WorkspaceId
from tests.db.m1_cases import CASES, DELETED_AT, M1, OBSERVED_AT, OLD_KEY, OP, OUR_KEY, USER
from tests.support import Databases


def insert(conn: psycopg.Connection, rows: dict[WorkspaceId, M1]) -> None:
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
            insert(conn, {**{identity: CASES[name][0] for identity, name in NAMED.items()}, **EVERY})
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
        interrupted = before.operation in ("RESTORING", "DELETING")
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
        insert(conn, dict.fromkeys(list(EVERY)[:4], M1()))
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


def test_the_first_tick_takes_m1s_volumes_and_containers_for_its_own(carried_over: Migrated) -> None:
    """What the drivers report for a volume and a container without labels fits what the migration wrote."""
    for identity, name in NAMED.items():
        before, expected = CASES[name]
        if expected.phase == "ERROR" or before.deleted:
            continue
        workspace = carried_over[identity]
        exists = before.observed in ("STANDBY", "RUNNING")
        seen = Seen(
            instance=InstanceSeen(Life.READY if before.observed == "RUNNING" else None, endpoint="127.0.0.1:1"),
            volume=VolumeSeen(exists, confirmed=True),
            archive=ArchiveSeen.VERIFIED if before.archive_key else None,
            op_archive=ArchiveSeen.VERIFIED if before.archive_key == OUR_KEY else ArchiveSeen.MISSING,
            jobs=(),
        )
        now = datetime.now(UTC)
        decision = decide(workspace, seen, now=now, fresh_op_id=OpId(uuid4()), rules=Rules())
        assert decision.status.phase is not Phase.ERROR, (name, decision)
        assert violations(workspace, seen, decision) == [], name


def test_every_wish_is_one_that_can_be_asked_for(carried_over: Migrated) -> None:
    assert {workspace.wish.desired_state for workspace in carried_over.values()} <= set(Desired)
