"""Workspaces that were deleted for good and of which an archive may be left: looked for four times a minute."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX idx_workspaces_purged ON workspaces (id) WHERE purged_at IS NOT NULL AND phase <> 'DELETED'"
    )


downgrade = forward_only
