"""NOTIFY and updated_at: each column's change raises exactly what is expected, an idle system's writes nothing."""

import json
import re
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL
from psycopg.types.json import Jsonb

from codehub.db.pool import Connection
from codehub.model.workspace import WorkspaceId
from tests.db.support import OWNER, add_workspace, change
from tests.db.test_roles import COLUMNS, CONSTANT, TRIGGER

SSE, WAKE, DELETED = "ws_sse", "ws_wake", "ws_deleted"
TIME = "2026-01-02T03:04:05Z"

# column: (a value other than the default, the channels that its change raises)
CHANGES: dict[str, tuple[Any, set[str]]] = {
    "name": ("new", {SSE}),
    "description": ("new", {SSE}),
    "memo": ("new", {SSE}),
    "tags": (["gpu"], {SSE}),
    "is_favorite": (True, {SSE}),
    "safe_mode": (True, {SSE}),
    "image_ref": ("new", {SSE}),
    "desired_state": ("STANDBY", {SSE, WAKE}),
    "deleted_at": (TIME, {DELETED, WAKE}),
    "purged_at": (TIME, {SSE, WAKE}),
    "recover_request": ({"id": str(UUID(int=5))}, {WAKE}),
    "keep_awake_until": (TIME, {SSE}),
    "standby_ttl_seconds": (61, {SSE}),
    "archive_ttl_seconds": (61, {SSE}),
    "last_access_at": (TIME, set()),
    "asked_by": ("ada", set()),
    "conditions": ({"policy.healthy": {"status": True}}, {SSE}),
    "phase": ("ARCHIVED", {SSE}),
    "phase_changed_at": (TIME, set()),
    "observed_at": (TIME, set()),
    "operation": ("STARTING", {SSE}),
    "op_started_at": (TIME, set()),
    "op_id": (UUID(int=7), set()),
    "archive_key": ("key", set()),
    "home_ctx": ({"volume": "live"}, set()),
    "endpoint": ("10.0.0.1:80", {SSE}),
    "error_reason": ("Timeout", {SSE}),
    "error_count": (1, {SSE}),
    "retry_at": (TIME, set()),
    "recover_handled_id": (UUID(int=8), set()),
}
QUIET = {"last_access_at", "observed_at", "asked_by"}  # these leave updated_at alone as well


class Listener:
    """Everything that was notified, in order and without waiting: a notification of our own marks the end."""

    def __init__(self, conn: Connection, marker: Connection) -> None:
        self.conn, self.marker = conn, marker

    async def heard(self) -> list[tuple[str, str]]:
        await self.marker.execute("NOTIFY ws_end")
        found: list[tuple[str, str]] = []
        async for notification in self.conn.notifies(timeout=20):
            if notification.channel == "ws_end":
                return found
            found.append((notification.channel, notification.payload))
        raise AssertionError("the end was never notified")


@pytest.fixture
async def listener(database: str, owner: Connection) -> Any:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        for channel in (SSE, WAKE, DELETED, "ws_end"):
            await conn.execute(SQL("LISTEN {}").format(SQL(channel)))
        yield Listener(conn, owner)


async def _updated_at(conn: Connection, identity: WorkspaceId) -> object:
    row = await (await conn.execute("SELECT updated_at FROM workspaces WHERE id = %s", [identity])).fetchone()
    return row and row[0]


def test_every_column_is_covered() -> None:
    assert set(CHANGES) == set(COLUMNS) - CONSTANT - TRIGGER


async def test_each_column_raises_its_channels(owner: Connection, listener: Listener) -> None:
    for column, (value, channels) in CHANGES.items():
        identity = await add_workspace(owner, phase="RUNNING")
        await listener.heard()
        before = await _updated_at(owner, identity)
        await change(owner, identity, **{column: value})
        heard = await listener.heard()
        assert {channel for channel, _ in heard} == channels, column
        assert len(heard) == len(channels), column
        for _, payload in heard:
            assert json.loads(payload) == {"id": str(identity), "owner_user_id": str(OWNER)}
        assert (await _updated_at(owner, identity) == before) == (column in QUIET), column
        await change(owner, identity, **{column: value})
        assert await listener.heard() == [], f"{column} did not change"


async def test_a_new_workspace_wakes_the_controller(owner: Connection, listener: Listener) -> None:
    await add_workspace(owner)
    assert {channel for channel, _ in await listener.heard()} == {SSE, WAKE}


async def test_an_undeleted_workspace_comes_back_to_the_dashboard(owner: Connection, listener: Listener) -> None:
    identity = await add_workspace(owner, deleted_at=TIME, desired_state="DELETED")
    await listener.heard()
    await change(owner, identity, deleted_at=None)
    assert {channel for channel, _ in await listener.heard()} == {SSE, WAKE}


async def test_an_idle_system_is_silent(owner: Connection, listener: Listener) -> None:
    identity = await add_workspace(owner, phase="RUNNING")
    await owner.execute(
        "INSERT INTO workspace_history (workspace_id, at, phase, operation) VALUES (%s, now(), 'RUNNING', 'NONE')",
        [identity],
    )
    await listener.heard()
    before = await _updated_at(owner, identity)
    await owner.execute("UPDATE workspaces SET observed_at = now(), last_access_at = now()")
    await owner.execute("UPDATE workspaces SET conditions = %s, phase = phase", [Jsonb({})])
    await owner.execute("DELETE FROM workspace_history")
    assert await listener.heard() == []
    assert await _updated_at(owner, identity) == before


async def test_every_column_but_the_quiet_ones_moves_updated_at(owner: Connection) -> None:
    """The triggers name their columns: a new column needs one."""
    touching = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgfoid = 'workspaces_touch'::regproc"
    rows = await (await owner.execute(touching)).fetchall()
    named = {column for row in rows for column in re.findall(r"old\.(\w+)", row[0])}
    assert named == set(COLUMNS) - QUIET - TRIGGER
