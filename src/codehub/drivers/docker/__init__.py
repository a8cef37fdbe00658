"""Workspaces as containers of a Docker engine, homes as its volumes, storage jobs as containers beside them.

`driver.py` puts the parts together; `spec.py`, `firewall.py` and `seen.py` are pure; `api.py` speaks to the engine.
"""

from codehub.drivers.docker.driver import DockerDriver
from codehub.drivers.docker.options import DockerOptions, Outbound, WorkspaceImage

__all__ = ["DockerDriver", "DockerOptions", "Outbound", "WorkspaceImage"]
