"""What the settings of the backend `k8s` mean to its driver."""

from pathlib import Path

import pytest

from codehub.config import Settings
from codehub.drivers.base import Resources
from codehub.drivers.docker import WorkspaceImage
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.load import kubernetes_options, open_drivers
from codehub.errors import SettingsError
from codehub.model.workspace import Incarnation
from tests.drivers_kubernetes.test_manifests import OP, WORKSPACE


def settings(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Settings:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings.load()


def test_every_setting_reaches_the_manifests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = settings(
        monkeypatch,
        CODEHUB_BACKENDS="k8s",
        CODEHUB_INSTALLATION="one",
        ARCHIVE_URL="s3://bucket",
        K8S_HOME_SIZE="20GiB",
        K8S_STORAGE_CLASS="fast",
        K8S_ACCESS_MODE="ReadWriteOncePod",
        K8S_REQUEST_MEMORY="1GiB",
        K8S_REQUEST_CPUS="0.5",
        K8S_NODE_SELECTOR="pool=workspaces,kubernetes.io/arch=amd64",
        K8S_TOLERATIONS="only=workspaces:NoSchedule,spot",
        K8S_PULL_SECRETS="registry",
        K8S_PULL="false",
        K8S_CONTROL_NAMESPACE="codehub",
        K8S_STORE_PODS="app=minio,tier=store",
    )
    options = kubernetes_options(given, tmp_path)
    claim = m.claim(options, WORKSPACE, Incarnation("i"))["spec"]
    assert claim == {
        "accessModes": ["ReadWriteOncePod"],
        "resources": {"requests": {"storage": str(20 << 30)}},
        "storageClassName": "fast",
    }
    pod = m.workspace_pod(
        options, WORKSPACE, "v", op_id=OP, image=WorkspaceImage("i"), gate="g", resources=Resources(), make_owner=False
    )["spec"]
    assert (options.control_namespace, options.store_pods) == ("codehub", {"app": "minio", "tier": "store"})
    assert pod["nodeSelector"] == {"pool": "workspaces", "kubernetes.io/arch": "amd64"}
    assert pod["tolerations"] == [
        {"key": "only", "operator": "Equal", "value": "workspaces", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["imagePullPolicy"] == "Never"
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": str(1 << 30)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CODEHUB_BACKENDS", "k9s"),
        ("K8S_NAMESPACE", "Not A Name"),
        ("K8S_HOME_SIZE", "1"),
        ("K8S_NODE_SELECTOR", "pool"),
        ("K8S_TOLERATIONS", "a=b:Never"),
        ("K8S_PULL_SECRETS", "A!"),
        ("K8S_CONTROL_NAMESPACE", "Not A Name"),
        ("K8S_STORE_PODS", "minio"),
        ("K8S_ACCESS_MODE", "ReadOnlyMany"),
        ("K8S_ALLOW", "10.0.0.1/8"),
    ],
)
def test_a_mistake_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(monkeypatch, **{name: value})
    [line] = str(caught.value).splitlines()
    assert line.startswith(f"{name}=")


async def test_a_folder_is_no_store_for_pods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = settings(monkeypatch, CODEHUB_BACKENDS="k8s", K8S_KUBECONFIG=str(tmp_path / "absent"))
    with pytest.raises(SettingsError, match="needs a bucket"):
        async with open_drivers(given, tmp_path):
            pass


async def test_a_cluster_that_is_not_named_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent")
    given = settings(monkeypatch, CODEHUB_BACKENDS="k8s", K8S_KUBECONFIG=absent, ARCHIVE_URL="s3://bucket")
    with pytest.raises(SettingsError, match=f"K8S_KUBECONFIG={absent}: cannot be read"):
        async with open_drivers(given, tmp_path):
            pass
