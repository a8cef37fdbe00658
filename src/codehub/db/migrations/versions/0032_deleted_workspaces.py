"""What is left of a workspace long after it was deleted: its row leaves the table that everything looks through.

The controller may not delete rows: it asks for it by a function, which checks once more that nothing is left of each.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0032"
down_revision = "0031"

# No foreign keys: the owner may go, too.
DELETED_WORKSPACES = """
CREATE TABLE deleted_workspaces (
    id uuid CONSTRAINT deleted_workspaces_pkey PRIMARY KEY,
    owner_user_id uuid NOT NULL,
    name varchar(255) NOT NULL,
    deleted_at timestamptz NOT NULL
);
"""

INDEX = "CREATE INDEX idx_workspaces_gone ON workspaces (phase_changed_at) WHERE phase = 'DELETED'"

# Its history goes with the row: it is older than history is kept. An archive that is remembered may be in the store.
BURY = """
CREATE FUNCTION bury_workspaces(ids uuid[], before timestamptz) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    buried integer;
BEGIN
    WITH gone AS (
        SELECT id FROM workspaces
        WHERE id = ANY (ids) AND phase = 'DELETED' AND operation = 'NONE' AND deleted_at < before
              AND phase_changed_at < before
              AND NOT EXISTS (SELECT FROM archive_operations WHERE workspace_id = workspaces.id)
        ORDER BY id FOR UPDATE
    ), removed AS (
        DELETE FROM workspaces USING gone WHERE workspaces.id = gone.id
        RETURNING workspaces.id, owner_user_id, name, deleted_at
    )
    INSERT INTO deleted_workspaces SELECT * FROM removed ON CONFLICT (id) DO NOTHING;
    GET DIAGNOSTICS buried = ROW_COUNT;
    RETURN buried;
END $$;
"""

GRANTS = """
REVOKE ALL ON deleted_workspaces FROM PUBLIC;
REVOKE ALL ON FUNCTION bury_workspaces(uuid[], timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bury_workspaces(uuid[], timestamptz) TO codehub_controller;
GRANT SELECT ON deleted_workspaces TO codehub_api;
"""


def upgrade() -> None:
    for statement in (DELETED_WORKSPACES, INDEX, BURY, GRANTS):
        op.execute(statement)


downgrade = forward_only
