"""Samples: how many workspaces were in each phase, every few minutes, for the administrators' plots."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0014"
down_revision = "0013"

SAMPLES = """
CREATE TABLE samples (
    at timestamptz CONSTRAINT samples_pkey PRIMARY KEY,
    running integer NOT NULL,
    standby integer NOT NULL,
    archived integer NOT NULL,
    pending integer NOT NULL,
    error integer NOT NULL
);

REVOKE ALL ON samples FROM PUBLIC;
GRANT SELECT ON samples TO codehub_api;
GRANT SELECT, INSERT, DELETE ON samples TO codehub_controller;
"""


def upgrade() -> None:
    op.execute(SAMPLES)


downgrade = forward_only
