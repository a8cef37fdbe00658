"""What there is in the schema that is not CodeHub's: a restore would drop it, so it is refused where there is any.

What `migrate` makes is known by its comment; what versions made that gave none is known by its name.
"""

import re
from collections.abc import Mapping, Sequence

from codehub.db.belonging import no_extension_has, nothing_has
from codehub.db.migrations import MARK
from codehub.db.pool import Connection

_REVISION = re.compile(r"\d{4}")

# Every table that a version up to this one has made. Newer ones' are known by the comment that `migrate` gives them.
OURS = frozenset(
    {
        *("alembic_version", "schema_floor", "users", "sessions", "tokens", "visits", "audit_log"),
        *("workspaces", "workspace_history", "leadership", "gc_runs", "samples", "accepted_losses", "limits"),
        *("archive_operations", "deleted_workspaces"),
    }
)
# And every routine and type, by the kind that `BESIDE` gives it. Of sequences it has only its tables' own.
OURS_BESIDE = frozenset(
    {
        *("routine workspaces_touch()", "routine workspaces_notify()", "routine gc_runs_notify()"),
        *("routine workspaces_remember()", "routine bury_workspaces(ids uuid[], before timestamp with time zone)"),
        *("type user_role", "type token_scope", "type audit_actor", "type workspace_state", "type workspace_operation"),
        *("type instance_backend", "type storage_backend"),
        # M1's
        *("type instance_backend_enum", "type storage_backend_enum", "type observed_status_enum"),
        *("type health_status_enum", "type desired_state_enum", "type operation_enum"),
    }
)

# What holds rows or shows them, but for what an extension brought along.
_THERE = f"""
SELECT relname, obj_description(oid, 'pg_class') IS NOT DISTINCT FROM %s FROM pg_class
WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'f')
      AND {no_extension_has("pg_class")}
ORDER BY relname
"""  # noqa: S608 - constants
# What a restore would drop, too: routines, types and sequences, but for an extension's and what belongs to a table.
BESIDE = f"""
SELECT format('routine %%s(%%s)', proname, pg_get_function_identity_arguments(oid)),
       obj_description(oid, 'pg_proc') IS NOT DISTINCT FROM %(mark)s
FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
      AND {no_extension_has("pg_proc")}
UNION ALL
SELECT format('type %%s', typname), obj_description(oid, 'pg_type') IS NOT DISTINCT FROM %(mark)s
FROM pg_type WHERE typnamespace = current_schema()::regnamespace AND typtype IN ('e', 'd')
      AND {no_extension_has("pg_type")}
UNION ALL
SELECT format('sequence %%s', relname), obj_description(oid, 'pg_class') IS NOT DISTINCT FROM %(mark)s
FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'S'
      AND {nothing_has("pg_class")}
ORDER BY 1
"""  # noqa: S608 - constants


async def relations(conn: Connection) -> dict[str, bool]:
    """What holds rows or shows them, and whether it is marked as CodeHub's."""
    return dict(await (await conn.execute(_THERE, [MARK])).fetchall())


async def names(conn: Connection, there: Mapping[str, bool]) -> Sequence[str]:
    """Of everything that is not CodeHub's; `there` are the relations."""
    beside = await (await conn.execute(BESIDE, {"mark": MARK})).fetchall()
    return [
        *await _foreign_relations(conn, there),
        *(name for name, is_marked in beside if name not in OURS_BESIDE and not is_marked),
    ]


async def _foreign_relations(conn: Connection, there: Mapping[str, bool]) -> Sequence[str]:
    """Tables of the same names may be another program's that uses Alembic too: its revisions are not like ours."""
    foreign = [name for name, is_marked in there.items() if name not in OURS and not is_marked]
    if foreign or not there:
        return foreign
    if not {"alembic_version", "users", "workspaces"} <= set(there):
        return list(there)
    row = await (await conn.execute("SELECT max(version_num) FROM alembic_version")).fetchone()
    return [] if row is not None and _REVISION.fullmatch(row[0] or "") else list(there)
