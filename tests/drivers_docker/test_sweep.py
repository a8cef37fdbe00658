"""`docker.sh sweep`: what a killed test run left in the engine goes, and nothing else does."""

import os
import subprocess
import sys
from uuid import uuid4

import pytest

from codehub.drivers.docker import DockerDriver, DockerOptions
from codehub.drivers.docker import spec as bodies
from tests.drivers_docker.conftest import FolderStore, exists, make_home
from tests.lab.docker import LABEL, SCRIPT, Lab


@pytest.fixture
def killed() -> str:
    """The installation of a test run that is no more."""
    program = "import os; from tests.lab.docker import new_installation; print(new_installation(), flush=True)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def tables(lab: Lab) -> str:
    return lab.run(lab.guard_image, ["nft", "list", "tables"], NetworkMode="host", CapAdd=["NET_ADMIN"])


def left(lab: Lab, options: DockerOptions) -> dict[str, int]:
    """How much the engine has of an installation."""
    label = f'{{"label": ["{bodies.LABEL_INSTALLATION}={options.installation}"]}}'
    return {
        "containers": len(lab.call("GET", "/containers/json", all=1, filters=label).json()),
        "volumes": len(lab.call("GET", "/volumes", filters=label).json()["Volumes"] or []),
        "networks": len(lab.call("GET", "/networks", filters=label).json()),
        "tables": tables(lab).count(options.table),
    }


async def occupied(options: DockerOptions, store: FolderStore) -> None:
    """A running workspace, networks and a firewall."""
    driver = DockerDriver(options, store.job_urls)
    await driver.prepare()
    await (await make_home(driver)).start()
    await driver.close()


def sweep() -> None:
    subprocess.run([str(SCRIPT), "sweep"], check=True, timeout=300)


async def test_what_a_killed_run_left_goes_and_nothing_else(lab: Lab, store: FolderStore, killed: str) -> None:
    dead, somebody = lab.options(killed), lab.options(f"prod-{os.getpid()}-{uuid4().hex[:8]}")
    clutter = f"clutter-{uuid4().hex[:8]}"
    with lab.installation() as living:
        try:
            for options in (dead, living, somebody):
                await occupied(options, store)
            body = {"Image": lab.workspace_image, "Labels": {LABEL: killed}}
            lab.call("POST", "/containers/create", body, name=clutter).raise_for_status()
            before = {"containers": 2, "volumes": 1, "networks": 2, "tables": 1}
            assert [left(lab, options) for options in (dead, living, somebody)] == [before] * 3
            sweep()
            assert left(lab, dead) == dict.fromkeys(before, 0)
            assert not exists(lab, "container", clutter)
            assert [left(lab, options) for options in (living, somebody)] == [before] * 2
        finally:
            for options in (dead, somebody):
                lab.sweep(options)
