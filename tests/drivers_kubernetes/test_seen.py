"""How the cluster's objects are read, and what people are told about them."""

from typing import Any
from uuid import UUID

import pytest

from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes import seen
from codehub.drivers.kubernetes.explain import explain, image_trouble, refusal
from codehub.drivers.kubernetes.pods import Cooling
from codehub.model.observation import JobSeen, JobState, Life
from codehub.model.workspace import ErrorReason, OpId, WorkspaceId

WORKSPACE, OP = WorkspaceId(UUID(int=1)), OpId(UUID(int=2))


def pod(status: dict[str, Any], *, role: str = m.INSTANCE, uid: str = "u", **meta: Any) -> seen.Pod:
    name = f"ws-{WORKSPACE}" if role == m.INSTANCE else f"ws-job-{OP}"
    labels = {m.INSTALLATION: "one", m.WORKSPACE: str(WORKSPACE), m.ROLE: role, m.OP: str(OP)}
    found = seen.pod_of(
        {
            "metadata": {
                "name": name,
                "uid": uid,
                "labels": labels,
                "annotations": {m.PORT: "8080", m.GATE: "g", m.VOLUME_UID: "v"},
                "creationTimestamp": "2026-01-01T00:00:00Z",
                **meta,
            },
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": role, "resources": {"limits": {"memory": str(512 << 20)}}}],
            },
            "status": status,
        },
        "one",
    )
    assert found is not None
    return found


def ended(reason: str, code: int, phase: str = "Failed") -> dict[str, Any]:
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return {"phase": phase, "containerStatuses": [{"name": m.INSTANCE, "state": state}]}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"phase": "Pending", "containerStatuses": [{"name": "c", "image": "i:1", "state": state}]}


def unscheduled(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


READY = {"phase": "Running", "podIP": "10.0.0.2", "conditions": [{"type": "Ready", "status": "True"}]}
NOT_READY = {"phase": "Running", "podIP": "10.0.0.2", "conditions": [{"type": "Ready", "status": "False"}]}


@pytest.mark.parametrize(
    ("status", "meta", "life", "endpoint"),
    [
        (READY, {}, Life.READY, "10.0.0.2:8080"),
        (NOT_READY, {}, Life.ALIVE, "10.0.0.2:8080"),
        ({"phase": "Pending"}, {}, Life.ALIVE, None),
        ({}, {}, Life.ALIVE, None),
        (READY, {"deletionTimestamp": "x"}, Life.DEAD, None),
        (ended("Error", 1), {}, Life.DEAD, None),
        (ended("Completed", 0, "Succeeded"), {}, Life.DEAD, None),
    ],
)
def test_how_alive_it_is(status: dict[str, Any], meta: dict[str, str], life: Life, endpoint: str | None) -> None:
    found = seen.instance_seen(pod(status, **meta))
    assert (found.life, found.endpoint, found.op_id) == (life, endpoint, OP)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ended("OOMKilled", 137), "more memory than it may (512 MiB)"),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, "to save itself: low on memory"),
        (ended("Error", 7), "ended with code 7"),
        (unscheduled("0/3 nodes are available: 3 Insufficient cpu."), "No node has room"),
        (unscheduled("node(s) had taints that the pod didn't tolerate."), "No node can take it"),
        (unscheduled("pod has unbound immediate PersistentVolumeClaims."), "not provided its home volume"),
        (waiting("ImagePullBackOff", "no such tag"), "The image i:1 cannot be had: no such tag"),
        (waiting("CreateContainerError", "bad mount"), "Node n1 cannot start it: bad mount"),
        (waiting("ContainerCreating"), "Node n1 is setting it up"),
        (NOT_READY, "does not answer on its port"),
        (
            {"phase": "Running", "conditions": [{"type": "Ready", "status": "False", "reason": "NodeStatusUnknown"}]},
            "Node n1 does not answer",
        ),
    ],
)
def test_what_people_are_told(status: dict[str, Any], words: str) -> None:
    assert words in explain(pod(status).object)


EVICTED = {"phase": "Failed", "reason": "Evicted"}


def disrupted(reason: str, status: str = "True") -> dict[str, Any]:
    """As the cluster leaves a pod that it ended with SIGTERM."""
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason, "message": "preempted"}
    return ended("Error", 143) | {"conditions": [condition]}


@pytest.mark.parametrize(
    ("status", "is_its"),
    [
        (EVICTED | {"message": "The node was low on resource: memory. Container workspace was using 9Mi."}, True),
        (EVICTED | {"message": 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". '}, False),
        ({"phase": "Failed", "reason": "NodeShutdown"}, True),
        (disrupted("PreemptionByScheduler"), True),
        (disrupted("DeletionByPodGC"), True),
        (disrupted("EvictionByEvictionAPI", status="False"), False),
        (ended("OOMKilled", 137), False),
        (ended("Error", 1), False),
    ],
)
def test_whose_fault_an_end_was(status: dict[str, Any], is_its: bool) -> None:
    assert seen.instance_seen(pod(status)).blameless is is_its


def test_why_it_was_ended_is_said_while_it_is_removed_too() -> None:
    assert "more memory" in explain(pod(ended("OOMKilled", 137), deletionTimestamp="x").object)
    assert "being removed" in explain(pod(ended("Error", 143), deletionTimestamp="x").object)


def test_a_quota_is_explained() -> None:
    message = 'pods "x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'
    assert "quota is used up: few, requested: pods=1" in refusal(message)


def test_image_trouble_is_found_in_what_prepares_too() -> None:
    status = {"phase": "Pending", "initContainerStatuses": waiting("ErrImagePull", "no")["containerStatuses"]}
    assert image_trouble(pod(status).object) == ("i:1", "no")
    assert image_trouble(pod(READY).object) is None


@pytest.mark.parametrize(
    "change",
    [
        {"labels": {}},
        {"labels": {m.INSTALLATION: "other", m.WORKSPACE: str(WORKSPACE), m.ROLE: m.INSTANCE}},
        {"labels": {m.INSTALLATION: "one", m.WORKSPACE: "x", m.ROLE: m.INSTANCE}},
        {"name": "another-name"},
    ],
)
def test_what_is_not_ours_is_left_out(change: dict[str, Any]) -> None:
    ours = pod(READY).object
    assert seen.pods_of([{**ours, "metadata": {**ours["metadata"], **change}}], "one") == []


def job(status: dict[str, Any], log: str = "", waited: float = 1.0) -> JobSeen:
    return seen.job_seen(pod(status, role=m.JOB), log, waited, 60.0)


def test_jobs() -> None:
    done = '2026-01-01T00:00:01.5Z {"state": "done", "bytes_done": 5, "restore_marker": "k"}'
    found = job(ended("Completed", 0, "Succeeded"), done)
    assert (found.state, found.bytes_done, found.restore_marker, found.volume_uid) == (JobState.SUCCEEDED, 5, "k", "v")
    assert job(ended("Error", 20), '2026-01-01T00:00:01Z {"state": "failed", "message": "m"}').error is (
        ErrorReason.ARCHIVE_CORRUPTED
    )
    assert "more memory" in job(ended("OOMKilled", 137)).message
    assert job({"phase": "Running"}).state is JobState.RUNNING
    assert job({"phase": "Pending"}).state is JobState.RUNNING
    assert job({"phase": "Pending"}, waited=61.0).state is JobState.FAILED


DENIED = 'failed to pull "i:1": pull access denied, repository does not exist'


@pytest.mark.parametrize(
    ("status", "waited", "state", "error"),
    [
        (waiting("ErrImagePull", "dial tcp: i/o timeout"), 1.0, JobState.FAILED, ErrorReason.UNREACHABLE),
        (waiting("ErrImagePull", "503 Service Unavailable"), 61.0, JobState.FAILED, ErrorReason.UNREACHABLE),
        (waiting("ErrImagePull", DENIED), 1.0, JobState.FAILED, ErrorReason.ACTION_FAILED),
        (waiting("ErrImageNeverPull", "no"), 1.0, JobState.FAILED, ErrorReason.ACTION_FAILED),
        (waiting("ImagePullBackOff", 'Back-off pulling image "i:1"'), 1.0, JobState.RUNNING, None),
        (unscheduled("0/3 nodes are available: 3 Insufficient cpu."), 1.0, JobState.RUNNING, None),
        (unscheduled("0/3 nodes are available: 3 Insufficient cpu."), 61.0, JobState.FAILED, ErrorReason.UNREACHABLE),
        (waiting("CreateContainerError", "bad mount"), 61.0, JobState.FAILED, ErrorReason.ACTION_FAILED),
    ],
)
def test_a_job_that_waits_for_the_registry_or_for_room_did_not_fail(
    status: dict[str, Any], waited: float, state: JobState, error: ErrorReason | None
) -> None:
    found = job(status, waited=waited)
    assert found.state is state
    assert error is None or found.error is error
    assert bool(found.message) is (state is JobState.FAILED)


@pytest.mark.parametrize(
    "status",
    [
        EVICTED | {"message": "The node was low on resource: ephemeral-storage."},
        {"phase": "Failed", "reason": "NodeShutdown", "message": "Pod was terminated in response to shutdown."},
        {"phase": "Failed", "reason": "NodeLost"},
        disrupted("PreemptionByScheduler"),
        disrupted("DeletionByTaintManager"),
        disrupted("DeletionByPodGC"),
    ],
)
def test_a_job_that_the_cluster_ended_did_not_fail(status: dict[str, Any]) -> None:
    found = job(status, '2026-01-01T00:00:01Z {"state": "failed", "message": "It was told to stop."}')
    assert (found.state, found.error) == (JobState.FAILED, ErrorReason.UNREACHABLE)
    assert "The cluster ended the job" in found.message


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (ended("Error", 1), ErrorReason.ACTION_FAILED),
        (ended("OOMKilled", 137), ErrorReason.ACTION_FAILED),
        (EVICTED | {"message": 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". '}, ErrorReason.ACTION_FAILED),
        (ended("Error", 20) | {"reason": "NodeShutdown"}, ErrorReason.ARCHIVE_CORRUPTED),
    ],
)
def test_a_job_that_failed_by_itself_did(status: dict[str, Any], error: ErrorReason) -> None:
    assert job(status).error is error


def test_a_job_that_was_done_before_its_node_went_is_done() -> None:
    done = '2026-01-01T00:00:01.5Z {"state": "done", "bytes_done": 5}'
    status = ended("Completed", 0) | {"reason": "NodeShutdown"}
    assert job(status, done).state is JobState.SUCCEEDED


@pytest.mark.parametrize(("mark", "whole"), [("u", True), ("another", False), ("true", False), (None, False)])
def test_a_claim_that_was_copied_with_its_annotations_is_not_whole(mark: str | None, whole: bool) -> None:
    """A mark is about one making of the volume: who restores a claim's manifest gets an empty volume."""
    identity = WorkspaceId(UUID(int=7))
    annotations = {m.INCARNATION: "i"} | ({m.WHOLE: mark} if mark is not None else {})
    meta = {"name": f"ws-{identity}-home", "uid": "u", "labels": {m.WORKSPACE: str(identity)}}
    assert seen.volume_of({"metadata": {**meta, "annotations": annotations}}).whole == whole


def test_an_address_is_warm_for_a_while() -> None:
    now = 0.0
    cooling = Cooling(60.0, clock=lambda: now)
    first, second = pod(READY, uid="first"), pod(READY, uid="second")
    cooling.note([first])
    assert not cooling.is_warm(first)
    assert cooling.is_warm(second)
    cooling.note([second])  # it does not become its own by being looked at
    assert cooling.is_warm(second)
    now = 61.0
    assert not cooling.is_warm(second)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("250m", 0.25),
        ("1", 1),
        ("12345678n", 0.012345678),
        ("2Ki", 2048),
        ("1.5Gi", 1.5 * 2**30),
        ("3M", 3e6),
        ("x", None),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(text: str, value: float | None) -> None:
    assert seen.quantity_of(text) == (None if value is None else pytest.approx(value))


def test_what_the_metrics_api_says_is_read() -> None:
    measured = dict(pod({}).object) | {
        "containers": [{"usage": {"cpu": "250m", "memory": "100Mi"}}, {"usage": {"cpu": "1", "memory": "28Mi"}}]
    }
    unread = dict(pod({}).object) | {"containers": []}
    (usage,) = seen.usage_of([measured], "one").values()
    assert (usage.cpus, usage.memory_bytes) == (1.25, 128 << 20)
    assert seen.usage_of([measured], "another") == {}
    assert seen.usage_of([unread], "one")[WORKSPACE].memory_bytes is None
