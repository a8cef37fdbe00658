"""Accounts in use: sessions that can be named without their secret, and users known by an OIDC issuer and subject."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0009"
down_revision = "0008"

SESSIONS = """
ALTER TABLE sessions ADD COLUMN id uuid NOT NULL DEFAULT gen_random_uuid();
ALTER TABLE sessions ADD CONSTRAINT sessions_id_key UNIQUE (id);
"""

# Issuer and subject are all that a provider promises never to give to somebody else.
USERS = """
ALTER TABLE users
    ADD COLUMN issuer text,
    ADD COLUMN subject text,
    ADD CONSTRAINT users_identity CHECK ((issuer IS NULL) = (subject IS NULL));

CREATE UNIQUE INDEX users_identity_key ON users (issuer, subject) WHERE issuer IS NOT NULL;
"""


def upgrade() -> None:
    op.execute(SESSIONS)
    op.execute(USERS)


downgrade = forward_only
