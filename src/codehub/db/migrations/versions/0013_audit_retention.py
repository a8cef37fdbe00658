"""The coordinator may forget old entries of the audit log; the API, which people reach, still cannot."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.execute("GRANT SELECT (id, at), DELETE ON audit_log TO codehub_controller")


downgrade = forward_only
