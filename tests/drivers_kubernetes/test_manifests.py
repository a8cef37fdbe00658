"""What is asked of the cluster, byte by byte: the files in golden/. A change there changes what workspaces may do.

`python -m tests.drivers_kubernetes.test_manifests` writes the files anew.
"""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from codehub.drivers.base import Resources
from codehub.drivers.docker import Outbound, WorkspaceImage
from codehub.drivers.docker.firewall import METADATA
from codehub.drivers.kubernetes import KubernetesOptions, policies
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.options import Toleration
from codehub.model.workspace import Incarnation, OpId, WorkspaceId

GOLDEN = Path(__file__).with_name("golden")
WORKSPACE, OP = WorkspaceId(UUID(int=1)), OpId(UUID(int=2))
IMAGE = WorkspaceImage("codehub/workspace:1")


def options(**more: Any) -> KubernetesOptions:
    given: dict[str, Any] = {
        "installation": "one",
        "images": {"code-server": IMAGE},
        "job_image": "codehub/storage-job:1",
    }
    return KubernetesOptions(**(given | more))


def workspace(
    given: KubernetesOptions, resources: Resources, *, make_owner: bool = False, safe_mode: bool = False
) -> m.Body:
    return m.workspace_pod(
        given,
        WORKSPACE,
        "volume-uid",
        op_id=OP,
        image=IMAGE,
        gate="ws-gate",
        resources=resources,
        make_owner=make_owner,
        safe_mode=safe_mode,
    )


def made(pod: m.Body) -> m.Body:
    return pod | {"metadata": pod["metadata"] | {"uid": "pod-uid"}}


PLACED = options(
    storage_class="fast",
    access_mode="ReadWriteOncePod",
    node_selector={"pool": "workspaces"},
    tolerations=(Toleration("only", "workspaces", "NoSchedule"), Toleration("spot")),
    pull_secrets=("registry",),
    pull=False,
    requested_memory=8 << 30,
)
JOB = m.job_pod(options(), WORKSPACE, "volume-uid", op_id=OP, gate="ws-gate")
INSIDE = options(namespace="codehub-workspaces", control_namespace="codehub")
NEAR = policies.store_rules(options(), "10.0.0.9", 9000, ["10.0.0.9"])
CASES: dict[str, object] = {
    "claim": m.claim(options(), WORKSPACE, Incarnation("incarnation")),
    "claim-placed": m.claim(PLACED, WORKSPACE, Incarnation("incarnation")),
    "workspace": workspace(options(), Resources()),
    "workspace-first": workspace(options(), Resources(), make_owner=True),
    "workspace-placed": workspace(PLACED, Resources(None, 4 << 30, None)),
    "workspace-unlimited": workspace(options(), Resources(None, None, None)),
    "job": JOB,
    "gate": m.gate(made(workspace(options(), Resources()))),
    "gate-job": m.gate(made(JOB), b'{"verb": "archive"}'),
    "probe": m.probe_pod(options(), "probe-1", m.PROBE, ["true"]),
    "policies": policies.policies(INSIDE, "10.96.0.1", NEAR),
    "policies-closed": policies.policies(
        options(outbound=Outbound.NONE), "10.96.0.1", policies.store_rules(options(), None, 443, ())
    ),
    "policies-but": policies.policies(
        options(allow=("10.1.0.0/16", "169.254.0.0/15"), deny=("203.0.113.0/24",), callers=("192.0.2.0/24",)),
        "8.8.4.4",
        policies.store_rules(INSIDE, "minio.storage.svc", 9000, ["10.96.7.7"]),
    ),
}


def text_of(case: object) -> str:
    return json.dumps(case, indent=1) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_exactly_this_is_asked_for(name: str) -> None:
    assert (GOLDEN / f"{name}.json").read_text() == text_of(CASES[name])


def test_there_is_no_other_file() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(CASES)


def test_names_fit() -> None:
    for case in (CASES["claim"], CASES["workspace"], JOB):
        assert isinstance(case, dict)
        assert len(case["metadata"]["name"]) <= 63
        assert all(len(value) <= 63 for value in case["metadata"]["labels"].values())


def test_metadata_is_never_allowed() -> None:
    [_, _, allowed] = policies.policies(options(allow=("0.0.0.0/0",)), "x", [])[0]["spec"]["egress"]
    assert set(METADATA) <= set(allowed["to"][0]["ipBlock"]["except"])


if __name__ == "__main__":
    for name, case in CASES.items():
        (GOLDEN / f"{name}.json").write_text(text_of(case))


def test_in_safe_mode_the_home_is_in_its_place_and_its_settings_are_not_found() -> None:
    pods = [workspace(options(), Resources(), safe_mode=each) for each in (False, True)]
    usual, safe = (pod["spec"]["containers"][0].pop("env") for pod in pods)
    assert {"name": "HOME", "value": "/tmp"} in safe
    assert {"name": "CODEHUB_SAFE_MODE", "value": m.HOME} in safe
    assert {"name": "HOME", "value": m.HOME} in usual
    assert pods[0] == pods[1]
