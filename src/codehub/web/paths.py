"""Paths of workspaces on CodeHub's own origin, /w/{id}/…, and what is ours below them and at their own origins."""

import re
from uuid import UUID

from codehub.model.workspace import WorkspaceId

RESERVED = "/.codehub/"  # below a workspace's root: never the workspace's
_BELOW = re.compile(r"/w/([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(/[^?]*)")


def workspace_in(target: str) -> WorkspaceId | None:
    """Whose path this is, in exactly the spelling that we give out; not what is ours below it."""
    found = _BELOW.match(target)
    if found is None or found[2].startswith(RESERVED):
        return None
    return WorkspaceId(UUID(found[1]))
