"""How many containers and volumes belong to no workspace: the leader notes it, for every process that is asked.

With the epoch in which it was noted: a leader of an older version leaves both as they are, and they count for nothing.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0018"
down_revision = "0017"

LEFT_OVERS = """
ALTER TABLE leadership ADD COLUMN unknown_resources integer, ADD COLUMN unknown_epoch bigint;
GRANT UPDATE (unknown_resources, unknown_epoch) ON leadership TO codehub_controller;
"""


def upgrade() -> None:
    op.execute(LEFT_OVERS)


downgrade = forward_only
