"""An administrator's word that homes which are missing are really lost: without it, many at once are an outage."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0017"
down_revision = "0016"

# No foreign key: the word outlives the account.
ACCEPTED_LOSSES = """
CREATE TABLE accepted_losses (
    backend text CONSTRAINT accepted_losses_pkey PRIMARY KEY,
    accepted_by uuid NOT NULL,
    accepted_at timestamptz NOT NULL DEFAULT now()
);

REVOKE ALL ON accepted_losses FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE ON accepted_losses TO codehub_api;
GRANT SELECT ON accepted_losses TO codehub_controller;
"""


def upgrade() -> None:
    op.execute(ACCEPTED_LOSSES)


downgrade = forward_only
