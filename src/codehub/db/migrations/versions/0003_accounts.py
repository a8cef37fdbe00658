"""Accounts: roles of users, their sessions and API tokens (only hashes), and the audit log."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0003"
down_revision = "0002"

# Two accounts that differ only in case would be one person's trap and another's way in.
CHECK_USERNAMES = """
DO $$
DECLARE
    alike text;
BEGIN
    SELECT string_agg(names, '; ') INTO alike
    FROM (SELECT string_agg(username, ', ' ORDER BY username) AS names
          FROM users GROUP BY lower(username) HAVING count(*) > 1) AS doubles;
    IF alike IS NOT NULL THEN
        RAISE EXCEPTION 'Some usernames differ only in upper and lower case: %.', alike
            USING HINT = 'Rename them in the earlier version, then start again.';
    END IF;
END $$
"""

# password_hash is NULL for an account that logs in elsewhere.
ALTER_USERS = """
CREATE TYPE user_role AS ENUM ('user', 'admin');

ALTER TABLE users
    ADD COLUMN role user_role NOT NULL DEFAULT 'user',
    ADD COLUMN disabled_at timestamptz,
    ADD CONSTRAINT users_username CHECK (btrim(username) <> '');

CREATE UNIQUE INDEX users_username_key ON users (lower(username));
"""

CREATE_SESSIONS = """
CREATE TABLE sessions (
    token_hash bytea CONSTRAINT sessions_pkey PRIMARY KEY,
    user_id uuid NOT NULL CONSTRAINT sessions_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    address inet,
    user_agent text
);

CREATE INDEX idx_sessions_user ON sessions (user_id);
CREATE INDEX idx_sessions_expiry ON sessions (expires_at);
"""

CREATE_TOKENS = """
CREATE TYPE token_scope AS ENUM ('read', 'write');

CREATE TABLE tokens (
    id uuid CONSTRAINT tokens_pkey PRIMARY KEY,
    user_id uuid NOT NULL CONSTRAINT tokens_user_fkey REFERENCES users (id) ON DELETE CASCADE,
    name varchar(255) NOT NULL,
    token_hash bytea NOT NULL CONSTRAINT tokens_token_hash_key UNIQUE,
    scope token_scope NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,

    CONSTRAINT tokens_name CHECK (btrim(name) <> '')
);

CREATE INDEX idx_tokens_user ON tokens (user_id, created_at);
"""

# No foreign keys: the log outlives the accounts and workspaces it speaks of.
CREATE_AUDIT_LOG = """
CREATE TYPE audit_actor AS ENUM ('user', 'token', 'system');

CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT audit_log_pkey PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    actor_user_id uuid,
    actor_kind audit_actor NOT NULL,
    action text NOT NULL,
    workspace_id uuid,
    address inet,
    details jsonb NOT NULL DEFAULT '{}',

    CONSTRAINT audit_log_actor CHECK (actor_kind = 'system' OR actor_user_id IS NOT NULL)
);

CREATE INDEX idx_audit_log_at ON audit_log (at);
CREATE INDEX idx_audit_log_workspace ON audit_log (workspace_id, at) WHERE workspace_id IS NOT NULL;
CREATE INDEX idx_audit_log_actor ON audit_log (actor_user_id, at) WHERE actor_user_id IS NOT NULL;
"""


def upgrade() -> None:
    for statement in (CHECK_USERNAMES, ALTER_USERS, CREATE_SESSIONS, CREATE_TOKENS, CREATE_AUDIT_LOG):
        op.execute(statement)


downgrade = forward_only
