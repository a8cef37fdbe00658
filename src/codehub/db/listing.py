"""Workspaces as people see them: the row with its names and its owner's, one by one or a page at a time.

Pages are in the order of creation, newest first, or in one that is asked for; the place of the last one shown is where
the next page begins, so that nothing is shown twice or skipped however much is created meanwhile.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed

from codehub.db.pool import Connection
from codehub.db.rows import COLUMNS, workspace_of
from codehub.model.workspace import Phase, UserId, Workspace, WorkspaceId

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShownWorkspace:
    """A row and what only people read of it."""

    workspace: Workspace
    name: str
    description: str | None
    memo: str | None
    tags: tuple[str, ...]
    is_favorite: bool
    updated_at: datetime
    owner_username: str
    is_remembered: bool  # whether its archive is one that this database made, where that keeps a purge from its end
    stamp: str  # which writing of the row this is: every write of any column gives it another


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ends."""

    created_at: datetime
    id: UUID


class SortKey(StrEnum):
    """What a list may be sorted by: what a table for people has as columns."""

    NAME = "name"
    OWNER = "owner"
    STATE = "state"
    IMAGE = "image"
    USED = "used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a list shows. Without an owner it is everybody's."""

    owner: UserId | None = None
    phases: tuple[Phase, ...] = ()
    text: str = ""  # somewhere in the name, the description or a tag
    tags: tuple[str, ...] = ()  # all of these
    deleted: bool = False
    sort: SortKey | None = None  # None: the newest first
    descending: bool = False  # … of a sort


PageKey = tuple[Filter, Place | None, int]  # with how many rows at most


@dataclass(frozen=True, slots=True)
class Version:
    """Which writing of which row."""

    id: WorkspaceId
    stamp: str
    created_at: datetime


# The transaction that wrote the row and the place where it lies: what PostgreSQL itself tells versions apart by.
STAMP = SQL("xmin::text || ctid::text")

# archive_operations_pkey, and only for what is purged.
_REMEMBERED = SQL("""
    CASE WHEN purged_at IS NULL OR archive_key IS NULL THEN true ELSE EXISTS (
        SELECT FROM archive_operations AS made
        WHERE made.workspace_id = workspaces.id
              AND archive_key = made.workspace_id || '/' || made.op_id || '/home.tar.zst') END
""")

_MORE = 9  # columns beside those of the model
_SHOWN = SQL("""
    {COLUMNS}, name, description, memo, tags, is_favorite, updated_at,
    (SELECT username FROM users WHERE users.id = workspaces.owner_user_id), {REMEMBERED}, {STAMP}
""").format(COLUMNS=COLUMNS, REMEMBERED=_REMEMBERED, STAMP=STAMP)

BY_ID = SQL("SELECT {SHOWN} FROM workspaces WHERE id = %s").format(SHOWN=_SHOWN)
BY_IDS = SQL("SELECT {SHOWN} FROM workspaces WHERE id = ANY(%s)").format(SHOWN=_SHOWN)

# idx_workspaces_owner_here
LIVING_OF = "SELECT id FROM workspaces WHERE owner_user_id = %s AND deleted_at IS NULL AND desired_state <> 'DELETED'"
# idx_workspaces_owner
REMAINING_OF = "SELECT id FROM workspaces WHERE owner_user_id = %s AND purged_at IS NULL AND phase <> 'DELETED'"

_SORT_VALUES = {
    SortKey.NAME: SQL("lower(name)"),
    SortKey.OWNER: SQL("(SELECT lower(username) FROM users WHERE users.id = owner_user_id)"),
    SortKey.STATE: SQL("phase"),
    SortKey.IMAGE: SQL("image_ref"),
    SortKey.USED: SQL("coalesce(last_access_at, '-infinity')"),
}

_VERSION = SQL("id, {STAMP}, created_at").format(STAMP=STAMP)


def page_query(asked: Filter, after: Place | None, limit: int) -> tuple[Composed, dict[str, Any]]:
    """idx_workspaces_owner_here, or idx_workspaces_created_here for everybody's; idx_workspaces_deleting for trash."""
    conditions: list[Composable] = [SQL("deleted_at IS NOT NULL") if asked.deleted else SQL("deleted_at IS NULL")]
    arguments: dict[str, Any] = {"limit": limit}
    if asked.owner is not None:
        conditions.append(SQL("owner_user_id = %(owner)s"))
        arguments["owner"] = asked.owner
    if asked.phases:
        conditions.append(SQL("phase = ANY(%(phases)s::workspace_state[])"))
        arguments["phases"] = [phase.value for phase in asked.phases]
    elif asked.deleted:
        conditions.append(SQL("phase <> 'DELETED'"))  # of which nothing is left
    if asked.text:
        in_tags = "EXISTS (SELECT FROM unnest(tags) AS tag WHERE tag ILIKE %(text)s)"
        conditions.append(SQL(f"(name ILIKE %(text)s OR description ILIKE %(text)s OR {in_tags})"))
        arguments["text"] = containing(asked.text)
    if asked.tags:
        conditions.append(SQL("tags @> %(tags)s::text[]"))
        arguments["tags"] = list(asked.tags)
    if after is not None:
        conditions.append(_beyond(asked))
        arguments |= {"created_at": after.created_at, "id": after.id}
    query = SQL("SELECT {} FROM workspaces WHERE {} ORDER BY {} LIMIT %(limit)s")
    return query.format(_VERSION, SQL(" AND ").join(conditions), _order(asked)), arguments


def _order(asked: Filter) -> Composable:
    if asked.sort is None:
        return SQL("created_at DESC, id DESC")
    way = SQL("DESC" if asked.descending else "ASC")
    return SQL("{value} {way}, id {way}").format(value=_SORT_VALUES[asked.sort], way=way)


def _beyond(asked: Filter) -> Composable:
    """What comes after the last one shown; where another order is asked for, by what that one is at this moment."""
    if asked.sort is None:
        return SQL("(created_at, id) < (%(created_at)s, %(id)s)")
    return SQL("({value}, id) {side} (SELECT {value}, id FROM workspaces WHERE id = %(id)s)").format(
        value=_SORT_VALUES[asked.sort], side=SQL("<" if asked.descending else ">")
    )


def containing(text: str) -> str:
    """A pattern for LIKE that is the text itself: what people type has no wildcards."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


async def pages(conn: Connection, asked: Sequence[PageKey]) -> dict[PageKey, Sequence[Version]]:
    """Which rows to show on each; `by_ids` says what they hold. One round trip, however many they are."""
    async with conn.pipeline():
        cursors = [await conn.execute(*page_query(*each)) for each in asked]
    return {key: [Version(*row) for row in await cursor.fetchall()] for key, cursor in zip(asked, cursors, strict=True)}


async def by_ids(conn: Connection, ids: Sequence[WorkspaceId]) -> dict[WorkspaceId, ShownWorkspace]:
    """These, as far as this version can read them."""
    found: dict[WorkspaceId, ShownWorkspace] = {}
    for row in await (await conn.execute(BY_IDS, [list(ids)])).fetchall():
        try:
            found[WorkspaceId(row[0])] = _shown_of(row)
        except (ValueError, KeyError, TypeError) as error:  # a newer version wrote it; the others are shown
            log.warning("workspace %s cannot be read by this version: %s", row[0], error)
    return found


async def by_ids_now(
    conn: Connection, ids: Sequence[WorkspaceId]
) -> tuple[datetime, dict[WorkspaceId, ShownWorkspace]]:
    """These, and the database's time (clock.now), in one round trip. Raises for one that this version cannot read."""
    async with conn.pipeline():
        time = await conn.execute("SELECT now()")
        rows = await conn.execute(BY_IDS, [list(ids)])
    row = await time.fetchone()
    assert row is not None
    found = [_shown_of(each) for each in await rows.fetchall()]
    return row[0], {shown.workspace.id: shown for shown in found}


async def by_id(conn: Connection, identity: WorkspaceId) -> ShownWorkspace | None:
    row = await (await conn.execute(BY_ID, [identity])).fetchone()
    return None if row is None else _shown_of(row)


async def living_of(conn: Connection, owner: UserId) -> Sequence[WorkspaceId]:
    """This owner's that are neither deleted nor on the way to it."""
    return [WorkspaceId(row[0]) for row in await (await conn.execute(LIVING_OF, [owner])).fetchall()]


async def remaining_of(conn: Connection, owner: UserId) -> Sequence[WorkspaceId]:
    """This owner's of which anything is left and nobody said that it should not be: also what is in the trash."""
    return [WorkspaceId(row[0]) for row in await (await conn.execute(REMAINING_OF, [owner])).fetchall()]


def _shown_of(row: tuple[Any, ...]) -> ShownWorkspace:
    name, description, memo, tags, *rest = row[-_MORE:]
    return ShownWorkspace(workspace_of(row[:-_MORE]), name, description, memo, tuple(tags), *rest)
