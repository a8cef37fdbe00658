"""Whom a word on losses is about is the leader's alone to write: the API gives the word, column by column.

No version has ever written the leader's two columns as the API, so none misses the right to the whole table.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0020"
down_revision = "0019"
contract_after = "0014"

BY_COLUMN = """
REVOKE INSERT, UPDATE ON accepted_losses FROM codehub_api;
GRANT INSERT (backend, accepted_by), UPDATE (accepted_by, accepted_at) ON accepted_losses TO codehub_api;
"""


def upgrade() -> None:
    op.execute(BY_COLUMN)


downgrade = forward_only
