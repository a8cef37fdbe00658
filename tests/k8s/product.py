"""`codehub up` as a person has it, with pods as workspaces: on this machine, or as a pod of the cluster.

In the pod it is this machine's Python that runs this tree (all of /usr is mounted), on the pod's own network and under
the pod's own service account: nothing is told where the cluster is.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import httpx

from codehub.client import Client
from tests.cli.codehub import running
from tests.contract.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.crash.site import IMAGE
from tests.k8s.account import account
from tests.k8s.place import Pods
from tests.lab.k8s import Lab
from tests.support import eventually

PASSWORD = "correct horse battery"
POD, PORT = "codehub", 8080
TREE = Path(__file__).parents[2]


@dataclass(frozen=True)
class Product:
    """One that runs, and its administrator."""

    url: str
    admin: Client
    namespace: str | None = None  # of the pod that it is

    def becomes(self, workspace: UUID, phase: str, seconds: float = 180.0) -> None:
        def has() -> bool:
            now = self.admin.workspace(workspace)
            assert now.phase != "ERROR", now
            return now.phase == phase and now.operation == "NONE"

        eventually(has, f"it is {phase}", seconds)

    def get(self, workspace: UUID, desired: str) -> None:
        self.admin.set_state(workspace, desired)
        self.becomes(workspace, desired)

    def ask(self, method: str, workspace: UUID, path: str, body: bytes = b"") -> httpx.Response:
        """A request of a logged-in browser's page to a workspace, through the proxy."""
        with httpx.Client(base_url=self.url, timeout=30, trust_env=False) as browser:
            given = {"username": "admin", "password": PASSWORD}
            browser.post("/api/v1/login", json=given).raise_for_status()
            headers = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
            return browser.request(method, f"/w/{workspace}/{path}", content=body, headers=headers)


@contextmanager
def outside(place: Pods, s3: S3Server, folder: Path) -> Iterator[Product]:
    with (
        running(folder / "d", folder / "out", **_settings(place, s3)) as codehub,
        _used(f"http://127.0.0.1:{urlsplit(codehub.url).port}") as product,  # under localhost each has its own origin
    ):
        yield product


@contextmanager
def inside(place: Pods, s3: S3Server) -> Iterator[Product]:
    with account(place.lab, place.namespace) as home:
        settings = _settings(place, s3) | {"CODEHUB_HOST": "0.0.0.0", "CODEHUB_PORT": str(PORT)}
        del settings["K8S_KUBECONFIG"]
        place.lab.run("apply", "-n", home, "-f", "-", given=json.dumps(_pod(place.lab, settings)))
        try:
            with _used(f"http://{_address(place.lab, home)}:{PORT}") as product:
                yield replace(product, namespace=home)
        except BaseException as error:
            error.add_note(place.lab.run("logs", "-n", home, POD, "--tail=50", check=False))
            raise


def _settings(place: Pods, s3: S3Server) -> dict[str, str]:
    return {
        **place.environment,
        "ARCHIVE_URL": s3.url,
        "S3_ENDPOINT": s3.endpoint,
        "S3_ACCESS_KEY_ID": ACCESS_KEY,
        "S3_SECRET_ACCESS_KEY": SECRET_KEY,
        "CODEHUB_ADMIN_PASSWORD": PASSWORD,
    }


@contextmanager
def _used(url: str) -> Iterator[Product]:
    with Client(url) as admin:
        eventually(lambda: _is_ready(url), "it is ready", 180)
        admin.login("admin", PASSWORD)
        yield Product(url, admin)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=10, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _address(lab: Lab, home: str) -> str:
    def runs() -> bool:
        return bool(lab.get(home, "pod", POD)["status"].get("podIP"))

    eventually(runs, "the pod has an address", 60)
    return str(lab.get(home, "pod", POD)["status"]["podIP"])


def _pod(lab: Lab, settings: Mapping[str, str]) -> dict[str, object]:
    data = "/data"
    folders = {Path("/usr"), TREE, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    outermost = sorted(one for one in folders if not any(other in one.parents for other in folders))
    environment = {**settings, "CODEHUB_DATA_DIR": f"{data}/d", "PYTHONDONTWRITEBYTECODE": "1"}
    container = {
        "name": POD,
        "image": lab.job_image,
        "imagePullPolicy": "Never",
        "command": [sys.executable, "-m", "codehub", "up"],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},  # without, a busy node gives it next to nothing
        "volumeMounts": [
            *({"name": f"of-{n}", "mountPath": str(one), "readOnly": True} for n, one in enumerate(outermost)),
            {"name": "data", "mountPath": data},
        ],
    }
    volumes = [{"name": f"of-{n}", "hostPath": {"path": str(one)}} for n, one in enumerate(outermost)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD, "labels": {"app.kubernetes.io/name": "codehub"}},
        "spec": {
            "serviceAccountName": "codehub",
            "restartPolicy": "OnFailure",  # as a Deployment would
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            "volumes": [*volumes, {"name": "data", "emptyDir": {}}],
        },
    }


def new_workspace(product: Product) -> UUID:
    return product.admin.create_workspace("a workspace", image_ref=IMAGE).id
