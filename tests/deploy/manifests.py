"""The Kubernetes manifests as they are written, and as Kustomize renders them."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.lab.k8s import is_asked_for
from tests.support import skip

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("external", "trial")
LEAST_KUSTOMIZE = 5

Body = dict[str, Any]


def documents(folder: Path) -> list[Body]:
    """Every object of a folder's own files, without Kustomize."""
    listed: list[str] = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    files = [folder / name for name in listed if name.endswith(".yaml")]
    return [body for file in files for body in yaml.safe_load_all(file.read_text()) if body]


def written(overlay: str) -> list[Body]:
    """What an overlay has and what the base has, before anything is merged."""
    return documents(KUBERNETES / "base") + documents(KUBERNETES / "overlays" / overlay)


def settings(overlay: str) -> dict[str, str]:
    """Of the ConfigMap, the overlay's over the base's."""
    found: dict[str, str] = {}
    for folder in (KUBERNETES / "base", KUBERNETES / "overlays" / overlay):
        for generator in yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]:
            found |= dict(literal.split("=", 1) for literal in generator["literals"])
    return found


def templates(bodies: list[Body]) -> Iterator[tuple[str, Body, Body]]:
    """Each thing that makes pods: its name, the pods' labels and their specification."""
    for body in bodies:
        if body["kind"] in ("Deployment", "StatefulSet", "Job"):
            template = body["spec"]["template"]
            yield body["metadata"]["name"], template["metadata"]["labels"], template["spec"]


def containers(spec: Body) -> list[Body]:
    return [*spec.get("initContainers", []), *spec["containers"]]


def rendered(folder: Path) -> list[Body]:
    """As `kubectl apply -k` has it; skips where there is no such program."""
    command = _kustomize()
    if command is None:
        skip(f"Kustomize {LEAST_KUSTOMIZE}", "make test-k8s")
    done = subprocess.run([*command, str(folder)], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr  # a warning is a mistake of ours
    return [body for body in yaml.safe_load_all(done.stdout) if body]


@cache
def _kustomize() -> tuple[str, ...] | None:
    """What renders a folder: kubectl if it is new enough, else a program of the lab's where a cluster is asked for."""
    kubectl = shutil.which("kubectl")
    if kubectl is not None:
        told = subprocess.run([kubectl, "version", "--client"], check=False, capture_output=True, text=True, timeout=60)
        found = re.search(r"Kustomize Version: v(\d+)", told.stdout)
        if found and int(found[1]) >= LEAST_KUSTOMIZE:
            return kubectl, "kustomize"
    if not is_asked_for():
        return None
    script = ROOT / "tests" / "lab" / "kustomize.sh"
    return subprocess.run([str(script)], check=True, stdout=-1, text=True, timeout=900).stdout.strip(), "build"
