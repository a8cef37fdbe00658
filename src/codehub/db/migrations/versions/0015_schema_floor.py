"""The oldest CodeHub that runs on this schema, for one that finds a newer schema than its own (ADR 11).

`codehub.db.migrate` keeps it: what contracts the schema raises it, what expands it does not.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0015"
down_revision = "0014"

FLOOR = """
CREATE TABLE schema_floor (version text CONSTRAINT schema_floor_pkey PRIMARY KEY);
CREATE UNIQUE INDEX idx_schema_floor_one ON schema_floor ((true));
INSERT INTO schema_floor VALUES ('0014');
"""


def upgrade() -> None:
    op.execute(FLOOR)


downgrade = forward_only
