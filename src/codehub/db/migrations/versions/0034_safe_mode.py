"""Whether a workspace starts in safe mode: a shell beside the home, none of whose settings are read."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0034"
down_revision = "0033"

SAFE_MODE = """
ALTER TABLE workspaces ADD COLUMN safe_mode boolean NOT NULL DEFAULT false;

GRANT INSERT (safe_mode), UPDATE (safe_mode) ON workspaces TO codehub_api;
"""

# Beside the triggers of revision 0006, which know the other columns that are shown.
TRIGGERS = """
CREATE TRIGGER workspaces_touch_safe_mode BEFORE UPDATE ON workspaces FOR EACH ROW
WHEN (OLD.safe_mode IS DISTINCT FROM NEW.safe_mode)
EXECUTE FUNCTION workspaces_touch();

CREATE TRIGGER workspaces_notify_safe_mode AFTER UPDATE ON workspaces FOR EACH ROW
WHEN (OLD.safe_mode IS DISTINCT FROM NEW.safe_mode)
EXECUTE FUNCTION workspaces_notify('ws_sse');
"""


def upgrade() -> None:
    op.execute(SAFE_MODE)
    op.execute(TRIGGERS)


downgrade = forward_only
