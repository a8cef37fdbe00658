"""What is asked of the cluster, as values: the objects that the driver creates. Pure; golden tests hold every byte.

A pod is made *closed*: it mounts a Secret, its gate, that is not there yet, so the node starts nothing of it. Whoever
made it looks who else uses the home, and opens it by making the Secret, or removes it. So nothing runs by the act of a
process that was frozen before it could look, and a job's credentials come into being last. The gate belongs to the
pod (`ownerReferences`), so the cluster removes it with the pod.
"""

import base64
from collections.abc import Sequence
from typing import Any

from codehub.drivers import storage_jobs
from codehub.drivers.base import Resources
from codehub.drivers.docker.options import WorkspaceImage
from codehub.drivers.kubernetes.options import KubernetesOptions
from codehub.drivers.safe_mode import home_variables
from codehub.model.names import instance_name, job_name, volume_name
from codehub.model.workspace import Incarnation, OpId, WorkspaceId

HOME = "/home/coder"
USER = 1000
GRACE_SECONDS = 1  # a forced 0 would make the object vanish before the processes have

INSTALLATION = "codehub.installation"  # labels
WORKSPACE = "codehub.workspace"
ROLE = "codehub.role"
OP = "codehub.op_id"
INCARNATION = "codehub.incarnation"  # annotations
VOLUME_UID = "codehub.volume_uid"
USED_BY = "codehub.used_by"
WHOLE = "codehub.whole"  # of a claim: the uid of the claim that holds a whole home, since annotations get copied
OWNED = "codehub.owned"  # of a claim: uid 1000 owns what is in it
GATE = "codehub.gate"
PORT = "codehub.port"

INSTANCE, JOB, HOME_ROLE, PROBE = "workspace", "job", "home", "probe"  # roles

REQUEST = "request.json"
_GATE_FOLDER = "/run/codehub"
_JOB_COMMAND = ("sh", "-c", f"exec python3 -m codehub.storage_job <{_GATE_FOLDER}/{REQUEST}")
_OWN_COMMAND = (
    "sh",
    "-c",
    f'[ "$(stat -c %u {HOME})" = {USER} ] || {{ chmod 0700 {HOME} && chown {USER}:{USER} {HOME}; }}',
)

Body = dict[str, Any]


def selector(installation: str, role: str = "", workspace_id: WorkspaceId | None = None) -> str:
    """What of ours is meant, as the API wants it."""
    parts = {INSTALLATION: installation, ROLE: role, WORKSPACE: "" if workspace_id is None else str(workspace_id)}
    return ",".join(f"{key}={value}" for key, value in parts.items() if value)


def claim(options: KubernetesOptions, workspace_id: WorkspaceId, incarnation: Incarnation) -> Body:
    """A home. Its uid is the one that the cluster gives it."""
    spec: Body = {
        "accessModes": [options.access_mode],
        "resources": {"requests": {"storage": str(options.home_bytes)}},
    }
    if options.storage_class is not None:
        spec["storageClassName"] = options.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume_name(workspace_id),
            "labels": _labels(options, HOME_ROLE, workspace_id),
            "annotations": {INCARNATION: incarnation},
        },
        "spec": spec,
    }


def workspace_pod(
    options: KubernetesOptions,
    workspace_id: WorkspaceId,
    volume_uid: str,
    *,
    op_id: OpId,
    image: WorkspaceImage,
    gate: str,
    resources: Resources,
    make_owner: bool,
    safe_mode: bool = False,
) -> Body:
    """The pod that a workspace runs in. With `make_owner` the home is given to uid 1000 first."""
    home = home_variables(HOME, safe_mode=safe_mode)
    variables = {**options.environment, **home, "CODEHUB_WORKSPACE_ID": str(workspace_id)}
    container: Body = {
        "name": INSTANCE,
        "image": image.image,
        "imagePullPolicy": _pull_policy(options),
        "workingDir": HOME,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "ports": [{"containerPort": image.port}],
        "resources": _resources(options, resources),
        "readinessProbe": {
            "httpGet": {"path": image.ready_path, "port": image.port},
            "periodSeconds": 1,
            "timeoutSeconds": 5,
            "failureThreshold": 10,
        },
        "securityContext": _hardened(read_only_root=image.read_only_root),
        "volumeMounts": _mounts(),
    }
    spec: Body = {
        **_pod(options, workspace_id, gate, tmp={"sizeLimit": str(options.tmp_bytes)}),
        "hostname": "workspace",
        "securityContext": {**_SECCOMP, "runAsUser": USER, "runAsGroup": USER, "runAsNonRoot": True},
        "containers": [container],
    }
    if make_owner:
        spec["initContainers"] = [_owner_container(options)]
    annotations = {VOLUME_UID: volume_uid, GATE: gate, PORT: str(image.port)}
    return _pod_object(instance_name(workspace_id), _labels(options, INSTANCE, workspace_id, op_id), annotations, spec)


def job_pod(options: KubernetesOptions, workspace_id: WorkspaceId, volume_uid: str, *, op_id: OpId, gate: str) -> Body:
    """The pod of a storage job: root inside, with what restoring owners and modes takes, and no other volume."""
    container: Body = {
        "name": JOB,
        "image": options.job_image,
        "imagePullPolicy": _pull_policy(options),
        "command": list(_JOB_COMMAND),
        "resources": _resources(options, Resources(cpus=None, memory_bytes=storage_jobs.MEMORY_BYTES)),
        "securityContext": _hardened(read_only_root=True, add=storage_jobs.CAPABILITIES),
        "volumeMounts": _mounts(),
    }
    spec: Body = {
        **_pod(options, workspace_id, gate, tmp={"medium": "Memory", "sizeLimit": "64Mi"}),
        "securityContext": {**_SECCOMP, "runAsUser": 0, "runAsGroup": 0},
        "containers": [container],
    }
    annotations = {VOLUME_UID: volume_uid, GATE: gate}
    return _pod_object(job_name(op_id), _labels(options, JOB, workspace_id, op_id), annotations, spec)


def gate(pod: Body, content: bytes | None = None) -> Body:
    """The Secret that opens a closed pod; for a job its request is in it."""
    meta = pod["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": meta["annotations"][GATE],
            "labels": {key: meta["labels"][key] for key in (INSTALLATION, WORKSPACE, ROLE)},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}],
        },
        "immutable": True,
        "data": {} if content is None else {REQUEST: base64.b64encode(content).decode()},
    }


def touch(uid: str, annotations: dict[str, str]) -> Body:
    """Notes on exactly this claim; refused by the cluster if it is another one by now."""
    return {"metadata": {"uid": uid, "annotations": annotations}}


def probe_pod(options: KubernetesOptions, name: str, role: str, command: Sequence[str]) -> Body:
    """A small pod that tries whether something can be reached: see isolation.py."""
    container: Body = {
        "name": PROBE,
        "image": options.job_image,
        "imagePullPolicy": _pull_policy(options),
        "command": list(command),
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": _hardened(read_only_root=True),
    }
    spec: Body = {
        **_anywhere(options),
        "securityContext": {**_SECCOMP, "runAsUser": USER, "runAsGroup": USER, "runAsNonRoot": True},
        "containers": [container],
    }
    return _pod_object(name, {INSTALLATION: options.installation, ROLE: role}, {}, spec)


_SECCOMP: Body = {"seccompProfile": {"type": "RuntimeDefault"}}


def _labels(
    options: KubernetesOptions, role: str, workspace_id: WorkspaceId, op_id: OpId | None = None
) -> dict[str, str]:
    labels = {INSTALLATION: options.installation, WORKSPACE: str(workspace_id), ROLE: role}
    return labels | ({OP: str(op_id)} if op_id else {})


def _pod_object(name: str, labels: dict[str, str], annotations: dict[str, str], spec: Body) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": spec,
    }


def _anywhere(options: KubernetesOptions) -> Body:
    """What every pod of ours has: where it may run, and that it ends for good and knows nothing of the cluster."""
    spec: Body = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }
    if options.node_selector:
        spec["nodeSelector"] = dict(options.node_selector)
    if options.tolerations:
        spec["tolerations"] = [
            {"key": one.key}
            | ({"operator": "Exists"} if one.value is None else {"operator": "Equal", "value": one.value})
            | ({} if one.effect is None else {"effect": one.effect})
            for one in options.tolerations
        ]
    if options.pull_secrets:
        spec["imagePullSecrets"] = [{"name": name} for name in options.pull_secrets]
    return spec


def _pod(options: KubernetesOptions, workspace_id: WorkspaceId, gate_name: str, *, tmp: Body) -> Body:
    return {
        **_anywhere(options),
        "volumes": [
            {"name": "home", "persistentVolumeClaim": {"claimName": volume_name(workspace_id)}},
            {"name": "tmp", "emptyDir": tmp},
            {"name": "gate", "secret": {"secretName": gate_name, "defaultMode": 0o400}},
        ],
    }


def _mounts() -> list[Body]:
    return [
        {"name": "home", "mountPath": HOME},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container
        {"name": "gate", "mountPath": _GATE_FOLDER, "readOnly": True},
    ]


def _owner_container(options: KubernetesOptions) -> Body:
    """Many clusters give volumes that root owns. Only the home's own folder is changed, nothing that is in it."""
    return {
        "name": "owner",
        "image": options.job_image,
        "imagePullPolicy": _pull_policy(options),
        "command": list(_OWN_COMMAND),
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": {
            **_hardened(read_only_root=True, add=("CHOWN", "FOWNER")),
            "runAsUser": 0,
            "runAsGroup": 0,
            "runAsNonRoot": False,
        },
        "volumeMounts": [{"name": "home", "mountPath": HOME}],
    }


def _hardened(*, read_only_root: bool, add: Sequence[str] = ()) -> Body:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": read_only_root,
        "capabilities": {"drop": ["ALL"]} | ({"add": list(add)} if add else {}),
    }


def _pull_policy(options: KubernetesOptions) -> str:
    return "IfNotPresent" if options.pull else "Never"


def _resources(options: KubernetesOptions, most: Resources) -> Body:
    """Limits as given; what a node must have free for it is less, and never more than the limit."""
    limits, requests = {}, {}
    cpus = options.requested_cpus if most.cpus is None else min(options.requested_cpus, most.cpus)
    requests["cpu"] = f"{round(cpus * 1000)}m"
    if most.cpus is not None:
        limits["cpu"] = f"{round(most.cpus * 1000)}m"
    memory = options.requested_memory if most.memory_bytes is None else min(options.requested_memory, most.memory_bytes)
    requests["memory"] = str(memory)
    if most.memory_bytes is not None:
        limits["memory"] = str(most.memory_bytes)
    return {"requests": requests, "limits": limits}
