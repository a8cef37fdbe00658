"""The controller's own tables: what happened to each workspace, and who leads."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0004"
down_revision = "0003"

# `reason` says what happened, `cause` who or what asked for it.
CREATE_HISTORY = """
CREATE TABLE workspace_history (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT workspace_history_pkey PRIMARY KEY,
    workspace_id uuid NOT NULL
        CONSTRAINT workspace_history_workspace_fkey REFERENCES workspaces (id) ON DELETE CASCADE,
    at timestamptz NOT NULL,
    phase workspace_state NOT NULL,
    operation workspace_operation NOT NULL,
    op_id uuid,
    error_reason varchar(50),
    reason text NOT NULL DEFAULT '',
    cause text NOT NULL DEFAULT '',
    duration_ms bigint,

    CONSTRAINT workspace_history_duration CHECK (duration_ms >= 0)
);

CREATE INDEX idx_workspace_history_workspace ON workspace_history (workspace_id, at DESC);
CREATE INDEX idx_workspace_history_at ON workspace_history (at);
"""

# One row, made here and only ever updated: its lock is what orders an old leader's writes before a new leader's epoch.
CREATE_LEADERSHIP = """
CREATE TABLE leadership (
    only_row boolean DEFAULT true CONSTRAINT leadership_pkey PRIMARY KEY,
    epoch bigint NOT NULL,
    holder text NOT NULL,
    since timestamptz NOT NULL DEFAULT now(),

    CONSTRAINT leadership_only_row CHECK (only_row)
);

INSERT INTO leadership (epoch, holder) VALUES (0, 'nobody yet');
"""


def upgrade() -> None:
    op.execute(CREATE_HISTORY)
    op.execute(CREATE_LEADERSHIP)


downgrade = forward_only
