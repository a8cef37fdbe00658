"""Visits: who may enter which workspace beside by being logged in as its owner, and the role of the proxy, which asks.

A visit ends with the session or token it came from. One with a secret is a browser's at a workspace's own origin; one
without lets an administrator in on the main origin, and is made together with the entry in the audit log.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0012"
down_revision = "0011"

VISITS = """
CREATE TABLE visits (
    id uuid CONSTRAINT visits_pkey PRIMARY KEY DEFAULT gen_random_uuid(),
    token_hash bytea CONSTRAINT visits_token_hash_key UNIQUE,
    session_id uuid CONSTRAINT visits_session_fkey REFERENCES sessions (id) ON DELETE CASCADE,
    token_id uuid CONSTRAINT visits_token_fkey REFERENCES tokens (id) ON DELETE CASCADE,
    workspace_id uuid NOT NULL CONSTRAINT visits_workspace_fkey REFERENCES workspaces (id) ON DELETE CASCADE,
    port integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,

    CONSTRAINT visits_of_one CHECK (num_nonnulls(session_id, token_id) = 1),
    CONSTRAINT visits_port CHECK (port BETWEEN 1024 AND 65535)
);

CREATE INDEX idx_visits_session ON visits (session_id, workspace_id) WHERE session_id IS NOT NULL;
CREATE INDEX idx_visits_token ON visits (token_id, workspace_id) WHERE token_id IS NOT NULL;
CREATE INDEX idx_visits_workspace ON visits (workspace_id);
CREATE INDEX idx_visits_expiry ON visits (expires_at);

REVOKE ALL ON visits FROM PUBLIC;
GRANT SELECT, INSERT, DELETE ON visits TO codehub_api;
"""

# As in 0007: roles belong to the server, so another database's migration may have made it already.
ROLE = """
DO $$
DECLARE
    enough text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'codehub_proxy') THEN
        BEGIN
            CREATE ROLE codehub_proxy NOLOGIN;
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'The database user "%" may not create the role "codehub_proxy".', current_user
                    USING HINT = format('As an administrator: CREATE ROLE codehub_proxy NOLOGIN; '
                                        'GRANT codehub_proxy TO %I;', current_user);
        END;
    END IF;
    IF NOT pg_has_role(current_user, 'codehub_proxy', enough) THEN
        BEGIN
            GRANT codehub_proxy TO CURRENT_USER;
        EXCEPTION WHEN insufficient_privilege THEN
            RAISE EXCEPTION 'The database user "%" is not a member of the role "codehub_proxy".', current_user
                USING HINT = format('As an administrator: GRANT codehub_proxy TO %I;', current_user);
        END;
    END IF;
    IF NOT has_schema_privilege('codehub_proxy', current_schema(), 'USAGE') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO codehub_proxy', current_schema());
    END IF;
END $$
"""

# What it must know to let somebody in, and that a login is in use; no names, no wishes, no secrets.
PROXY = """
GRANT SELECT (id, role, disabled_at) ON users TO codehub_proxy;
GRANT SELECT (id, token_hash, user_id, expires_at, last_seen_at), UPDATE (last_seen_at) ON sessions TO codehub_proxy;
GRANT SELECT (id, token_hash, user_id, scope, expires_at, revoked_at, last_used_at), UPDATE (last_used_at) ON tokens
    TO codehub_proxy;
GRANT SELECT (id, owner_user_id, desired_state, deleted_at, phase, endpoint, op_id) ON workspaces TO codehub_proxy;
GRANT SELECT (token_hash, session_id, token_id, workspace_id, port, expires_at) ON visits TO codehub_proxy;
"""

AROUND = (ROLE,)


def upgrade() -> None:
    for statement in (VISITS, ROLE, PROXY):
        op.execute(statement)


downgrade = forward_only
