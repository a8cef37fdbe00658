"""A restore that has not adopted the newer archives yet: the moment of its backup, and of whom the rest is about.

NULL for whom: of every workspace. An older leader beside this one does not know it, and restores what the rows name.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0033"
down_revision = "0032"


def upgrade() -> None:
    # A restore that migrates an older backup has made them already.
    op.execute(
        """ALTER TABLE leadership
           ADD COLUMN IF NOT EXISTS adoption_due timestamptz,
           ADD COLUMN IF NOT EXISTS adoption_due_of uuid[]"""
    )


downgrade = forward_only
