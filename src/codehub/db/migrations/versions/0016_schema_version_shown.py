"""An API process whose login is not the owner's reads, too, which schema it has before it."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.execute("GRANT SELECT ON alembic_version, schema_floor TO codehub_api")


downgrade = forward_only
