"""Workspaces that are gone cost nothing: what is read all the time walks indexes that they have left.

Their rows stay, since GC explains an archive by the row it was made for. A row leaves the first index when nothing is
left of its workspace (DELETED: its retention has passed, or it was purged), the others when it is deleted.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0021"
down_revision = "0020"

INDEXES = (
    "CREATE INDEX idx_workspaces_sweep ON workspaces (id) WHERE phase <> 'DELETED'",
    "CREATE INDEX idx_workspaces_owner_here ON workspaces (owner_user_id, created_at, id) WHERE deleted_at IS NULL",
    "CREATE INDEX idx_workspaces_created_here ON workspaces (created_at, id) WHERE deleted_at IS NULL",
)


def upgrade() -> None:
    for statement in INDEXES:
        op.execute(statement)


downgrade = forward_only
