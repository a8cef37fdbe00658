"""The operations that this database began an archive with: GC deletes no archive that it does not remember (ADR 16).

Written by a trigger, so that an older version beside this one cannot leave it out. An archive that a row is given (a
restore that adopts it) is remembered like one that it made.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0022"
down_revision = "0021"

# No foreign key: what is remembered of a workspace outlives its row.
CREATE_ARCHIVE_OPERATIONS = """
CREATE TABLE archive_operations (
    workspace_id uuid,
    op_id uuid,
    begun_at timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT archive_operations_pkey PRIMARY KEY (workspace_id, op_id)
);
"""

# Archives from before this moment are not in the table. A restore that migrates an older backup has noted that of the
# backup already: what was made between the two is of a future that the database lost.
SINCE = "ALTER TABLE leadership ADD COLUMN IF NOT EXISTS archives_known_since timestamptz NOT NULL DEFAULT now()"

# A restore runs it with an empty search_path.
REMEMBER = r"""
CREATE FUNCTION workspaces_remember() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    op text := substring(NEW.archive_key FROM '^' || NEW.id || '/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})'
                                              || '/home\.tar\.zst$');
BEGIN
    EXECUTE format('INSERT INTO %I.archive_operations (workspace_id, op_id)
                    SELECT $1, op_id FROM unnest($2) AS op_id WHERE op_id IS NOT NULL ON CONFLICT DO NOTHING',
                   TG_TABLE_SCHEMA)
    USING NEW.id, ARRAY[
        op::uuid, CASE WHEN NEW.operation IN ('ARCHIVING', 'CREATE_EMPTY_ARCHIVE') THEN NEW.op_id END
    ];
    RETURN NULL;
END $$;

CREATE TRIGGER workspaces_remember_new AFTER INSERT ON workspaces FOR EACH ROW
WHEN (NEW.archive_key IS NOT NULL OR NEW.operation IN ('ARCHIVING', 'CREATE_EMPTY_ARCHIVE'))
EXECUTE FUNCTION workspaces_remember();

CREATE TRIGGER workspaces_remember AFTER UPDATE ON workspaces FOR EACH ROW
WHEN ((OLD.archive_key, OLD.operation, OLD.op_id) IS DISTINCT FROM (NEW.archive_key, NEW.operation, NEW.op_id)
      AND (NEW.archive_key IS NOT NULL OR NEW.operation IN ('ARCHIVING', 'CREATE_EMPTY_ARCHIVE')))
EXECUTE FUNCTION workspaces_remember();
"""

# After the trigger, which waited for everybody who was writing: what is under way now was begun without it. And what
# was made lately, since the store's clock may be ahead of ours.
PRESENT = r"""
INSERT INTO archive_operations (workspace_id, op_id)
SELECT id, op_id FROM workspaces WHERE operation IN ('ARCHIVING', 'CREATE_EMPTY_ARCHIVE') AND op_id IS NOT NULL
UNION
SELECT id, op_id FROM workspaces
WHERE archive_key = id || '/' || op_id || '/home.tar.zst' AND phase_changed_at > now() - interval '1 day';
"""

# The controller's writes raise the trigger; the API adds what an administrator discards.
GRANTS = """
REVOKE ALL ON archive_operations FROM PUBLIC;
REVOKE ALL ON FUNCTION workspaces_remember() FROM PUBLIC;
GRANT SELECT, INSERT (workspace_id, op_id) ON archive_operations TO codehub_api;
GRANT SELECT, INSERT (workspace_id, op_id), DELETE ON archive_operations TO codehub_controller;
"""


def upgrade() -> None:
    for statement in (CREATE_ARCHIVE_OPERATIONS, SINCE, REMEMBER, PRESENT, GRANTS):
        op.execute(statement)


downgrade = forward_only
