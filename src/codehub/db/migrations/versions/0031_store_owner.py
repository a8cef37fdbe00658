"""Which markers of the archive store are this database's own, and what is wrong with the one that is there (ADR 25)."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0031"
down_revision = "0030"

# A restore that migrates an older backup has made the first of them already.
STORE_OWNER = """
ALTER TABLE leadership
    ADD COLUMN IF NOT EXISTS store_tokens uuid[] NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS store_trouble text;
GRANT UPDATE (store_tokens, store_trouble) ON leadership TO codehub_controller;
"""


def upgrade() -> None:
    op.execute(STORE_OWNER)


downgrade = forward_only
