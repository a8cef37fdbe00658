"""deploy/kubernetes on a real cluster: it comes up, people work with it, and replacing every pod disturbs nobody."""

from pathlib import Path

import httpx
import pytest

from codehub.client import Client
from tests.compose import closed
from tests.deploy.cluster import PARTS, installed
from tests.lab.k8s import lab
from tests.support import again_and_again, eventually

PAUSE_SECONDS = 0.1

pytestmark = pytest.mark.timeout(900)


def asked(url: str) -> str:
    """What the dashboard's API says, on a new connection, to somebody who is not logged in."""
    try:
        return str(httpx.get(f"{url}/api/v1/session", timeout=20, trust_env=False).status_code)
    except httpx.HTTPError as error:
        return repr(error)


def test_a_trial_from_the_installation_to_the_upgrade(tmp_path: Path) -> None:
    with installed(lab(), tmp_path) as here, Client(here.url) as client:
        names = [pod["metadata"]["name"] for pod in here.pods()]
        for part in PARTS:
            assert sum(name.startswith(part) for name in names) == 2, names
        (store,) = [pod for pod in here.pods() if pod["metadata"]["name"].startswith("s3-")]
        assert not closed.ports_of(store["status"]["podIP"]), "it asks nobody for a key there"
        client.login("admin", here.password)
        made = client.create_workspace("w", desired_state="RUNNING")

        def runs() -> bool:
            row = client.workspace(made.id)
            assert row.error is None, row
            return row.phase == "RUNNING"

        eventually(runs, "the workspace runs", 180)
        token = client.create_token("t").token
        opened = f"{here.url}/w/{made.id}/healthz"
        headers = {"Authorization": f"Bearer {token}"}

        def is_open() -> bool:
            return httpx.get(opened, headers=headers, timeout=20, trust_env=False).status_code == 200

        eventually(is_open, "it is opened through the proxy", 60)
        with again_and_again(lambda: asked(here.url), PAUSE_SECONDS) as seen:
            for part in PARTS:
                here.run("rollout", "restart", f"deployment/{part}")
            here.settled()
            after = {pod["metadata"]["name"] for pod in here.pods()}
            assert not after & {name for name in names if name.startswith(PARTS)}
            assert is_open()
        assert set(seen) == {"401"}, seen  # nobody is logged in: but everybody was answered
        client.set_state(made.id, "ARCHIVED")
        eventually(lambda: client.workspace(made.id).phase == "ARCHIVED", "the new coordinator archives it", 180)
