"""The Docker engine that tests use, and the images in it: see docker.sh beside this file.

An engine that is up is used, and images that are older than the tree are built anew. No test starts an engine: that is
`make docker-lab`, which takes two minutes on a bare machine, a second the next time.
"""

import functools
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

from codehub.drivers.docker import DockerOptions, Outbound, WorkspaceImage
from codehub.drivers.docker import spec as bodies
from codehub.drivers.docker.options import Patience
from tests.support import missing

SCRIPT = Path(__file__).with_name("docker.sh")
OUTDATED = 3  # the engine is there, and an image is of another version of the tree
LABEL = "codehub.test"  # on what tests make themselves: the name of an installation of theirs


def new_installation() -> str:
    """One that nobody else has; `docker.sh sweep` reads from it whether its test run still lives."""
    return f"test-{os.getpid()}-{uuid4().hex[:8]}"


@dataclass(frozen=True)
class Lab:
    """One engine, with direct access to it: what tests do behind the driver's back."""

    host: str
    workspace_image: str
    guard_image: str
    job_image: str
    ide_image: str | None = None

    def options(self, installation: str | None = None, **more: Any) -> DockerOptions:
        """Settings of a driver; by default of an installation that nobody else has."""
        given: dict[str, Any] = {
            "installation": installation or new_installation(),
            "host": self.host,
            "images": {"quick": WorkspaceImage(self.workspace_image), "missing": WorkspaceImage("codehub/absent:1")},
            "job_image": self.job_image,
            "guard_image": self.guard_image,
            "pull": False,
            "outbound": Outbound.INTERNET,
            "patience": Patience(ready=20.0),
        }
        return DockerOptions(**(given | more))

    def call(self, method: str, path: str, body: object = None, /, **params: str | int) -> httpx.Response:
        """One request to the engine itself."""
        transport = httpx.HTTPTransport(uds=self.host.removeprefix("unix://"))
        with httpx.Client(transport=transport, base_url="http://docker/v1.41", timeout=60, trust_env=False) as client:
            content = body if isinstance(body, bytes) else None
            return client.request(method, path, json=None if content else body, content=content, params=params)

    def run(self, image: str, command: list[str], **host: Any) -> str:
        """What a container of this image prints when it runs this command."""
        body = {"Image": image, "Entrypoint": command, "Cmd": [], "User": "0", "Tty": True, "HostConfig": host}
        body["Labels"] = {LABEL: new_installation()}
        container = self.call("POST", "/containers/create", body).raise_for_status().json()["Id"]
        try:
            self.call("POST", f"/containers/{container}/start").raise_for_status()
            status = self.call("POST", f"/containers/{container}/wait").json()["StatusCode"]
            text = self.call("GET", f"/containers/{container}/logs", stdout=1, stderr=1).text
            assert status == 0, text
            return text
        finally:
            self.call("DELETE", f"/containers/{container}", force=1)

    @contextmanager
    def installation(self, **more: Any) -> Iterator[DockerOptions]:
        """Options for drivers, and at the end nothing left of what they made."""
        options = self.options(**more)
        try:
            yield options
        finally:
            self.sweep(options)

    def sweep(self, options: DockerOptions) -> None:
        """Remove everything that carries this installation's label, its networks and its firewall."""
        label = f'{{"label": ["{bodies.LABEL_INSTALLATION}={options.installation}"]}}'
        for container in self.call("GET", "/containers/json", all=1, filters=label).json():
            self.call("DELETE", f"/containers/{container['Id']}", force=1)
        for volume in self.call("GET", "/volumes", filters=label).json()["Volumes"] or []:
            self.call("DELETE", f"/volumes/{volume['Name']}", force=1)
        command = ["sh", "-c", f"nft delete table inet {options.table} 2>/dev/null || true"]
        self.run(self.guard_image, command, NetworkMode="host", CapAdd=["NET_ADMIN"])
        for network in self.call("GET", "/networks", filters=label).json():
            self.call("DELETE", f"/networks/{network['Id']}")


def lab() -> Lab:
    """The engine of this machine; skips the test, or fails it where it is required, if there is none."""
    told = _told()
    if told is None:
        missing("a Docker engine with the test images", "make docker-lab")
    return Lab(
        host=told["DOCKER_HOST"],
        workspace_image=told["CODEHUB_TEST_WORKSPACE_IMAGE"],
        guard_image=told["CODEHUB_TEST_GUARD_IMAGE"],
        job_image=told["CODEHUB_TEST_JOB_IMAGE"],
        ide_image=told.get("CODEHUB_TEST_IDE_IMAGE"),
    )


@functools.cache
def _told() -> Mapping[str, str] | None:
    code, told = _script("env")
    if code == OUTDATED:
        code, told = _script("up")
    return None if code else told


def _script(verb: str) -> tuple[int, Mapping[str, str]]:
    done = subprocess.run([str(SCRIPT), verb], check=False, stdout=subprocess.PIPE, text=True, timeout=900)
    return done.returncode, dict(line.split("=", 1) for line in done.stdout.splitlines())
