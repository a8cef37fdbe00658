"""Single writer, enforced: two roles without login, each of which may write only the columns that are its own.

The login of the connection pools is a member of both and becomes one of them on every connection. Roles belong to the
whole server, so another CodeHub database may have made them already, or be making them at this moment.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0007"
down_revision = "0006"

ROLES = """
DO $$
DECLARE
    wanted text;
    -- From PostgreSQL 16 on whoever creates a role is its member, but not one that may become it.
    enough text := CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['codehub_api', 'codehub_controller'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            EXCEPTION
                -- Made by the migration of another database between the look and the act.
                WHEN duplicate_object OR unique_violation THEN NULL;
                WHEN insufficient_privilege THEN
                    RAISE EXCEPTION 'The database user "%" may not create the role "%".', current_user, wanted
                        USING HINT = format('As an administrator: CREATE ROLE %I NOLOGIN; GRANT %I TO %I;',
                                            wanted, wanted, current_user);
            END;
        END IF;
        IF NOT pg_has_role(current_user, wanted, enough) THEN
            BEGIN
                EXECUTE format('GRANT %I TO CURRENT_USER', wanted);
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE EXCEPTION 'The database user "%" is not a member of the role "%".', current_user, wanted
                    USING HINT = format('As an administrator: GRANT %I TO %I;', wanted, current_user);
            END;
        END IF;
        IF NOT has_schema_privilege(wanted, current_schema(), 'USAGE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), wanted);
        END IF;
    END LOOP;
END $$
"""

NOTHING_FOR_ANYONE_ELSE = """
REVOKE ALL ON users, sessions, tokens, audit_log, workspaces, workspace_history, leadership FROM PUBLIC;
REVOKE ALL ON FUNCTION workspaces_touch(), workspaces_notify() FROM PUBLIC;
"""

CONSTANT_COLUMNS = "id, owner_user_id, created_at, instance_backend, storage_backend, home_store_key, source_archive"
API_COLUMNS = (
    "name, description, memo, image_ref, desired_state, deleted_at, purged_at, recover_request, keep_awake_until, "
    "standby_ttl_seconds, archive_ttl_seconds, last_access_at"
)
CONTROLLER_COLUMNS = (
    "conditions, phase, phase_changed_at, observed_at, operation, op_started_at, op_id, archive_key, home_ctx, "
    "endpoint, error_reason, error_count, retry_at, recover_handled_id"
)

# The roles belong to the server: without this, another installation's login could become them here.
DOOR = """
DO $$ BEGIN
    EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO CURRENT_USER', current_database());
EXCEPTION WHEN insufficient_privilege THEN
    RAISE WARNING 'Only the owner of the database can keep other logins out of it.';
END $$
"""

API = f"""
GRANT SELECT, INSERT ({CONSTANT_COLUMNS}, {API_COLUMNS}), UPDATE ({API_COLUMNS}) ON workspaces TO codehub_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON users, sessions, tokens TO codehub_api;
GRANT SELECT, INSERT ON audit_log TO codehub_api;
GRANT SELECT ON workspace_history, leadership TO codehub_api;
"""

# UPDATE on leadership also allows the row lock that fences each write of a leader.
CONTROLLER = f"""
GRANT SELECT, UPDATE ({CONTROLLER_COLUMNS}) ON workspaces TO codehub_controller;
GRANT SELECT, INSERT, DELETE ON workspace_history TO codehub_controller;
GRANT SELECT, UPDATE (epoch, holder, since) ON leadership TO codehub_controller;
"""

AROUND = (ROLES, DOOR)


def upgrade() -> None:
    for statement in (ROLES, NOTHING_FOR_ANYONE_ELSE, DOOR, API, CONTROLLER):
        op.execute(statement)


downgrade = forward_only
