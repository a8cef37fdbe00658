"""M1 to M2: observed_status and health_status become conditions, phase and the controller's memory of the volume.

The tables are built anew and the rows carried over, so that an adopted M1 installation, whatever its types and
constraints were called, ends in exactly the schema of a fresh one. Nothing is guessed in favour of an operation: a
volume of which M1 was not sure is not marked live, so it can be neither started nor archived over a good archive.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0002"
down_revision = "0001"

# Every value is read as text or in UTC (the migration's session time zone), whatever type M1 gave it.
SET_M1_ASIDE = """
CREATE TEMP TABLE m1_users ON COMMIT DROP AS
SELECT id::uuid, username::text, password_hash::text, created_at::timestamptz FROM users;

CREATE TEMP TABLE m1_workspaces ON COMMIT DROP AS
SELECT id::uuid, owner_user_id::uuid, name::text, description::text, memo::text, image_ref::text,
       instance_backend::text, storage_backend::text, home_store_key::text, home_ctx::jsonb,
       observed_status::text, health_status::text, desired_state::text, operation::text, op_id::uuid,
       archive_key::text, observed_at::timestamptz, last_access_at::timestamptz, standby_ttl_seconds::int,
       archive_ttl_seconds::int, error_reason::text, error_count::int, created_at::timestamptz,
       updated_at::timestamptz, deleted_at::timestamptz
FROM workspaces;

CREATE TEMP TABLE m1_types ON COMMIT DROP AS
SELECT DISTINCT t.oid, t.typname, t.typnamespace::regnamespace::text AS typschema
FROM pg_type t LEFT JOIN pg_attribute a ON a.atttypid = t.oid AND a.attrelid = 'workspaces'::regclass
WHERE t.typtype = 'e'
  AND (a.attrelid IS NOT NULL
       OR t.oid IN (to_regtype('observed_status_enum'), to_regtype('health_status_enum'),
                    to_regtype('desired_state_enum'), to_regtype('operation_enum'),
                    to_regtype('instance_backend_enum'), to_regtype('storage_backend_enum')));

DO $$
DECLARE
    misplaced text;
BEGIN
    -- Volumes are found by this name alone; a row that names another one would lose its home.
    SELECT string_agg(id::text, ', ') INTO misplaced FROM m1_workspaces WHERE home_store_key <> 'ws-' || id || '-home';
    IF misplaced IS NOT NULL THEN
        RAISE EXCEPTION 'These M1 workspaces have a home_store_key other than ws-{id}-home: %.', misplaced
            USING HINT = 'Rename their volumes and correct the column, then start again.';
    END IF;
END $$;

DROP TABLE workspaces;
DROP TABLE users;

DO $$
DECLARE
    unused record;
BEGIN
    FOR unused IN SELECT typschema, typname FROM m1_types LOOP
        EXECUTE format('DROP TYPE %s.%I', unused.typschema, unused.typname);
    END LOOP;
END $$;
"""

# phase and desired_state share a type, so that the reconcile index can compare them.
CREATE_TABLES = """
CREATE TYPE workspace_state AS ENUM ('PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING', 'ERROR', 'DELETING', 'DELETED');
CREATE TYPE workspace_operation AS ENUM (
    'NONE', 'PROVISIONING', 'RESTORING', 'STARTING', 'STOPPING', 'ARCHIVING', 'CREATE_EMPTY_ARCHIVE', 'DELETING');
CREATE TYPE instance_backend AS ENUM ('process', 'docker', 'k8s');
CREATE TYPE storage_backend AS ENUM ('directory', 'docker-volume', 'k8s-pvc');

CREATE TABLE users (
    id uuid CONSTRAINT users_pkey PRIMARY KEY,
    username varchar(255) NOT NULL,
    password_hash text,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE workspaces (
    -- set at creation, then constant
    id uuid CONSTRAINT workspaces_pkey PRIMARY KEY,
    owner_user_id uuid NOT NULL CONSTRAINT workspaces_owner_fkey REFERENCES users (id),
    created_at timestamptz NOT NULL DEFAULT now(),
    instance_backend instance_backend NOT NULL,
    storage_backend storage_backend NOT NULL,
    home_store_key varchar(512) NOT NULL,
    source_archive varchar(512),
    -- the service layer's
    name varchar(255) NOT NULL,
    description text,
    memo text,
    image_ref varchar(512) NOT NULL,
    desired_state workspace_state NOT NULL DEFAULT 'RUNNING',
    deleted_at timestamptz,
    purged_at timestamptz,
    recover_request jsonb,
    keep_awake_until timestamptz,
    standby_ttl_seconds integer NOT NULL,
    archive_ttl_seconds integer NOT NULL,
    last_access_at timestamptz,
    -- the WorkspaceController's
    conditions jsonb NOT NULL DEFAULT '{}',
    phase workspace_state NOT NULL DEFAULT 'PENDING',
    phase_changed_at timestamptz NOT NULL DEFAULT now(),
    observed_at timestamptz,
    operation workspace_operation NOT NULL DEFAULT 'NONE',
    op_started_at timestamptz,
    op_id uuid,
    archive_key varchar(512),
    home_ctx jsonb NOT NULL DEFAULT '{"volume": "none"}',
    endpoint text,
    error_reason varchar(50),
    error_count integer NOT NULL DEFAULT 0,
    retry_at timestamptz,
    recover_handled_id uuid,
    -- a trigger's
    updated_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT workspaces_home_store_key CHECK (home_store_key = 'ws-' || id || '-home'),
    CONSTRAINT workspaces_name CHECK (btrim(name) <> ''),
    CONSTRAINT workspaces_desired_state CHECK (desired_state IN ('DELETED', 'ARCHIVED', 'STANDBY', 'RUNNING')),
    CONSTRAINT workspaces_standby_ttl CHECK (standby_ttl_seconds = 0 OR standby_ttl_seconds >= 60),
    CONSTRAINT workspaces_archive_ttl CHECK (archive_ttl_seconds = 0 OR archive_ttl_seconds >= 60),
    CONSTRAINT workspaces_conditions CHECK (jsonb_typeof(conditions) = 'object'),
    CONSTRAINT workspaces_home_ctx CHECK (
        coalesce(home_ctx ->> 'volume', '') IN ('none', 'live', 'restoring', 'condemned')),
    CONSTRAINT workspaces_error_is_idle CHECK (phase <> 'ERROR' OR operation = 'NONE'),
    CONSTRAINT workspaces_endpoint CHECK (endpoint IS NULL OR phase = 'RUNNING'),
    CONSTRAINT workspaces_recover_request CHECK (recover_request IS NULL OR recover_request ->> 'id' IS NOT NULL),
    CONSTRAINT workspaces_error_count CHECK (error_count >= 0)
);
"""

CARRY_USERS_OVER = """
INSERT INTO users (id, username, password_hash, created_at)
SELECT id, username, password_hash, created_at FROM m1_users
"""

# Read from the bottom up: what M1 saw, what is wrong with it, the phase that follows, the operation that may go on.
# Deadlines, TTLs and backoff start over: M1's clocks ran under other rules, and not while the upgrade was made.
CARRY_WORKSPACES_OVER = """
INSERT INTO workspaces (
    id, owner_user_id, created_at, instance_backend, storage_backend, home_store_key,
    name, description, memo, image_ref, desired_state, deleted_at, standby_ttl_seconds, archive_ttl_seconds,
    last_access_at, conditions, phase, phase_changed_at, observed_at, operation, op_started_at, op_id, archive_key,
    home_ctx, error_reason, error_count, updated_at)
SELECT
    m1.id, m1.owner_user_id, m1.created_at,
    CASE m1.instance_backend WHEN 'k8s' THEN 'k8s' ELSE 'docker' END::instance_backend,
    CASE m1.instance_backend WHEN 'k8s' THEN 'k8s-pvc' ELSE 'docker-volume' END::storage_backend,
    'ws-' || m1.id || '-home',
    coalesce(nullif(btrim(m1.name), ''), 'unnamed'), m1.description, m1.memo, m1.image_ref,
    CASE WHEN m1.deleted_at IS NOT NULL THEN 'DELETED'
         WHEN m1.desired_state = 'PENDING' THEN 'ARCHIVED'
         ELSE m1.desired_state END::workspace_state,
    m1.deleted_at,
    CASE WHEN m1.standby_ttl_seconds <= 0 THEN 0 ELSE greatest(m1.standby_ttl_seconds, 60) END,
    CASE WHEN m1.archive_ttl_seconds <= 0 THEN 0 ELSE greatest(m1.archive_ttl_seconds, 60) END,
    m1.last_access_at,
    jsonb_build_object(
        'storage.volume_ready', jsonb_build_object(
            'status', seen.volume_ready, 'reason', seen.volume_reason,
            'message', '', 'last_transition_time', seen.since),
        'infra.container_ready', jsonb_build_object(
            'status', seen.container_ready,
            'reason', CASE m1.observed_status WHEN 'RUNNING' THEN 'ContainerRunning'
                WHEN 'STANDBY' THEN 'ContainerNotRunning' ELSE 'ContainerNotFound' END,
            'message', '', 'last_transition_time', seen.since),
        'storage.archive_ready', jsonb_build_object(
            'status', m1.archive_key IS NOT NULL,
            'reason', CASE WHEN m1.archive_key IS NOT NULL THEN 'ArchiveUploaded' ELSE 'NoArchive' END,
            'message', '', 'last_transition_time', seen.since),
        'policy.healthy', jsonb_build_object(
            'status', wrong.error IS NULL,
            'reason', coalesce(wrong.error, 'AllConditionsMet'),
            'message', CASE WHEN wrong.error IS NULL THEN ''
                ELSE 'Something was wrong before CodeHub was upgraded. Recover the workspace to look again.' END,
            'last_transition_time', seen.since)),
    judged.phase::workspace_state, now(), m1.observed_at,
    CASE WHEN judged.continues THEN m1.operation ELSE 'NONE' END::workspace_operation,
    CASE WHEN judged.continues THEN now() END,
    m1.op_id, m1.archive_key,
    jsonb_build_object(
        'volume', seen.volume,
        -- M1 put no label on its volumes; '' is that volume, NULL none that was ever made.
        'incarnation', CASE WHEN seen.volume <> 'none' OR (judged.continues AND m1.operation = 'PROVISIONING')
            THEN '' END,
        -- A marker of an earlier restore must not complete the one under way.
        'restore_marker', CASE WHEN seen.volume <> 'restoring' THEN m1.home_ctx ->> 'restore_marker' END,
        'retired', '[]'::jsonb,
        'instance_op', CASE WHEN judged.continues AND m1.operation = 'STARTING' THEN m1.op_id END),
    coalesce(wrong.error, wrong.passing_error), greatest(m1.error_count, 0), m1.updated_at
FROM m1_workspaces m1
CROSS JOIN LATERAL (
    SELECT *,
        volume = 'live' AS volume_ready,
        CASE WHEN volume = 'live' THEN 'VolumeProvisioned'
             WHEN volume = 'restoring' THEN 'RestoreIncomplete'
             WHEN volume = 'condemned' THEN 'VolumeCondemned'
             WHEN volume_existed THEN 'VolumeUnknown'
             ELSE 'VolumeNotFound' END AS volume_reason,
        m1.observed_status = 'RUNNING' AS container_ready,
        to_char(coalesce(m1.observed_at, now()), 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') AS since
    FROM (SELECT
        m1.observed_status IN ('STANDBY', 'RUNNING') AS volume_existed,
        CASE WHEN m1.operation = 'RESTORING' AND m1.archive_key IS NOT NULL THEN 'restoring'
             WHEN m1.operation = 'RESTORING' THEN 'none'  -- from nothing: what the volume holds is anyone's guess
             WHEN m1.observed_status NOT IN ('STANDBY', 'RUNNING') THEN 'none'
             -- half deleted, perhaps: it must never count as a home again
             WHEN m1.operation = 'DELETING' AND m1.deleted_at IS NOT NULL THEN 'condemned'
             WHEN m1.operation = 'DELETING' THEN 'none'  -- a person decides
             ELSE 'live' END AS volume) AS found
) AS seen
CROSS JOIN LATERAL (
    SELECT
        CASE WHEN m1.health_status = 'ERROR' AND reason_is_terminal THEN m1.error_reason
             WHEN m1.health_status = 'ERROR' THEN 'RetryExceeded'
             WHEN m1.deleted_at IS NOT NULL THEN NULL
             WHEN seen.container_ready AND NOT seen.volume_ready THEN 'ContainerWithoutVolume'
             WHEN seen.volume_reason = 'VolumeUnknown' THEN 'VolumeUnknown'
             -- The volume went while it was being archived, and the archive of this operation was never committed.
             WHEN m1.operation = 'ARCHIVING' AND NOT seen.volume_existed
                  AND strpos(coalesce(m1.archive_key, ''), coalesce(m1.op_id::text, '?')) = 0 THEN 'DataLost'
             END AS error,
        CASE WHEN m1.error_reason IN ('ActionFailed', 'Unreachable') THEN m1.error_reason END AS passing_error
    FROM (SELECT coalesce(m1.error_reason IN (
        'Timeout', 'DataLost', 'ImagePullFailed', 'ContainerWithoutVolume', 'ArchiveCorrupted', 'RetryExceeded',
        'ArchiveAccessError', 'VolumeUnknown'
    ), false) AS reason_is_terminal) AS known
) AS wrong
CROSS JOIN LATERAL (
    SELECT phase, m1.op_id IS NOT NULL AND (phase, m1.operation) IN (
        ('PENDING', 'PROVISIONING'), ('PENDING', 'CREATE_EMPTY_ARCHIVE'), ('ARCHIVED', 'RESTORING'),
        ('ARCHIVED', 'ARCHIVING'), ('STANDBY', 'STARTING'), ('STANDBY', 'ARCHIVING'), ('STANDBY', 'STOPPING'),
        ('RUNNING', 'STOPPING'), ('ARCHIVED', 'STOPPING'), ('PENDING', 'STOPPING'),
        ('DELETING', 'DELETING')) AS continues
    FROM (SELECT
        CASE WHEN m1.deleted_at IS NOT NULL
                  AND (m1.archive_key IS NOT NULL OR seen.volume_existed OR seen.volume = 'restoring') THEN 'DELETING'
             WHEN m1.deleted_at IS NOT NULL THEN 'DELETED'
             WHEN wrong.error IS NOT NULL THEN 'ERROR'
             WHEN seen.volume_ready AND seen.container_ready THEN 'RUNNING'
             WHEN seen.volume_ready THEN 'STANDBY'
             WHEN m1.archive_key IS NOT NULL THEN 'ARCHIVED'
             ELSE 'PENDING' END AS phase) AS derived
) AS judged
"""


def upgrade() -> None:
    for statement in (SET_M1_ASIDE, CREATE_TABLES, CARRY_USERS_OVER, CARRY_WORKSPACES_OVER):
        op.execute(statement)


downgrade = forward_only
