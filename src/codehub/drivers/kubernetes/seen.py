"""The cluster's objects read as observations. Pure; whatever is not exactly of our making is left out."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from codehub.drivers import storage_jobs
from codehub.drivers.base import InstanceUsage
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.explain import containers, explain, image_trouble, is_nodes_doing, is_unscheduled
from codehub.drivers.labels import uuid_of
from codehub.drivers.registry import is_without_cause, pull_failure
from codehub.model.names import instance_name, job_name, volume_name
from codehub.model.observation import InstanceSeen, JobSeen, JobState, Life, VolumeSeen
from codehub.model.workspace import UNLABELLED, ErrorReason, Incarnation, OpId, WorkspaceId

Json = Mapping[str, Any]

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)([numkMGTPE]|[KMGTPE]i)?")
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of ours: of a workspace or of a job."""

    object: Json
    workspace_id: WorkspaceId
    role: str
    op_id: OpId | None

    @property
    def name(self) -> str:
        return str(self.object["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.object["metadata"]["uid"])

    @property
    def gate(self) -> str:
        return str((self.object["metadata"].get("annotations") or {}).get(m.GATE, ""))

    @property
    def volume_uid(self) -> str:
        return str((self.object["metadata"].get("annotations") or {}).get(m.VOLUME_UID, ""))

    @property
    def made_at(self) -> datetime:
        return datetime.fromisoformat(self.object["metadata"]["creationTimestamp"])

    @property
    def phase(self) -> str:
        return str((self.object.get("status") or {}).get("phase", "Pending"))

    @property
    def address(self) -> str | None:
        return (self.object.get("status") or {}).get("podIP")

    @property
    def is_leaving(self) -> bool:
        return "deletionTimestamp" in self.object["metadata"]

    @property
    def has_ended(self) -> bool:
        """Nothing of it runs any more."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def has_begun(self) -> bool:
        """A container of it was started, so its gate was open."""
        return self.phase != "Pending" or any(
            {"running", "terminated"} & set(one.get("state") or {}) for one in containers(self.object)
        )

    @property
    def is_ready(self) -> bool:
        """Every container is."""
        conditions = (self.object.get("status") or {}).get("conditions") or ()
        ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
        return ready and self.phase == "Running" and not self.is_leaving

    @property
    def endpoint(self) -> str | None:
        port = (self.object["metadata"].get("annotations") or {}).get(m.PORT)
        return f"{self.address}:{port}" if self.address and port else None


def pod_of(found: Json, installation: str) -> Pod | None:
    """None for what is not of this installation, or is not what its name says."""
    labels = found["metadata"].get("labels") or {}
    workspace_id, op_id = uuid_of(labels.get(m.WORKSPACE)), uuid_of(labels.get(m.OP))
    if labels.get(m.INSTALLATION) != installation or workspace_id is None:
        return None
    role, name = labels.get(m.ROLE), found["metadata"]["name"]
    is_instance = role == m.INSTANCE and name == instance_name(WorkspaceId(workspace_id))
    is_job = role == m.JOB and op_id is not None and name == job_name(OpId(op_id))
    if not (is_instance or is_job):
        return None
    return Pod(found, WorkspaceId(workspace_id), str(role), None if op_id is None else OpId(op_id))


def pods_of(found: Iterable[Json], installation: str) -> list[Pod]:
    return [pod for pod in (pod_of(one, installation) for one in found) if pod is not None]


def instance_seen(pod: Pod) -> InstanceSeen:
    if pod.is_leaving or pod.has_ended:
        return InstanceSeen(Life.DEAD, pod.op_id, message=explain(pod.object), blameless=is_nodes_doing(pod.object))
    if pod.is_ready:
        return InstanceSeen(Life.READY, pod.op_id, pod.endpoint)
    endpoint = pod.endpoint if pod.phase == "Running" else None
    return InstanceSeen(Life.ALIVE, pod.op_id, endpoint, message=explain(pod.object))


def volume_of(found: Json) -> VolumeSeen:
    """What its labels say, if they are about this very volume."""
    meta = found["metadata"]
    workspace_id = uuid_of((meta.get("labels") or {}).get(m.WORKSPACE))
    annotations = meta.get("annotations") or {}
    incarnation = annotations.get(m.INCARNATION)
    if workspace_id is None or meta["name"] != volume_name(WorkspaceId(workspace_id)) or incarnation is None:
        return VolumeSeen(exists=True, incarnation=UNLABELLED)
    uid = str(meta["uid"])
    return VolumeSeen(True, Incarnation(incarnation), uid, whole=annotations.get(m.WHOLE) == uid)


def volumes_of(found: Iterable[Json]) -> dict[WorkspaceId, VolumeSeen]:
    volumes = {}
    for one in found:
        workspace_id = uuid_of((one["metadata"].get("labels") or {}).get(m.WORKSPACE))
        if workspace_id is not None and one["metadata"]["name"] == volume_name(WorkspaceId(workspace_id)):
            volumes[WorkspaceId(workspace_id)] = volume_of(one)
    return volumes


def is_ours(found: Json, installation: str) -> bool:
    """Not another installation's; no label at all is nobody's, and shown."""
    return bool((found["metadata"].get("labels") or {}).get(m.INSTALLATION, installation) == installation)


def job_seen(pod: Pod, log: str, waited: float, patience: float) -> JobSeen:
    """A job with the last thing it said. `waited` seconds it was seen; `patience` how long it may wait."""
    assert pod.op_id is not None
    job = storage_jobs.running(pod.op_id, pod.volume_uid, pod.made_at, log)
    if pod.has_ended:
        return _blameless(storage_jobs.ended(job, _exit_code(pod), log, explain(pod.object)), pod)
    if pod.has_begun:
        return job
    trouble = image_trouble(pod.object)
    if trouble is not None and not is_without_cause(trouble[1]):
        return _without_image(job, *trouble)
    if waited > patience:
        error = ErrorReason.UNREACHABLE if is_unscheduled(pod.object) else ErrorReason.ACTION_FAILED
        message = f"The job does not start. {explain(pod.object)}"
        return replace(job, state=JobState.FAILED, error=error, message=message)
    return job


def _without_image(job: JobSeen, image: str, message: str) -> JobSeen:
    """The image of jobs is the operator's: that there is none is no reason of a workspace's own."""
    failure = pull_failure(image, message)
    reason = ErrorReason(failure.reason)
    error = ErrorReason.ACTION_FAILED if reason is ErrorReason.IMAGE_PULL_FAILED else reason
    return replace(job, state=JobState.FAILED, error=error, message=failure.message)


def _blameless(job: JobSeen, pod: Pod) -> JobSeen:
    """A job that its node or the cluster ended did not fail: that is an outage, and it is run again."""
    if job.state is not JobState.FAILED or job.error is not ErrorReason.ACTION_FAILED or not is_nodes_doing(pod.object):
        return job
    return replace(job, error=ErrorReason.UNREACHABLE, message=f"The cluster ended the job. {explain(pod.object)}")


def _exit_code(pod: Pod) -> int | None:
    for container in containers(pod.object):
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode")
        if isinstance(code, int):
            return code
    return None


def job_unread(pod: Pod) -> JobSeen:
    """One whose result cannot be read now: as if it still ran."""
    assert pod.op_id is not None
    return storage_jobs.running(pod.op_id, pod.volume_uid, pod.made_at, "")


def usage_of(measured: Iterable[Json], installation: str) -> Mapping[WorkspaceId, InstanceUsage]:
    """What the metrics API says of pods."""
    found = {}
    for pod in pods_of(measured, installation):
        used = [container.get("usage") or {} for container in pod.object.get("containers") or ()]
        cpus = [quantity_of(str(one.get("cpu", ""))) for one in used]
        memory = [quantity_of(str(one.get("memory", ""))) for one in used]
        found[pod.workspace_id] = InstanceUsage(
            cpus=None if None in cpus or not cpus else sum(one or 0.0 for one in cpus),
            memory_bytes=None if None in memory or not memory else int(sum(one or 0.0 for one in memory)),
        )
    return found


def quantity_of(text: str) -> float | None:
    """A number as Kubernetes writes it: 250m, 1Gi; None for what is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    number, unit = float(match[1]), match[2] or ""
    return number * math.pow(1024, _BINARY[unit]) if unit in _BINARY else number * math.pow(1000, _DECIMAL[unit])
