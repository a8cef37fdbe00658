"""What people sort their workspaces by: tags, and whether one is a favorite."""

from alembic import op

from codehub.db.migrations import forward_only

revision = "0025"
down_revision = "0024"

TAGS = """
ALTER TABLE workspaces
    ADD COLUMN tags text[] NOT NULL DEFAULT '{}',
    ADD COLUMN is_favorite boolean NOT NULL DEFAULT false;

GRANT INSERT (tags, is_favorite), UPDATE (tags, is_favorite) ON workspaces TO codehub_api;
"""

# Beside the triggers of revision 0006, which know the other columns that are shown.
TRIGGERS = """
CREATE TRIGGER workspaces_touch_tags BEFORE UPDATE ON workspaces FOR EACH ROW
WHEN ((OLD.tags, OLD.is_favorite) IS DISTINCT FROM (NEW.tags, NEW.is_favorite))
EXECUTE FUNCTION workspaces_touch();

CREATE TRIGGER workspaces_notify_tags AFTER UPDATE ON workspaces FOR EACH ROW
WHEN ((OLD.tags, OLD.is_favorite) IS DISTINCT FROM (NEW.tags, NEW.is_favorite))
EXECUTE FUNCTION workspaces_notify('ws_sse');
"""


def upgrade() -> None:
    op.execute(TAGS)
    op.execute(TRIGGERS)


downgrade = forward_only
