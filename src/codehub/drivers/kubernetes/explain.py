"""What a pod waits for, or why it ended, in plain words. Pure. Kubernetes' own words go no further than this."""

from collections.abc import Mapping, Sequence
from typing import Any

from codehub.errors import ActionFailed, DriverError, Unreachable

Json = Mapping[str, Any]

_IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ErrImageInspect")
_FAILED_REASONS = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "ContainerCannotRun",
    "StartError",
)
_NODE_IS_LOW = "node was low on resource"
# A node that shuts down, makes room for something more important, or does not have what it was thought to have.
_NODE_REASONS = (
    *("NodeShutdown", "Shutdown", "Terminated", "Preempting", "NodeLost"),
    *("OutOfcpu", "OutOfmemory", "OutOfpods"),
)


def containers(pod: Json) -> Sequence[Json]:
    """What is known of each, those that prepare included."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def image_trouble(pod: Json) -> tuple[str, str] | None:
    """The image that cannot be had, and what the node says about it."""
    for container in containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _IMAGE_REASONS:
            return str(container.get("image", "")), str(waiting.get("message") or waiting["reason"])
    return None


def explain(pod: Json) -> str:
    """One sentence or two."""
    meta, status = pod.get("metadata") or {}, pod.get("status") or {}
    node = (pod.get("spec") or {}).get("nodeName", "")
    if cause := _ended_against_its_will(status, pod):
        return cause
    if meta.get("deletionTimestamp"):
        return f"It is being removed{_from(node)}; a node that does not answer holds this up."
    if status.get("phase") in ("Failed", "Succeeded"):
        return _ended(status, pod)
    image = image_trouble(pod)
    if image is not None:
        return f"The image {image[0]} cannot be had: {image[1]}."
    for container in containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _FAILED_REASONS:
            return f"Node {node} cannot start it: {waiting.get('message') or waiting['reason']}."
    return _unscheduled(status) or _on_node(status, node)


def is_nodes_doing(pod: Json) -> bool:
    """Whether the node or the cluster ended it for its own sake: not for what it did itself, as filling its /tmp."""
    status = pod.get("status") or {}
    if status.get("reason") == "Evicted":
        return _NODE_IS_LOW in str(status.get("message", ""))
    return status.get("phase") == "Failed" and (status.get("reason") in _NODE_REASONS or _is_disrupted(status))


def _is_disrupted(status: Json) -> bool:
    """Preempted, drained, or on a node that was lost: the cluster says so since Kubernetes 1.26."""
    conditions = status.get("conditions") or ()
    return any(one.get("type") == "DisruptionTarget" and one.get("status") == "True" for one in conditions)


def not_taken(what: str, message: str) -> DriverError:
    """The error for an object that the cluster did not take. A used-up quota is an outage: it has room later."""
    kind = Unreachable if _is_over_quota(message) else ActionFailed
    return kind(f"{what} {refusal(message)}")


def _is_over_quota(message: str) -> bool:
    return "exceeded quota" in message


def refusal(message: str) -> str:
    """Why the cluster did not take an object."""
    if _is_over_quota(message):
        return f"The namespace's quota is used up: {message.rpartition('exceeded quota:')[2].strip()}."
    if "PodSecurity" in message or "podsecurity" in message.lower():
        return f"The namespace's security rules do not allow it: {message}."
    return f"The cluster does not take it: {message}."


def _ended_against_its_will(status: Json, pod: Json) -> str | None:
    """What a node did to it; said also while it is being removed, for there is no later."""
    if status.get("reason") == "Evicted":
        return f"The node ended it to save itself: {status.get('message', 'no reason given')}"
    for container in containers(pod):
        end = (container.get("state") or {}).get("terminated") or {}
        if end.get("reason") == "OOMKilled":
            return f"It used more memory than it may{_limit(pod, container.get('name'))}, and was ended."
    return None


def _ended(status: Json, pod: Json) -> str:
    for container in containers(pod):
        end = (container.get("state") or {}).get("terminated") or {}
        if end and end.get("exitCode"):
            detail = f": {end['message']}" if end.get("message") else ""
            return f"It ended with code {end['exitCode']}{detail}."
    if status.get("message"):
        return f"The node ended it: {status['message']}"
    return "It ended by itself."


def _limit(pod: Json, name: object) -> str:
    for container in (pod.get("spec") or {}).get("containers") or ():
        memory = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if container.get("name") == name and memory:
            return f" ({_megabytes(str(memory))})"
    return ""


def _megabytes(memory: str) -> str:
    return f"{int(memory) >> 20} MiB" if memory.isdigit() else f"{memory}B" if memory.endswith("i") else memory


def is_unscheduled(pod: Json) -> bool:
    """Whether no node takes it now, for want of room or of its home."""
    return _unscheduled(pod.get("status") or {}) is not None


def _unscheduled(status: Json) -> str | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") != "PodScheduled" or condition.get("status") != "False":
            continue
        message = str(condition.get("message", ""))
        if "PersistentVolumeClaim" in message or "persistentvolumeclaim" in message:
            return f"The cluster has not provided its home volume yet: {message}"
        if "Insufficient" in message:
            return f"No node has room for it: {message}"
        return f"No node can take it: {message}"
    return None


def _on_node(status: Json, node: str) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("reason") in ("NodeLost", "NodeStatusUnknown"):
            return f"Node {node} does not answer."
    if status.get("phase") == "Running":
        return "It runs, and does not answer on its port."
    return f"Node {node} is setting it up." if node else "It waits for a node."


def _from(node: str) -> str:
    return f" from node {node}" if node else ""
