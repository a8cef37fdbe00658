"""Where a visitor goes: a workspace's IDE, or a port that something listens on inside it."""

from dataclasses import dataclass

from codehub.model.workspace import WorkspaceId

PORTS = range(1024, 65536)  # below, only an administrator of the workspace could listen, and there is none


@dataclass(frozen=True, slots=True)
class Destination:
    """A workspace; without a port its IDE. Each has an origin of its own where there are own origins."""

    workspace: WorkspaceId
    port: int | None = None
