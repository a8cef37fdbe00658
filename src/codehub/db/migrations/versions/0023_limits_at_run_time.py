"""Limits that an administrator sets while CodeHub runs, for all and for single users; NULL is what is configured."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0023"
down_revision = "0022"

LIMITS = """
CREATE TABLE limits (
    is_only_row boolean CONSTRAINT limits_pkey PRIMARY KEY DEFAULT true CONSTRAINT limits_only_row CHECK (is_only_row),
    max_running_global integer CONSTRAINT limits_running_global CHECK (max_running_global > 0),
    max_running_per_user integer CONSTRAINT limits_running_per_user CHECK (max_running_per_user > 0),
    max_workspaces_per_user integer CONSTRAINT limits_workspaces_per_user CHECK (max_workspaces_per_user > 0)
);

INSERT INTO limits DEFAULT VALUES;

REVOKE ALL ON limits FROM PUBLIC;
GRANT SELECT ON limits TO codehub_api;
GRANT UPDATE (max_running_global, max_running_per_user, max_workspaces_per_user) ON limits TO codehub_api;
"""

# 0: this user may run, or have, none.
USERS = """
ALTER TABLE users ADD COLUMN max_running integer, ADD COLUMN max_workspaces integer;
"""


def upgrade() -> None:
    op.execute(LIMITS)
    op.execute(USERS)


downgrade = forward_only
