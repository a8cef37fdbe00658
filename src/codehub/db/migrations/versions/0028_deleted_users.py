"""Users who were deleted: their rows stay for what they own and did, and name nobody any more."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.execute("ALTER TABLE users ADD COLUMN deleted_at timestamptz")


downgrade = forward_only
