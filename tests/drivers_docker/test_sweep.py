"""`docker.sh sweep`: what a killed test run left in the engine goes, and nothing else does."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
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
            body = {"Image": lab.workspace_image, "Labels": {LABEL: killed}, "Volumes": {"/unnamed": {}}}
            lab.call("POST", "/containers/create", body, name=clutter).raise_for_status()
            (mount,) = lab.call("GET", f"/containers/{clutter}/json").json()["Mounts"]
            assert exists(lab, "volume", mount["Name"])
            before = {"containers": 2, "volumes": 1, "networks": 2, "tables": 1}
            assert [left(lab, options) for options in (dead, living, somebody)] == [before] * 3
            sweep()
            assert left(lab, dead) == dict.fromkeys(before, 0)
            assert not exists(lab, "container", clutter)
            assert not exists(lab, "volume", mount["Name"])
            assert [left(lab, options) for options in (living, somebody)] == [before] * 2
        finally:
            for options in (dead, somebody):
                lab.sweep(options)


def test_of_our_own_images_those_go_that_are_older_than_any_run(lab: Lab) -> None:
    tag = uuid4().hex[:8]
    old, new, others = f"codehub/codehub:lab-{tag}", f"codehub/codehub:lab-{tag}-new", f"codehub/codehub:{tag}"
    try:
        for name, made in ((old, "2020-01-01T00:00:00Z"), (others, "2020-01-01T00:00:00Z"), (new, _now())):
            _load(lab, name, made)
        sweep()
        found = [lab.call("GET", f"/images/{name}/json").status_code for name in (old, new, others)]
        assert found == [404, 200, 200]
    finally:
        for name in (old, new, others):
            lab.call("DELETE", f"/images/{name}")


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _load(lab: Lab, name: str, made: str) -> None:
    """An image of nothing that was made then."""
    layer = _tar({"nothing": name.encode()})
    config = {
        "architecture": "amd64",
        "os": "linux",
        "created": made,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"layer.tar": layer, "config.json": _json(config), "manifest.json": _json(manifest)}
    environment = {**os.environ, "DOCKER_HOST": lab.host}
    subprocess.run(["docker", "load"], input=_tar(files), check=True, capture_output=True, timeout=60, env=environment)


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _tar(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
