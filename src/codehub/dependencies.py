"""What a process needs to do its work, by the names that /readyz, metrics and alerts say; docs/runbook.md has each."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum

from codehub.model.workspace import InstanceBackend


class Dependency(StrEnum):
    """The backends have the names they have everywhere."""

    POSTGRESQL = "postgresql"
    REDIS = "redis"
    COORDINATOR = "coordinator"
    ADMINISTRATOR = "administrator"
    ARCHIVES = "archives"
    DOCKER = InstanceBackend.DOCKER.value
    K8S = InstanceBackend.K8S.value
    PROCESS = InstanceBackend.PROCESS.value


# Returns when it works, with a warning or None; raises what is wrong.
Check = Callable[[], Awaitable[str | None]]
Checks = Mapping[Dependency, Check]
