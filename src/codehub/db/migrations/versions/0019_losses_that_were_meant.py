"""Whom an administrator's word on losses is about: noted by the leader who reads it, for the leaders after it.

With the moment of the word that it belongs to: an older version gives a new word and leaves the list of the one before.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0019"
down_revision = "0018"

MEANT = """
ALTER TABLE accepted_losses ADD COLUMN missing uuid[], ADD COLUMN missing_at timestamptz;
GRANT UPDATE (missing, missing_at) ON accepted_losses TO codehub_controller;
"""


def upgrade() -> None:
    op.execute(MEANT)


downgrade = forward_only
