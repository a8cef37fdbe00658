"""What a token was made with, a session or another token: whoever ends that ends what came of it, too."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0011"
down_revision = "0010"

# No foreign key: it is of one of two tables, and sessions are forgotten when they have ended.
PARENTS = """
ALTER TABLE tokens ADD COLUMN parent_id uuid;
CREATE INDEX idx_tokens_parent ON tokens (parent_id) WHERE parent_id IS NOT NULL;
"""


def upgrade() -> None:
    op.execute(PARENTS)


downgrade = forward_only
