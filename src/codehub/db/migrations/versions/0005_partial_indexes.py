"""Partial indexes: a tick reads what needs something, however many workspaces exist.

Keys are what the queries page or sort by. tests/db/test_plans.py shows each query using its index.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0005"
down_revision = "0004"

INDEXES = (
    """CREATE INDEX idx_workspaces_ttl_check ON workspaces (phase_changed_at)
       WHERE deleted_at IS NULL AND phase IN ('RUNNING', 'STANDBY') AND operation = 'NONE'""",
    """CREATE INDEX idx_workspaces_reconcile ON workspaces (id)
       WHERE deleted_at IS NULL AND (phase <> desired_state OR operation <> 'NONE')""",
    """CREATE INDEX idx_workspaces_operation ON workspaces (id)
       WHERE deleted_at IS NULL AND operation <> 'NONE'""",
    """CREATE INDEX idx_workspaces_deleting ON workspaces (id)
       WHERE deleted_at IS NOT NULL AND phase <> 'DELETED'""",
    """CREATE INDEX idx_workspaces_user_running ON workspaces (owner_user_id)
       WHERE deleted_at IS NULL AND phase = 'RUNNING'""",
    """CREATE INDEX idx_workspaces_running ON workspaces (id)
       WHERE deleted_at IS NULL AND phase = 'RUNNING'""",
    """CREATE INDEX idx_workspaces_error ON workspaces (id)
       WHERE deleted_at IS NULL AND phase = 'ERROR'""",
    """CREATE INDEX idx_workspaces_archived ON workspaces (id)
       WHERE deleted_at IS NULL AND phase = 'ARCHIVED'""",
    # A user's list, in the order it is shown and paged.
    "CREATE INDEX idx_workspaces_owner ON workspaces (owner_user_id, created_at, id)",
)


def upgrade() -> None:
    for statement in INDEXES:
        op.execute(statement)


downgrade = forward_only
