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


class Degraded(str):
    """A warning of something that works and cannot do all of its work now: /readyz says `degraded`, and why."""

    __slots__ = ()


# Returns when it works, with a warning or None; raises what is wrong.
Check = Callable[[], Awaitable[str | None]]
Checks = Mapping[Dependency, Check]
