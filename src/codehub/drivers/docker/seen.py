"""The engine's answers read as observations. Pure; whatever is not exactly of our making is left out."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from codehub.drivers import storage_jobs
from codehub.drivers.base import InstanceUsage
from codehub.drivers.docker import spec
from codehub.drivers.labels import uuid_of
from codehub.model.names import instance_name, job_name, volume_name
from codehub.model.observation import JobSeen, JobState, VolumeSeen
from codehub.model.workspace import (
    UNLABELLED,
    Incarnation,
    OpId,
    WorkspaceId,
)

Json = Mapping[str, Any]

_VOLUME = re.compile(r"ws-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-home")
_EXITED = re.compile(r"Exited \((\d+)\)")
_UNSTARTED_SECONDS = 60.0  # a job this long between being made and being started has lost whoever made it


@dataclass(frozen=True, slots=True)
class Container:
    """A workspace's container."""

    id: str
    workspace_id: WorkspaceId
    state: str  # the engine's word
    op_id: OpId | None
    address: str | None  # host:port
    ready_path: str = "/"

    @property
    def runs(self) -> bool:
        return self.state in ("running", "paused")


@dataclass(frozen=True, slots=True)
class Job:
    """A job's container."""

    id: str
    workspace_id: WorkspaceId
    op_id: OpId
    state: str
    created_at: datetime
    exit_code: int | None
    volume_uid: str


def container_of(listed: Json, network: str) -> Container | None:
    """One line of the engine's list of containers."""
    labels = listed.get("Labels") or {}
    workspace_id = uuid_of(labels.get(spec.LABEL_WORKSPACE))
    if workspace_id is None or f"/{instance_name(WorkspaceId(workspace_id))}" not in (listed.get("Names") or []):
        return None
    op_id = uuid_of(labels.get(spec.LABEL_OP))
    networks = (listed.get("NetworkSettings") or {}).get("Networks") or {}
    ip, port = (networks.get(network) or {}).get("IPAddress"), labels.get(spec.LABEL_PORT)
    return Container(
        id=listed["Id"],
        workspace_id=WorkspaceId(workspace_id),
        state=listed["State"],
        op_id=None if op_id is None else OpId(op_id),
        address=f"{ip}:{port}" if ip and port else None,
        ready_path=labels.get(spec.LABEL_READY, "/"),
    )


def as_listed(inspected: Json) -> Json:
    """A container that was looked at alone, in the shape that listings have."""
    return {
        "Id": inspected["Id"],
        "Names": [inspected["Name"]],
        "State": inspected["State"]["Status"],
        "Labels": inspected["Config"].get("Labels"),
        "NetworkSettings": inspected.get("NetworkSettings"),
    }


def is_workspace(inspected: Json, installation: str) -> bool:
    labels = inspected["Config"].get("Labels") or {}
    return bool((labels.get(spec.LABEL_INSTALLATION), labels.get(spec.LABEL_ROLE)) == (installation, spec.WORKSPACE))


def volumes_of(listed: Sequence[Json], installation: str) -> dict[WorkspaceId, VolumeSeen]:
    """Homes by workspace; one without labels too, since no operation of ours may take it for its own."""
    found = {}
    marks = {volume["Name"]: volume for volume in listed if volume["Name"].endswith(spec.MARK_ENDS)}
    for volume in listed:
        match = _VOLUME.fullmatch(volume["Name"])
        if match and is_ours(volume, installation):
            mark = marks.get(f"{volume['Name']}{spec.MARK_ENDS}")
            found[WorkspaceId(UUID(match[1]))] = volume_of(volume, mark)
    return found


def is_ours(volume: Json, installation: str) -> bool:
    """Not another installation's; no label at all is nobody's, and shown."""
    return bool((volume.get("Labels") or {}).get(spec.LABEL_INSTALLATION, installation) == installation)


def volume_of(volume: Json, mark: Json | None) -> VolumeSeen:
    """What its labels say, if they are about this very volume."""
    labels = volume.get("Labels") or {}
    workspace_id = uuid_of(labels.get(spec.LABEL_WORKSPACE))
    if workspace_id is None or volume["Name"] != volume_name(WorkspaceId(workspace_id)):
        return VolumeSeen(exists=True)
    return VolumeSeen(
        exists=True,
        incarnation=Incarnation(labels.get(spec.LABEL_INCARNATION, UNLABELLED)),
        uid=labels.get(spec.LABEL_UID, ""),
        whole=mark is not None and is_mark_of(mark, labels.get(spec.LABEL_UID, "")),
    )


def is_mark_of(mark: Json, uid: str) -> bool:
    labels = mark.get("Labels") or {}
    return bool(uid) and (labels.get(spec.LABEL_ROLE), labels.get(spec.LABEL_UID)) == (spec.MARK, uid)


def job_of(listed: Json) -> Job | None:
    """One line of the engine's list of containers."""
    labels = listed.get("Labels") or {}
    workspace_id, op_id = uuid_of(labels.get(spec.LABEL_WORKSPACE)), uuid_of(labels.get(spec.LABEL_OP))
    if workspace_id is None or op_id is None or f"/{job_name(OpId(op_id))}" not in (listed.get("Names") or []):
        return None
    exited = _EXITED.match(listed.get("Status") or "")
    return Job(
        id=listed["Id"],
        workspace_id=WorkspaceId(workspace_id),
        op_id=OpId(op_id),
        state=listed["State"],
        created_at=datetime.fromtimestamp(listed["Created"], UTC),
        exit_code=int(exited[1]) if exited else None,
        volume_uid=labels.get(spec.LABEL_UID, ""),
    )


def job_seen(job: Job, log: str, waited: float) -> JobSeen:
    """A job with the last thing it said, seen for `waited` seconds; `log` has the engine's time before each line."""
    running = storage_jobs.running(job.op_id, job.volume_uid, job.created_at, log)
    if job.state in ("running", "paused", "restarting"):
        return running
    if job.state == "created":
        if waited < _UNSTARTED_SECONDS:
            return running
        return replace(running, state=JobState.FAILED, message="The job was made and never started.")
    return storage_jobs.ended(running, job.exit_code, log)


def plain_log(stream: bytes) -> str:
    """The text in the engine's log stream, whose frames have a head of eight bytes: stream, 0, 0, 0, length."""
    text = bytearray()
    at = 0
    while at + 8 <= len(stream):
        size = int.from_bytes(stream[at + 4 : at + 8], "big")
        text += stream[at + 8 : at + 8 + size]
        at += 8 + size
    return text.decode(errors="replace")


def usage_of(stats: Json) -> InstanceUsage | None:
    """One answer of /containers/ID/stats; None of a container that has ended."""
    cpu = (stats.get("cpu_stats") or {}).get("cpu_usage") or {}
    memory = stats.get("memory_stats") or {}
    if "usage" not in memory or "total_usage" not in cpu:
        return None
    details = memory.get("stats") or {}
    # Pages of files that nobody used lately: cgroup v2 and v1 have different names for them.
    idle = details.get("inactive_file", details.get("total_inactive_file", 0))
    return InstanceUsage(cpu_seconds=cpu["total_usage"] / 1e9, memory_bytes=max(0, memory["usage"] - idle))
