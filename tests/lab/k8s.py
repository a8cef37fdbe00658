"""The Kubernetes cluster that tests use, and the images in it: see k8s.sh beside this file.

Its tests run where they are asked for, and nowhere else: `k8s` among the words of `CODEHUB_REQUIRE`, as in
`make test-k8s`. A cluster that happens to be up is no reason: they take half an hour, and some must run alone. Where
they are asked for a cluster is brought up if need be, and images that are older than the tree are loaded anew.
"""

import asyncio
import functools
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from codehub.drivers.docker import WorkspaceImage
from codehub.drivers.kubernetes import KubernetesOptions
from codehub.drivers.kubernetes.options import Patience
from tests.lab.wire import Wire
from tests.support import eventually, skip

SCRIPT = Path(__file__).with_name("k8s.sh")
NODE = "node0"


@dataclass(frozen=True)
class Lab:
    """One cluster, with direct access to it: what tests do behind the driver's back."""

    kubeconfig: Path
    kubectl: Path
    workspace_image: str
    job_image: str

    def options(self, **more: Any) -> KubernetesOptions:
        """Settings of a driver; by default of an installation that nobody else has."""
        given: dict[str, Any] = {
            "installation": f"test-{os.getpid()}-{uuid4().hex[:8]}",
            "kubeconfig": self.kubeconfig,
            "images": {"quick": WorkspaceImage(self.workspace_image), "missing": WorkspaceImage("codehub/absent:1")},
            "job_image": self.job_image,
            "home_bytes": 1 << 30,
            "requested_memory": 64 << 20,
            "pull": False,
            "require_isolation": False,  # the lab's network is a plain bridge
            "patience": Patience(pending=60.0, ready=30.0),
        }
        return KubernetesOptions(**(given | more))

    def run(
        self, *words: str, given: str | None = None, check: bool = True, errors: bool = False, seconds: float = 120.0
    ) -> str:
        """What kubectl prints; `errors`: also of what went wrong."""
        command = [str(self.kubectl), f"--kubeconfig={self.kubeconfig}", *words]
        done = subprocess.run(command, check=False, capture_output=True, text=True, input=given, timeout=seconds)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout + (done.stderr if errors else "")

    def get(self, namespace: str, kind: str, name: str = "") -> Any:
        """An object, or None; without a name all of them."""
        text = self.run("get", kind, *([name] if name else []), "-n", namespace, "-o", "json", "--ignore-not-found")
        found = json.loads(text) if text else {}
        return (found or None) if name else found.get("items", [])

    def kill_container(self, container_id: str) -> None:
        """SIGKILL to its first process, past Kubernetes."""
        command = [self.kubectl.with_name("ctr"), "-a", self.kubeconfig.with_name("containerd.sock"), "-n", "k8s.io"]
        words = ["tasks", "kill", "-s", "KILL", container_id.removeprefix("containerd://")]
        subprocess.run([*map(str, command), *words], check=True, capture_output=True, timeout=60)

    def home(self, namespace: str, claim: str) -> Path:
        """The folder that is the volume of a claim."""
        volume = self.get(namespace, "pvc", claim)["spec"]["volumeName"]
        return Path(json.loads(self.run("get", "pv", volume, "-o", "json"))["spec"]["hostPath"]["path"])

    def part(self, verb: str, name: str) -> None:
        """`start` or `kill` one part of the cluster."""
        subprocess.run([str(SCRIPT), verb, name], check=True, timeout=120, stdout=subprocess.DEVNULL)

    def spare_memory(self, least: str) -> None:
        """The kubelet, started again, ends pods while less than this is free: 99% is always."""
        settings = self.kubeconfig.with_name("kubelet.yaml")
        settings.write_text(re.sub(r"memory\.available: [^,]+", f"memory.available: {least}", settings.read_text()))
        self.part("kill", "kubelet")
        self.part("start", "kubelet")

    @contextmanager
    def namespace(self) -> Iterator[str]:
        """One that nobody else has, and at the end nothing left of it."""
        name = f"test-{os.getpid()}-{uuid4().hex[:8]}"
        self.run("create", "namespace", name)
        try:
            eventually(lambda: self.get(name, "serviceaccount", "default") is not None, "its service account")
            yield name
        finally:
            self.run("delete", "pods", "--all", "-n", name, "--grace-period=0", "--force", "--wait=false", check=False)
            self.run("delete", "namespace", name, "--wait=false", check=False)


class ServerWire(Wire):
    """Leads to the API server: a cluster that is out, or slow."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        super().__init__(lambda: asyncio.open_connection("127.0.0.1", 16443))
        self._lab = lab
        self._folder = folder

    @property
    def kubeconfig(self) -> Path:
        path = self._folder / "kubeconfig"
        text = self._lab.kubeconfig.read_text()
        path.write_text(text.replace("https://127.0.0.1:16443", f"https://127.0.0.1:{self.port}"))
        return path


def lab() -> Lab:
    """The cluster of this machine; skips the test where none is asked for, and fails it where none can be had."""
    if not is_asked_for():
        skip("a Kubernetes cluster", "make test-k8s")
    return the_cluster()


def is_asked_for() -> bool:
    return "k8s" in os.environ.get("CODEHUB_REQUIRE", "").split(",")


@functools.cache
def the_cluster() -> Lab:
    """The one of this machine, brought up if it is not."""
    code, told = _script("env")
    if code:
        code, told = _script("up")
    assert not code, "there is no cluster: tests/lab/k8s.sh up says why"
    return Lab(
        kubeconfig=Path(told["CODEHUB_TEST_KUBECONFIG"]),
        kubectl=Path(told["CODEHUB_TEST_KUBECTL"]),
        workspace_image=told["CODEHUB_TEST_WORKSPACE_IMAGE"],
        job_image=told["CODEHUB_TEST_JOB_IMAGE"],
    )


def _script(verb: str) -> tuple[int, Mapping[str, str]]:
    done = subprocess.run([str(SCRIPT), verb], check=False, stdout=subprocess.PIPE, text=True, timeout=3600)
    return done.returncode, dict(line.split("=", 1) for line in done.stdout.splitlines())
