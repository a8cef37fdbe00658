"""Who CodeHub is in a cluster: the service account of deploy/kubernetes/base/role.yaml, with exactly those rights."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.k8s import Lab

ROLE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base" / "role.yaml"


@contextmanager
def account(lab: Lab, workspaces: str) -> Iterator[str]:
    """The namespace in which the account `codehub` lives; `workspaces` is the one that it may work in."""
    with lab.namespace() as home:
        role = ROLE.read_text().replace("namespace: codehub-workspaces", f"namespace: {workspaces}")
        lab.run("apply", "-f", "-", given=role.replace("namespace: codehub}", f"namespace: {home}}}"))
        yield home
