"""Administrators ask for instances and volumes of no workspace to be listed and removed, as they do for archives.

Such a request is a dry run to a leader of the version before, which knows nothing of the column: it removes no archive.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.execute("ALTER TABLE gc_runs ADD COLUMN orphans text")  # list, remove or override
    op.execute("GRANT INSERT (orphans) ON gc_runs TO codehub_api")


downgrade = forward_only
