"""Who or what asked for the present desired_state, for the history; and an index for GC's last look at sources.

No trigger names asked_by: a wish that is asked for again shows nothing new.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0008"
down_revision = "0007"

ASKED_BY = """
ALTER TABLE workspaces ADD COLUMN asked_by text NOT NULL DEFAULT '';
GRANT INSERT (asked_by), UPDATE (asked_by) ON workspaces TO codehub_api;
"""

SOURCE = """
CREATE INDEX idx_workspaces_source ON workspaces (source_archive)
WHERE deleted_at IS NULL AND source_archive IS NOT NULL
"""


def upgrade() -> None:
    op.execute(ASKED_BY)
    op.execute(SOURCE)


downgrade = forward_only
