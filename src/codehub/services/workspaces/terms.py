"""What this installation offers and grants: read from its settings once; which images there are, each time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from codehub.config import Settings
from codehub.model.limits import Quota
from codehub.model.workspace import InstanceBackend

Images = Callable[[], Mapping[InstanceBackend, Sequence[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Limits, the trash's retention, and what a workspace is made of that names nothing else."""

    quota: Quota
    retention: timedelta
    standby_ttl_seconds: int
    archive_ttl_seconds: int
    images: Images
    default_backend: InstanceBackend

    @classmethod
    def of(cls, settings: Settings, images: Images, default_backend: InstanceBackend) -> Self:
        return cls(
            quota=Quota(
                per_user=settings.limits.max_running_per_user,
                total=settings.limits.max_running_global,
                workspaces=settings.limits.max_workspaces_per_user,
            ),
            retention=timedelta(seconds=settings.gc.trash_retention_seconds),
            standby_ttl_seconds=settings.ttl.standby_seconds,
            archive_ttl_seconds=settings.ttl.archive_seconds,
            images=images,
            default_backend=default_backend,
        )
