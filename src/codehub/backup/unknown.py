"""What runs or lies about in the infrastructure that a restored database does not know.

Nothing is touched: unknown instances and volumes are reported, as everywhere in CodeHub.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from codehub.drivers.base import Backend
from codehub.errors import CodeHubError
from codehub.model.names import instance_name, volume_name
from codehub.model.workspace import InstanceBackend, WorkspaceId

_LOOK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Unknown:
    """Names of things that belong to no row, and the backends that could not be looked at, with why."""

    instances: Sequence[str]
    volumes: Sequence[str]
    troubles: Mapping[str, str]


async def unknown(backends: Mapping[InstanceBackend, Backend], known: Collection[WorkspaceId]) -> Unknown:
    instances: list[str] = []
    volumes: list[str] = []
    troubles: dict[str, str] = {}
    for name, backend in backends.items():
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                instances += [instance_name(one) for one in await backend.instances.observe() if one not in known]
                volumes += [volume_name(one) for one in await backend.volumes.observe() if one not in known]
        except (CodeHubError, TimeoutError) as error:
            troubles[str(name)] = str(error) or "It did not answer in time."
    return Unknown(sorted(instances), sorted(volumes), troubles)
