"""A fresh proof of a session's user: what was given for the password, a moment ago, and until when it counts.

Kept as a hash beside the session; one that is made anew takes the place of the one before.
"""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0027"
down_revision = "0026"

PROOFS = """
ALTER TABLE sessions ADD COLUMN proof_hash bytea, ADD COLUMN proof_until timestamptz;
"""


def upgrade() -> None:
    op.execute(PROOFS)


downgrade = forward_only
