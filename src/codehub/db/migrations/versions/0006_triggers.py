"""Triggers: updated_at, and NOTIFY for dashboards and the controller.

    ws_sse      something the dashboard shows has changed, or there is a new or undeleted workspace
    ws_wake     a person asked for something: the controller need not wait for its next tick
    ws_deleted  a workspace went to the trash

Payload {"id", "owner_user_id"}. What an idle system writes (observed_at, last_access_at) raises nothing and leaves
updated_at, and with it every ETag, alone. The WHEN clauses keep such writes from calling a function at all.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0006"
down_revision = "0005"

# A BEFORE trigger may set a column that the writing role may not.
TOUCH = """
CREATE FUNCTION workspaces_touch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.updated_at := now();
    RETURN NEW;
END $$;

CREATE TRIGGER workspaces_touch BEFORE UPDATE ON workspaces FOR EACH ROW
WHEN ((OLD.id, OLD.owner_user_id, OLD.created_at, OLD.instance_backend, OLD.storage_backend, OLD.home_store_key,
       OLD.source_archive, OLD.name, OLD.description, OLD.memo, OLD.image_ref, OLD.desired_state, OLD.deleted_at,
       OLD.purged_at, OLD.recover_request, OLD.keep_awake_until, OLD.standby_ttl_seconds, OLD.archive_ttl_seconds,
       OLD.conditions, OLD.phase, OLD.phase_changed_at, OLD.operation, OLD.op_started_at, OLD.op_id, OLD.archive_key,
       OLD.home_ctx, OLD.endpoint, OLD.error_reason, OLD.error_count, OLD.retry_at, OLD.recover_handled_id)
      IS DISTINCT FROM
      (NEW.id, NEW.owner_user_id, NEW.created_at, NEW.instance_backend, NEW.storage_backend, NEW.home_store_key,
       NEW.source_archive, NEW.name, NEW.description, NEW.memo, NEW.image_ref, NEW.desired_state, NEW.deleted_at,
       NEW.purged_at, NEW.recover_request, NEW.keep_awake_until, NEW.standby_ttl_seconds, NEW.archive_ttl_seconds,
       NEW.conditions, NEW.phase, NEW.phase_changed_at, NEW.operation, NEW.op_started_at, NEW.op_id, NEW.archive_key,
       NEW.home_ctx, NEW.endpoint, NEW.error_reason, NEW.error_count, NEW.retry_at, NEW.recover_handled_id))
EXECUTE FUNCTION workspaces_touch();
"""

# The channels are the trigger's arguments.
NOTIFY = """
CREATE FUNCTION workspaces_notify() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    channel text;
BEGIN
    FOREACH channel IN ARRAY TG_ARGV LOOP
        PERFORM pg_notify(channel, json_build_object('id', NEW.id, 'owner_user_id', NEW.owner_user_id)::text);
    END LOOP;
    RETURN NULL;
END $$;

CREATE TRIGGER workspaces_notify_new AFTER INSERT ON workspaces FOR EACH ROW
EXECUTE FUNCTION workspaces_notify('ws_sse', 'ws_wake');

CREATE TRIGGER workspaces_notify_sse AFTER UPDATE ON workspaces FOR EACH ROW
WHEN ((OLD.phase, OLD.operation, OLD.error_reason, OLD.error_count, OLD.conditions, OLD.endpoint, OLD.name,
       OLD.description, OLD.memo, OLD.image_ref, OLD.desired_state, OLD.purged_at, OLD.keep_awake_until,
       OLD.standby_ttl_seconds, OLD.archive_ttl_seconds)
      IS DISTINCT FROM
      (NEW.phase, NEW.operation, NEW.error_reason, NEW.error_count, NEW.conditions, NEW.endpoint, NEW.name,
       NEW.description, NEW.memo, NEW.image_ref, NEW.desired_state, NEW.purged_at, NEW.keep_awake_until,
       NEW.standby_ttl_seconds, NEW.archive_ttl_seconds)
      OR (OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NULL))
EXECUTE FUNCTION workspaces_notify('ws_sse');

CREATE TRIGGER workspaces_notify_wake AFTER UPDATE ON workspaces FOR EACH ROW
WHEN ((OLD.desired_state, OLD.deleted_at, OLD.purged_at, OLD.recover_request)
      IS DISTINCT FROM (NEW.desired_state, NEW.deleted_at, NEW.purged_at, NEW.recover_request))
EXECUTE FUNCTION workspaces_notify('ws_wake');

CREATE TRIGGER workspaces_notify_deleted AFTER UPDATE ON workspaces FOR EACH ROW
WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL)
EXECUTE FUNCTION workspaces_notify('ws_deleted');
"""


def upgrade() -> None:
    op.execute(TOUCH)
    op.execute(NOTIFY)


downgrade = forward_only
