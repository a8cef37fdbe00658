"""The statements of a restore around those of the dump, which replace what is in the schema.

They are one transaction. It asks first and last whether the leader's lock is held on the very database that it is in:
another server behind the same name, or a session that was cut off meanwhile, leaves everything as it is. What must be
different in a database that is older than the world around it is the last part of it.
"""

from collections.abc import Mapping
from datetime import datetime

from psycopg.sql import SQL, Identifier, Literal

from codehub.db.backups import Contents
from codehub.db.belonging import no_extension_has, nothing_has
from codehub.db.locks import AdvisoryLock

# Raises unless the session that looked still holds the leader's lock, on this server and in this database.
_GUARD = """
DO $guard$ BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
        WHERE datname = current_database() AND locktype = 'advisory' AND granted AND pid = {pid}
              AND (classid::bigint << 32) | objid::bigint = {lock}
    ) THEN
        RAISE EXCEPTION 'this is not the database that was looked at, or the leader''s lock in it was lost';
    END IF;
END $guard$;
"""

# Everything in the schema, whatever version made it; what an extension brought along is not ours. Not CASCADE: what is
# elsewhere and relies on a table of ours would go with it.
_CLEAR = f"""
SET lock_timeout = '30s';
DO $clear$
DECLARE
    thing record;
BEGIN
    FOR thing IN
        SELECT format('DROP %s %s', kind, string_agg(format('%I.%I', relnamespace::regnamespace::text, relname), ', '))
               AS statement
        FROM pg_class, LATERAL (SELECT CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                                                    WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind) AS of_kind
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
              AND {nothing_has("pg_class")}
        GROUP BY kind
        ORDER BY kind = 'SEQUENCE', kind = 'TABLE', kind = 'MATERIALIZED VIEW'
    LOOP
        EXECUTE thing.statement;
    END LOOP;
    FOR thing IN
        SELECT format('DROP ROUTINE %s', oid::regprocedure) AS statement FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace
              AND {no_extension_has("pg_proc")}
    LOOP
        EXECUTE thing.statement;
    END LOOP;
    FOR thing IN
        SELECT format('DROP TYPE %s', oid::regtype) AS statement FROM pg_type
        WHERE typnamespace = current_schema()::regnamespace AND typtype IN ('e', 'd')
              AND {no_extension_has("pg_type")}
    LOOP
        EXECUTE thing.statement;
    END LOOP;
END $clear$;
"""  # noqa: S608 - constants

# What must be different in a database that is older than the world around it:
# - an old leader may still believe in any epoch up to the newest there ever was, so the new ones begin far above;
# - whoever has logged out, or was logged out, since the backup stays so;
# - what was in the trash may have been taken out of it since: it is kept for a whole retention again;
# - no operation goes on under its old op_id: it has ended in the world, in whatever way. Its archive may be complete,
#   with an older state of the home in it, and what it restored may have become a home that is newer than its archive;
# - an instance that it was starting may never have become ready, which nothing else would ask: it is started again;
# - which volume such an operation was making or removing is forgotten, unless the workspace is deleted: it may be
#   somebody's home by now, and is a person's to decide. A home that is live is remembered;
# - a recovery that was asked for and not carried out yet answers the error of another world: it may have been carried
#   out since, and carried out again it could remove the home that it led to. Whoever wants it says so again;
# - nobody was idle while there was no CodeHub;
# - what an administrator said of missing homes was said of another world. Older schemas have no place for it;
# - a marker in the archive store that was this database's is so still; a restore elsewhere takes no store over;
# - commits that were lost are settled herewith. They are counted on from the epoch, which is above every count there
#   was before: its step is greater than the number of commits that are ever made between two restores.
# - newer archives of the store are still to be adopted, unless nobody wants that: until it is done, by whoever goes on
#   with it, no home is made from what the rows name (db/adoption.py).
EPOCHS_PER_RESTORE = 1 << 32
_SETTLE = """
UPDATE {schema}.leadership SET epoch = greatest(epoch, {epoch}) + {step}, holder = 'a restore', since = now();
DELETE FROM {schema}.sessions;
UPDATE {schema}.workspaces SET deleted_at = now() WHERE deleted_at IS NOT NULL AND purged_at IS NULL;
UPDATE {schema}.workspaces
SET operation = 'NONE', op_id = gen_random_uuid(), op_started_at = NULL, retry_at = NULL, error_count = 0,
    error_reason = CASE WHEN phase = 'ERROR' THEN error_reason END,
    home_ctx = home_ctx || '{{"instance_op": null}}'
WHERE operation <> 'NONE';
UPDATE {schema}.workspaces
SET home_ctx = home_ctx || '{{"volume": "none", "incarnation": null, "uid": null, "restore_marker": null}}'
WHERE deleted_at IS NULL AND home_ctx ->> 'volume' <> 'live';
UPDATE {schema}.workspaces SET recover_request = NULL
WHERE recover_request IS NOT NULL AND recover_request ->> 'id' IS DISTINCT FROM recover_handled_id::text;
UPDATE {schema}.workspaces SET last_access_at = now() WHERE desired_state = 'RUNNING' AND deleted_at IS NULL;
DO $losses$ BEGIN
    DELETE FROM {schema}.accepted_losses;
EXCEPTION WHEN undefined_table THEN NULL;
END $losses$;
ALTER TABLE {schema}.leadership
    ADD COLUMN IF NOT EXISTS commits bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS lost_commits bigint,
    ADD COLUMN IF NOT EXISTS lost_commits_at timestamptz,
    ADD COLUMN IF NOT EXISTS store_tokens uuid[] NOT NULL DEFAULT '{{}}',
    ADD COLUMN IF NOT EXISTS store_trouble text;
UPDATE {schema}.leadership SET store_tokens = {tokens}::uuid[] || store_tokens, store_trouble = NULL;
UPDATE {schema}.leadership SET commits = greatest(commits, epoch), lost_commits = NULL, lost_commits_at = NULL;
ALTER TABLE {schema}.leadership
    ADD COLUMN IF NOT EXISTS adoption_due timestamptz,
    ADD COLUMN IF NOT EXISTS adoption_due_of uuid[];
UPDATE {schema}.leadership SET adoption_due = {adoption_due}, adoption_due_of = NULL;
"""

# Which archives the database remembers (ADR 16), before anything draws a new op_id:
# - an archive that was being made may have been completed, and become a workspace's own, after the backup: that is all
#   which is known of it, so it is not remembered;
# - a backup of an older schema remembers none from its own moment on. The migration that follows keeps that moment.
_FORGET = """
ALTER TABLE {schema}.leadership
    ADD COLUMN IF NOT EXISTS archives_known_since timestamptz NOT NULL DEFAULT now();
UPDATE {schema}.leadership SET archives_known_since = least(archives_known_since, {made_at});
DO $remembered$ BEGIN
    DELETE FROM {schema}.archive_operations AS remembered USING {schema}.workspaces
    WHERE workspaces.id = remembered.workspace_id AND workspaces.op_id = remembered.op_id
          AND workspaces.archive_key IS DISTINCT FROM workspaces.id || '/' || workspaces.op_id || '/home.tar.zst';
EXCEPTION WHEN undefined_table THEN NULL;
END $remembered$;
"""


def script_before(before: Contents) -> str:
    """Statements that come before the dump's, in the same transaction."""
    return f"BEGIN;\n{_guard(before)}{_CLEAR}"


def script_after(
    namespace: str, counts: Mapping[str, int], before: Contents, made_at: datetime, *, adopting: bool = False
) -> str:
    """Statements that come after the dump's: they refuse what is not whole, and settle what is. No COMMIT.

    `made_at` is the moment of the backup; `adopting`: newer archives are adopted afterwards.
    """
    checks = SQL("").join(
        SQL(
            "DO $count$ BEGIN IF (SELECT count(*) FROM {table}) <> {count} THEN "
            "RAISE EXCEPTION 'a table has another number of rows than the backup says'; END IF; END $count$;\n"
        ).format(table=Identifier(namespace, table), count=Literal(count))
        for table, count in sorted(counts.items())
    )
    forget = SQL(_FORGET).format(schema=Identifier(namespace), made_at=Literal(made_at))
    settle = SQL(_SETTLE).format(
        schema=Identifier(namespace),
        epoch=Literal(before.epoch),
        step=Literal(EPOCHS_PER_RESTORE),
        tokens=Literal(list(before.store_tokens)),
        adoption_due=Literal(made_at if adopting else None),
    )
    return f"SET lock_timeout = '30s';\n{checks.as_string()}{forget.as_string()}{settle.as_string()}{_guard(before)}"


def _guard(before: Contents) -> str:
    return SQL(_GUARD).format(pid=Literal(before.pid), lock=Literal(int(AdvisoryLock.LEADER))).as_string()
