"""Which of the OpenID provider's sessions a session here came from, so that the provider can end it."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    op.execute("ALTER TABLE sessions ADD COLUMN provider_session text")


downgrade = forward_only
