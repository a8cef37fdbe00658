"""From an action to the one driver call that it means. Nothing is decided here."""

from collections.abc import Mapping

from codehub.drivers.base import Archives, Backend, InstanceSpec, Resources
from codehub.model import actions as a
from codehub.model.names import archive_key
from codehub.model.workspace import InstanceBackend, WorkspaceId

START, ACT = "start", "act"  # lanes: what may take minutes, and what should not wait for it


def lanes_of(backends: Mapping[InstanceBackend, Backend]) -> dict[tuple[str, str], int]:
    """How many errands may be under way: of each backend as many as it bears."""
    return {(str(name), lane): one.at_once for name, one in backends.items() for lane in (START, ACT)}


def lane_of(action: a.Action) -> str:
    return START if isinstance(action, a.StartInstance | a.MakeArchive) else ACT


async def perform(
    workspace_id: WorkspaceId, action: a.Action, backend: Backend, archives: Archives, resources: Resources
) -> None:
    """Ask for it. Returning means accepted, nothing more; raises DriverError."""
    match action:
        case a.StartInstance(op_id, image_ref, volume, safe_mode):
            spec = InstanceSpec(
                op_id=op_id, image_ref=image_ref, volume=volume, resources=resources, safe_mode=safe_mode
            )
            await backend.instances.start(workspace_id, spec)
        case a.RemoveInstance():
            await backend.instances.remove(workspace_id)
        case a.CreateVolume(incarnation):
            await backend.volumes.create(workspace_id, incarnation)
        case a.DeleteVolume(volume, archived):
            await backend.volumes.delete(workspace_id, volume, archived=archived)
        case a.MarkWhole(volume):
            await backend.volumes.mark_whole(workspace_id, volume)
        case a.StartArchiveJob(op_id, volume):
            await backend.jobs.archive(workspace_id, op_id, volume)
        case a.StartRestoreJob(op_id, key, volume):
            await backend.jobs.restore(workspace_id, op_id, key, volume)
        case a.RemoveJob(op_id):
            await backend.jobs.remove(workspace_id, op_id)
        case a.MakeArchive(op_id, source):
            key = archive_key(workspace_id, op_id)
            await (archives.make_empty(key) if source is None else archives.copy(source, key))
