"""What is asked of the engine, as values: the bodies of its create calls. Pure; golden tests hold every byte.

The home is never mounted by its name where that could create it. A volume is born together with its *anchor*, a
container that is created and never started, only refers to the volume: while it exists the engine refuses to remove
the volume. Everything else takes the volume from the anchor's id (`VolumesFrom`), which fails when the anchor is gone.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from codehub.drivers import storage_jobs
from codehub.drivers.base import Resources
from codehub.drivers.docker.options import DockerOptions, Outbound, WorkspaceImage
from codehub.drivers.safe_mode import home_variables
from codehub.model.names import volume_name
from codehub.model.workspace import Incarnation, OpId, VolumeRef, WorkspaceId

HOME = "/home/coder"
USER = "1000:1000"
ANCHOR_IMAGE = "codehub/anchor:1"  # nothing but an empty home of uid 1000; the driver makes it itself

LABEL_INSTALLATION = "codehub.installation"
LABEL_WORKSPACE = "codehub.workspace"
LABEL_OP = "codehub.op_id"
LABEL_INCARNATION = "codehub.incarnation"
LABEL_UID = "codehub.uid"
LABEL_ROLE = "codehub.role"
LABEL_PORT = "codehub.port"
LABEL_READY = "codehub.ready_path"
LABEL_VERB = "codehub.verb"
LABEL_SUBNET = "codehub.subnet"

WORKSPACE, JOB, ANCHOR, GUARD, MARK = "workspace", "job", "anchor", "guard", "mark"  # roles
MARK_ENDS = "-whole"

_JOB_COMMAND = ("python3", "-m", "codehub.storage_job")

LOGS = {"Type": "json-file", "Config": {"max-size": "10m", "max-file": "1"}}

Body = dict[str, Any]
Labels = dict[str, str]


def anchor_name(workspace_id: WorkspaceId) -> str:
    return f"{volume_name(workspace_id)}-anchor"


def mark_name(workspace_id: WorkspaceId) -> str:
    return f"{volume_name(workspace_id)}{MARK_ENDS}"


def mark_body(installation: str, workspace_id: WorkspaceId, uid: str) -> Body:
    """An empty volume that says of another one, by its uid, that it holds a whole home: labels cannot be changed."""
    labels = {LABEL_INSTALLATION: installation, LABEL_WORKSPACE: str(workspace_id), LABEL_UID: uid, LABEL_ROLE: MARK}
    return {"Name": mark_name(workspace_id), "Labels": labels}


def volume_labels(installation: str, workspace_id: WorkspaceId, incarnation: Incarnation, uid: str) -> Labels:
    return {
        LABEL_INSTALLATION: installation,
        LABEL_WORKSPACE: str(workspace_id),
        LABEL_INCARNATION: incarnation,
        LABEL_UID: uid,
    }


def anchor_body(installation: str, workspace_id: WorkspaceId, volume: VolumeRef, if_made: str) -> Body:
    """The anchor of `volume`. Should the engine have to make the volume for it, that one is labelled `if_made`."""
    uid = volume.uid or ""
    return {
        "Image": ANCHOR_IMAGE,
        "Cmd": ["-"],
        "Labels": volume_labels(installation, workspace_id, volume.incarnation, uid) | {LABEL_ROLE: ANCHOR},
        "HostConfig": {
            "NetworkMode": "none",
            "Mounts": [
                {
                    "Type": "volume",
                    "Source": volume_name(workspace_id),
                    "Target": HOME,
                    "VolumeOptions": {
                        "Labels": volume_labels(installation, workspace_id, volume.incarnation, if_made),
                    },
                }
            ],
        },
    }


def workspace_body(
    options: DockerOptions,
    workspace_id: WorkspaceId,
    volume: VolumeRef,
    *,
    op_id: OpId,
    image: WorkspaceImage,
    anchor_id: str,
    address: str,
    resources: Resources,
    safe_mode: bool = False,
) -> Body:
    """The container that a workspace runs in."""
    host: Body = {
        **_hardened(volume_from=anchor_id),
        "NetworkMode": options.network,
        "ReadonlyRootfs": image.read_only_root,
        "Tmpfs": {"/tmp": f"rw,nosuid,nodev,mode=1777,size={options.tmp_bytes}"},  # noqa: S108 - of the container
        **_limits(resources),
    }
    if options.outbound is Outbound.NONE:
        host["Dns"] = ["127.0.0.1"]  # the engine's own resolver would carry names out
    elif options.dns:
        host["Dns"] = list(options.dns)
    return {
        "Image": image.image,
        "User": USER,
        "Hostname": "workspace",
        "WorkingDir": HOME,
        "Env": [
            *(f"{name}={value}" for name, value in options.environment.items()),
            *(f"{name}={value}" for name, value in home_variables(HOME, safe_mode=safe_mode).items()),
            f"CODEHUB_WORKSPACE_ID={workspace_id}",
        ],
        "Labels": volume_labels(options.installation, workspace_id, volume.incarnation, volume.uid or "")
        | {LABEL_ROLE: WORKSPACE, LABEL_OP: str(op_id), LABEL_PORT: str(image.port), LABEL_READY: image.ready_path},
        "HostConfig": host,
        "NetworkingConfig": {"EndpointsConfig": {options.network: {"IPAMConfig": {"IPv4Address": address}}}},
    }


def job_body(
    options: DockerOptions,
    workspace_id: WorkspaceId,
    volume: VolumeRef,
    *,
    op_id: OpId,
    verb: str,
    anchor_id: str,
    network: str,
    mount: Body | None,
) -> Body:
    """The container of a storage job. What it is to do comes by standard input, never by environment or arguments."""
    host: Body = {
        **_hardened(volume_from=anchor_id),
        "CapAdd": list(storage_jobs.CAPABILITIES),
        "NetworkMode": network,
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": "rw,nosuid,nodev,noexec,mode=1777,size=67108864"},  # noqa: S108 - of the container
        **_limits(Resources(cpus=None, memory_bytes=storage_jobs.MEMORY_BYTES, pids=256)),
    }
    if mount is not None:
        host["Mounts"] = [mount]
    return {
        "Image": options.job_image,
        "Cmd": list(_JOB_COMMAND),  # CodeHub's own image will do, too
        "User": "0:0",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "Labels": volume_labels(options.installation, workspace_id, volume.incarnation, volume.uid or "")
        | {LABEL_ROLE: JOB, LABEL_OP: str(op_id), LABEL_VERB: verb},
        "HostConfig": host,
    }


def folder_mount(folder: str, *, read_only: bool) -> Body:
    """A bind through Mounts fails when the folder is missing; Binds would make it, owned by root."""
    return {"Type": "bind", "Source": folder, "Target": folder, "ReadOnly": read_only}


def guard_body(options: DockerOptions) -> Body:
    """The container that puts the firewall up, in the engine's own network namespace."""
    return {
        "Image": options.guard_image,
        "Cmd": [options.table, options.bridge, options.job_bridge],
        "User": "0:0",
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "Labels": {LABEL_INSTALLATION: options.installation, LABEL_ROLE: GUARD},
        "HostConfig": {
            "NetworkMode": "host",
            "CapDrop": ["ALL"],
            "CapAdd": ["NET_ADMIN"],
            "SecurityOpt": ["no-new-privileges:true"],
            "ReadonlyRootfs": True,
            "RestartPolicy": {"Name": "no"},
            "LogConfig": LOGS,
            **_limits(Resources(cpus=None, memory_bytes=128 << 20, pids=64)),
        },
    }


def network_body(options: DockerOptions, name: str, bridge: str, *, internal: bool, subnet: str | None = None) -> Body:
    """A bridge of our own, whose containers do not see each other; with a subnet that is named we choose addresses."""
    chosen = {"IPAM": {"Config": [{"Subnet": subnet, "Gateway": str(gateway_of(subnet))}]}} if subnet else {}
    return {
        "Name": name,
        "CheckDuplicate": True,
        "Driver": "bridge",
        "Internal": internal,
        "EnableIPv6": False,
        "Options": {
            "com.docker.network.bridge.name": bridge,
            "com.docker.network.bridge.enable_icc": "false",
        },
        "Labels": {LABEL_INSTALLATION: options.installation} | ({LABEL_SUBNET: subnet} if subnet else {}),
        **chosen,
    }


def gateway_of(subnet: str) -> IPv4Address:
    return IPv4Network(subnet)[1]


def label_filter(installation: str, role: str) -> Mapping[str, Sequence[str]]:
    return {"label": [f"{LABEL_INSTALLATION}={installation}", f"{LABEL_ROLE}={role}"]}


def _hardened(*, volume_from: str) -> Body:
    return {
        "VolumesFrom": [volume_from],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "RestartPolicy": {"Name": "no"},
        "Init": True,
        "IpcMode": "private",
        "LogConfig": LOGS,
    }


def _limits(resources: Resources) -> Body:
    limits: Body = {}
    if resources.cpus is not None:
        limits["NanoCpus"] = round(resources.cpus * 1_000_000_000)
    if resources.memory_bytes is not None:
        limits["Memory"] = limits["MemorySwap"] = resources.memory_bytes  # equal: no swap
    if resources.pids is not None:
        limits["PidsLimit"] = resources.pids
    return limits
