"""The tables of M1, the product's earlier version: created on an empty database, adopted where M1 made them.

A database that holds M1's tables (known by `workspaces.observed_status`) keeps them and gets only what is missing.
Where M1's own guide to M2 was followed, as far as to the end (`conditions` and `phase` instead of `observed_status` and
`health_status`) or to any step before, the columns of M2 are read back into those of M1: the next revision begins from
one kind of table. Whatever else stands in the way stops the migration with a sentence that names it.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0001"
down_revision = None

CHECK_WHAT_IS_THERE = """
DO $$
DECLARE
    has_users boolean := to_regclass('users') IS NOT NULL;
    has_workspaces boolean := to_regclass('workspaces') IS NOT NULL;
    strange text;
    missing text;
BEGIN
    IF NOT has_users AND NOT has_workspaces THEN
        RETURN;
    END IF;
    IF NOT has_workspaces OR NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = to_regclass('workspaces') AND NOT attisdropped
          AND attname IN ('observed_status', 'conditions')
    ) THEN
        RAISE EXCEPTION 'The database holds a table "%" that CodeHub did not make.',
            CASE WHEN has_workspaces THEN 'workspaces' ELSE 'users' END
            USING HINT = 'Give CodeHub a database of its own.';
    END IF;
    IF NOT has_users THEN
        RAISE EXCEPTION 'The database has M1''s table "workspaces" but no table "users".'
            USING HINT = 'Restore a complete backup of the M1 installation first.';
    END IF;

    -- A column that is not M1's would be dropped unread by the next revision.
    SELECT string_agg(format('%s.%s', found.attrelid::regclass, found.attname), ', ') INTO strange
    FROM pg_attribute found
    WHERE found.attnum > 0 AND NOT found.attisdropped
      AND ((found.attrelid = 'users'::regclass AND found.attname NOT IN (
                'id', 'username', 'password_hash', 'created_at', 'updated_at'))
        OR (found.attrelid = 'workspaces'::regclass AND found.attname NOT IN (
                'id', 'owner_user_id', 'name', 'description', 'memo', 'image_ref', 'instance_backend',
                'storage_backend', 'home_store_key', 'home_ctx', 'observed_status', 'health_status', 'conditions',
                'phase', 'desired_state',
                'operation', 'op_started_at', 'op_id', 'archive_key', 'observed_at', 'last_access_at',
                'standby_ttl_seconds', 'archive_ttl_seconds', 'error_reason', 'error_count', 'created_at',
                'updated_at', 'deleted_at')));
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'The M1 tables have columns that CodeHub does not know: %.', strange
            USING HINT = 'Move their content elsewhere and drop them, then start again.';
    END IF;

    -- These cannot be made up for rows that exist; everything else has a default.
    SELECT string_agg(format('%s.%s', needed.rel, needed.col), ', ') INTO missing
    FROM (VALUES ('users', 'id'), ('users', 'username'), ('workspaces', 'id'), ('workspaces', 'owner_user_id'),
                 ('workspaces', 'name'), ('workspaces', 'image_ref'), ('workspaces', 'instance_backend'),
                 ('workspaces', 'storage_backend')) AS needed (rel, col)
    WHERE NOT EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = needed.rel::regclass AND attname = needed.col AND NOT attisdropped
    );
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION 'The M1 tables lack columns: %.', missing
            USING HINT = 'Restore a complete backup of the M1 installation first.';
    END IF;
END $$
"""

# M1's types. An adopted installation may have named them otherwise; 0002 reads every value as text.
TYPES = {
    "observed_status_enum": "'PENDING', 'STANDBY', 'RUNNING', 'DELETED'",
    "health_status_enum": "'OK', 'ERROR'",
    "desired_state_enum": "'PENDING', 'STANDBY', 'RUNNING'",
    "operation_enum": "'NONE', 'PROVISIONING', 'RESTORING', 'STARTING', 'STOPPING', 'ARCHIVING', 'DELETING'",
    "instance_backend_enum": "'local-docker', 'k8s'",
    "storage_backend_enum": "'docker-volume', 'minio'",
}

CREATE_TYPE = """
DO $$ BEGIN
    IF to_regtype('{name}') IS NULL THEN
        CREATE TYPE {name} AS ENUM ({values});
    END IF;
END $$
"""

CREATE_USERS = """
CREATE TABLE IF NOT EXISTS users (
    id uuid PRIMARY KEY,
    username varchar(255) NOT NULL UNIQUE
)
"""

COMPLETE_USERS = """
ALTER TABLE users
    ADD COLUMN IF NOT EXISTS password_hash varchar(255),
    ADD COLUMN IF NOT EXISTS created_at timestamp NOT NULL DEFAULT now(),
    ADD COLUMN IF NOT EXISTS updated_at timestamp NOT NULL DEFAULT now()
"""

CREATE_WORKSPACES = """
CREATE TABLE IF NOT EXISTS workspaces (
    id uuid PRIMARY KEY,
    owner_user_id uuid NOT NULL REFERENCES users (id),
    name varchar(255) NOT NULL,
    image_ref varchar(512) NOT NULL,
    instance_backend instance_backend_enum NOT NULL,
    storage_backend storage_backend_enum NOT NULL,
    observed_status observed_status_enum NOT NULL DEFAULT 'PENDING'
)
"""

# What M2 saw, in M1's words. The guide's second step writes no messages, whoever looked since does: where there is one,
# or where M1's column is gone, the conditions are what is known; anywhere else M1 may have gone on writing its columns.
# Literals alone fit whatever type a column has. A row of neither is PENDING: a volume that is there is a person's.
READ_M2_BACK = """
DO $$
DECLARE
    has_observed boolean := EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = 'workspaces'::regclass AND attname = 'observed_status' AND NOT attisdropped);
    has_health boolean := EXISTS (
        SELECT FROM pg_attribute
        WHERE attrelid = 'workspaces'::regclass AND attname = 'health_status' AND NOT attisdropped);
BEGIN
    IF EXISTS (SELECT FROM pg_attribute
               WHERE attrelid = 'workspaces'::regclass AND attname = 'conditions' AND NOT attisdropped) THEN
        ALTER TABLE workspaces
            ADD COLUMN IF NOT EXISTS observed_status observed_status_enum NOT NULL DEFAULT 'PENDING',
            ADD COLUMN IF NOT EXISTS health_status health_status_enum NOT NULL DEFAULT 'OK';
        CREATE TEMP TABLE m2_seen ON COMMIT DROP AS
        SELECT id AS workspace_id,
               jsonb_path_exists(conditions::jsonb, '$.*.message') AS was_seen,
               coalesce((conditions::jsonb #>> '{storage.volume_ready,status}')::boolean, false) AS volume,
               coalesce((conditions::jsonb #>> '{infra.container_ready,status}')::boolean, false) AS container,
               coalesce((conditions::jsonb #>> '{policy.healthy,status}')::boolean, true)
                   AND to_jsonb(workspaces) ->> 'phase' IS DISTINCT FROM 'ERROR' AS healthy
        FROM workspaces;
        UPDATE workspaces SET observed_status = 'RUNNING' FROM m2_seen
        WHERE id = workspace_id AND (was_seen OR NOT has_observed) AND container;
        UPDATE workspaces SET observed_status = 'STANDBY' FROM m2_seen
        WHERE id = workspace_id AND (was_seen OR NOT has_observed) AND volume AND NOT container;
        UPDATE workspaces SET observed_status = 'PENDING' FROM m2_seen
        WHERE id = workspace_id AND (was_seen OR NOT has_observed) AND NOT volume AND NOT container;
        UPDATE workspaces SET health_status = 'OK' FROM m2_seen
        WHERE id = workspace_id AND (was_seen OR NOT has_health) AND healthy;
        UPDATE workspaces SET health_status = 'ERROR' FROM m2_seen
        WHERE id = workspace_id AND (was_seen OR NOT has_health) AND NOT healthy;
    END IF;
    ALTER TABLE workspaces DROP COLUMN IF EXISTS conditions, DROP COLUMN IF EXISTS phase;
END $$
"""

COMPLETE_WORKSPACES = """
ALTER TABLE workspaces
    ADD COLUMN IF NOT EXISTS description text,
    ADD COLUMN IF NOT EXISTS memo text,
    ADD COLUMN IF NOT EXISTS home_store_key varchar(512),
    ADD COLUMN IF NOT EXISTS home_ctx jsonb,
    ADD COLUMN IF NOT EXISTS health_status health_status_enum NOT NULL DEFAULT 'OK',
    ADD COLUMN IF NOT EXISTS desired_state desired_state_enum NOT NULL DEFAULT 'RUNNING',
    ADD COLUMN IF NOT EXISTS operation operation_enum NOT NULL DEFAULT 'NONE',
    ADD COLUMN IF NOT EXISTS op_started_at timestamp,
    ADD COLUMN IF NOT EXISTS op_id uuid,
    ADD COLUMN IF NOT EXISTS archive_key varchar(512),
    ADD COLUMN IF NOT EXISTS observed_at timestamp,
    ADD COLUMN IF NOT EXISTS last_access_at timestamp,
    ADD COLUMN IF NOT EXISTS standby_ttl_seconds integer NOT NULL DEFAULT 300,
    ADD COLUMN IF NOT EXISTS archive_ttl_seconds integer NOT NULL DEFAULT 86400,
    ADD COLUMN IF NOT EXISTS error_reason varchar(50),
    ADD COLUMN IF NOT EXISTS error_count integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS created_at timestamp NOT NULL DEFAULT now(),
    ADD COLUMN IF NOT EXISTS updated_at timestamp NOT NULL DEFAULT now(),
    ADD COLUMN IF NOT EXISTS deleted_at timestamp
"""


def upgrade() -> None:
    op.execute(CHECK_WHAT_IS_THERE)
    for name, values in TYPES.items():
        op.execute(CREATE_TYPE.format(name=name, values=values))
    for statement in (CREATE_USERS, COMPLETE_USERS, CREATE_WORKSPACES, READ_M2_BACK, COMPLETE_WORKSPACES):
        op.execute(statement)


downgrade = forward_only
