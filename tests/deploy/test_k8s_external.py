"""overlays/external, asked of a real API server: it would take every object. Nothing is made."""

from contextlib import ExitStack

import pytest
import yaml

from tests.deploy.cluster import NAMESPACES
from tests.deploy.manifests import KUBERNETES, Body, rendered
from tests.lab.k8s import Lab, lab

pytestmark = pytest.mark.timeout(300)


def refusals(here: Lab, bodies: list[Body]) -> list[str]:
    """What the server says of those that it would not take."""
    said = here.run("apply", "--dry-run=server", "-f", "-", given=yaml.safe_dump_all(bodies), check=False, errors=True)
    lines = [line for line in said.splitlines() if not line.endswith("(server dry run)")]
    taken = len(said.splitlines()) - len(lines)
    return lines if lines or taken == len(bodies) else [f"only {taken} of {len(bodies)} objects were looked at"]


def test_the_server_takes_everything() -> None:
    here = lab()
    bodies = rendered(KUBERNETES / "overlays" / "external")
    with ExitStack() as stack:
        # Namespaces that exist only in thought hold nothing: these are real ones instead, of nobody else.
        names = {name: stack.enter_context(here.namespace()) for name in NAMESPACES}
        for body in bodies:
            if "namespace" in body["metadata"]:
                body["metadata"]["namespace"] = names[body["metadata"]["namespace"]]
            if body["kind"] == "PodDisruptionBudget":
                body["apiVersion"] = "policy/v1beta1"  # the lab's server is of 1.20
        assert refusals(here, bodies) == []
        (api,) = [body for body in bodies if body["kind"] == "Deployment" and body["metadata"]["name"] == "codehub-api"]
        api["spec"]["template"]["spec"]["volumes"][0]["name"] = "mistyped"
        assert any("owner" in line for line in refusals(here, bodies))
