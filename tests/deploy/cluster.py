"""overlays/trial on the lab's cluster, as a person installs it; what the lab has not is put right by an overlay on top.

That is: names (there is no name server in it, so services have fixed addresses and pods a list of them), volumes that
another user than root may write to, room on a node of two processors, and a server of 1.20.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.manifests import KUBERNETES, ROOT, Body, rendered
from tests.lab.docker import SCRIPT
from tests.lab.k8s import Lab
from tests.support import eventually, skip

NAMESPACES = ("codehub", "codehub-workspaces")
PARTS = ("codehub-api", "codehub-proxy", "codehub-coordinator")
_ADDRESSES = {name: f"10.96.213.{10 + n}" for n, name in enumerate(("codehub-api", "postgres", "valkey", "s3"))}
_BUILD_SECONDS = 1800
_START_SECONDS = 180


@dataclass(frozen=True)
class Images:
    codehub: str
    servers: str


def images() -> Images:
    """Of this tree; making them takes a minute or two."""
    told = _script("compose")
    return Images(told["CODEHUB_TEST_IMAGE"], told["CODEHUB_TEST_SERVERS_IMAGE"])


def _script(verb: str) -> dict[str, str]:
    command = [str(SCRIPT), verb]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, timeout=_BUILD_SECONDS)
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def load(lab: Lab, name: str) -> None:
    """From the lab's engine into the cluster, unless it is there."""
    ctr = [str(lab.kubectl.with_name("ctr")), "-a", str(lab.kubeconfig.with_name("containerd.sock")), "-n", "k8s.io"]
    there = subprocess.run([*ctr, "images", "ls", "-q"], check=True, capture_output=True, text=True, timeout=60).stdout
    if f"docker.io/{name}" in there.splitlines():
        return
    with subprocess.Popen(["docker", "--host", _script("env")["DOCKER_HOST"], "save", name], stdout=-1) as saving:
        subprocess.run(
            [*ctr, "images", "import", "-"], stdin=saving.stdout, check=True, capture_output=True, timeout=600
        )
    assert saving.returncode == 0


def overlay(folder: Path, lab: Lab, with_images: Images) -> Path:
    """A kustomization of the lab's own."""
    names = [f"{name}{more}" for name in _ADDRESSES for more in ("", ".codehub.svc")]
    aliases = [{"ip": _ADDRESSES[name.partition(".")[0]], "hostnames": [name]} for name in names]
    little: Body = {"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests/cpu", "value": "10m"}
    unpersistent: list[Body] = [
        {"op": "remove", "path": "/spec/volumeClaimTemplates"},
        {"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "data", "emptyDir": {}}},
        little,
    ]
    old = [{"op": "replace", "path": "/apiVersion", "value": "policy/v1beta1"}]
    named: list[Body] = [{"op": "add", "path": "/spec/template/spec/hostAliases", "value": aliases}, little]
    patches = [_patch({"kind": "StatefulSet"}, unpersistent), _patch({"kind": "PodDisruptionBudget"}, old)]
    patches.append(_patch({"kind": "Deployment"}, named))
    for name, address in _ADDRESSES.items():
        fixed = [{"op": "add", "path": "/spec/clusterIP", "value": address}]
        patches.append(_patch({"kind": "Service", "name": name}, fixed))
    given = {
        "CODEHUB_IMAGES": f"test={lab.workspace_image}",
        "K8S_JOB_IMAGE": with_images.codehub,
        "K8S_PULL": "false",
        "K8S_REQUIRE_ISOLATION": "false",  # the lab's network is a plain bridge
        "K8S_HOME_SIZE": "1GiB",
        "K8S_REQUEST_MEMORY": "64MiB",
        "WORKSPACE_MEMORY": "256MiB",
        "S3_ENDPOINT": f"http://{_ADDRESSES['s3']}:8333",
    }
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(KUBERNETES / "overlays" / "trial", folder.resolve())],
        "images": [
            _image("codehub/codehub", with_images.codehub),
            *(_image(name, with_images.servers) for name in ("postgres", "valkey/valkey", "chrislusf/seaweedfs")),
        ],
        "configMapGenerator": [
            {
                "name": "codehub",
                "namespace": "codehub",
                "behavior": "merge",
                "literals": [f"{name}={value}" for name, value in given.items()],
            }
        ],
        "patches": patches,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return folder


def _image(name: str, instead: str) -> Body:
    new, _, tag = instead.rpartition(":")
    return {"name": name, "newName": new, "newTag": tag}


def _patch(target: Body, operations: list[Body]) -> Body:
    return {"target": target, "patch": yaml.safe_dump(operations)}


@dataclass(frozen=True)
class Installed:
    lab: Lab
    url: str  # of the proxies' Service
    password: str

    def run(self, *words: str) -> str:
        return self.lab.run("-n", "codehub", *words)

    def settled(self) -> None:
        """Until every part is as wanted."""
        for part in PARTS:
            words = ("rollout", "status", f"deployment/{part}", f"--timeout={_START_SECONDS}s")
            self.lab.run("-n", "codehub", *words, seconds=_START_SECONDS + 30)

    def pods(self) -> list[dict[str, Any]]:
        return [one for one in self.lab.get("codehub", "pods") if "deletionTimestamp" not in one["metadata"]]


@contextmanager
def installed(lab: Lab, folder: Path) -> Iterator[Installed]:
    """As docs/kubernetes.md says it is done; afterwards both namespaces are gone."""
    with_images = images()
    for name in (with_images.codehub, with_images.servers):
        load(lab, name)
    if any(lab.run("get", "namespace", name, "--ignore-not-found") for name in NAMESPACES):
        skip("a cluster without a namespace codehub", "kubectl delete namespace codehub")
    secrets = folder / "secrets"
    subprocess.run([str(ROOT / "deploy" / "compose" / "prepare"), str(secrets)], check=True, capture_output=True)
    (folder / "overlay").mkdir()
    bodies = rendered(overlay(folder / "overlay", lab, with_images))
    try:
        lab.run("apply", "-f", str(KUBERNETES / "base" / "namespaces.yaml"))
        lab.run("-n", "codehub", "create", "secret", "generic", "codehub", f"--from-file={secrets}")
        eventually(lambda: bool(lab.get("codehub", "serviceaccount", "default")), "the namespace is usable", 60)
        lab.run("apply", "-f", "-", given=yaml.safe_dump_all(bodies))
        address = lab.get("codehub", "service", "codehub-proxy")["spec"]["clusterIP"]
        here = Installed(lab, f"http://{address}", (secrets / "CODEHUB_ADMIN_PASSWORD").read_text())
        try:
            here.settled()
            yield here
        except BaseException as error:
            told = [here.run("get", "pods", "-o", "wide")]
            for pod in here.pods():
                told.append(f"-- {pod['metadata']['name']}")
                told.append(
                    lab.run(
                        "-n", "codehub", "logs", pod["metadata"]["name"], "--all-containers", "--tail=15", check=False
                    )
                )
            error.add_note("\n".join(told))
            raise
    finally:
        for name in NAMESPACES:
            lab.run("delete", "namespace", name, "--wait=false", check=False)
        eventually(
            lambda: not any(lab.run("get", "namespace", name, "--ignore-not-found") for name in NAMESPACES),
            "nothing is left of it",
            180,
        )
        shutil.rmtree(secrets, ignore_errors=True)
