"""How often the controller has committed, and whether commits were found to be lost (ADR 24).

An older leader beside this one does not count: what it loses is not noticed, and nothing is told that was not lost.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0030"
down_revision = "0029"

# A restore that migrates an older backup has made the first of them already.
COMMITS = """
ALTER TABLE leadership
    ADD COLUMN IF NOT EXISTS commits bigint NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS lost_commits bigint,
    ADD COLUMN IF NOT EXISTS lost_commits_at timestamptz;
GRANT UPDATE (commits, lost_commits, lost_commits_at) ON leadership TO codehub_controller;
"""


def upgrade() -> None:
    op.execute(COMMITS)


downgrade = forward_only
