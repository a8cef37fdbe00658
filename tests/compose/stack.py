"""A stack of compose.yaml for one test run, with secrets, ports and networks of its own; nothing is left of it."""

import json
import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from tests.compose import file
from tests.lab.docker import SCRIPT, Lab, new_installation
from tests.support import eventually, free_port

COMMAND_SECONDS = 300
BACK_SECONDS = 120.0
_HEALTH = ("COORDINATOR_1", "COORDINATOR_2", "PROXY_1", "PROXY_2")


@dataclass(frozen=True)
class Stack:
    """A stack that is up."""

    project: str
    compose: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.environment['CODEHUB_PORT']}"

    def database_url(self, login: str = "DATABASE_URL") -> str:
        return self.secret(login).replace("@postgres:", f"@{self.environment['CODEHUB_NET']}.10:")

    @property
    def redis_url(self) -> str:
        return self.secret("REDIS_URL").replace("@valkey:", f"@{self.environment['CODEHUB_NET']}.11:")

    def secret(self, name: str) -> str:
        return (self.secrets / name).read_text().strip()

    def run(self, *words: str) -> str:
        """One command of Docker Compose."""
        return _said([*self.compose, "--project-name", self.project, *words], self.environment)

    def docker(self, *words: str) -> str:
        """One command of its engine."""
        return _said(["docker", *words], self.environment)

    def container(self, service: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", f"{self.project}-{service}-1"))
        return found[0]

    def address(self, service: str, network: str) -> str:
        return str(self.container(service)["NetworkSettings"]["Networks"][f"{self.project}_{network}"]["IPAddress"])

    def pid(self, service: str) -> int:
        return int(self.container(service)["State"]["Pid"])

    def up_for(self, service: str) -> float:
        """Seconds since it was started."""
        started = str(self.container(service)["State"]["StartedAt"])
        return (datetime.now(UTC) - datetime.fromisoformat(started[:19] + "+00:00")).total_seconds()

    def wait_until_up_for(self, service: str, seconds: float) -> None:
        eventually(lambda: self.up_for(service) >= seconds, f"{service} is up for {seconds} s", seconds + 60)

    def is_ready(self, service: str) -> bool:
        """Asked of the one process, not of whoever shares its port."""
        part, _, number = service.partition("-")
        if part == "api":
            url = f"http://{self.environment['CODEHUB_NET']}.2{number}:8080"
        else:
            url = f"http://127.0.0.1:{self.environment[f'{part.upper()}_{number}_HEALTH_PORT']}"
        try:
            return httpx.get(f"{url}/readyz", timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def wait_for(self, service: str) -> None:
        eventually(lambda: self.is_ready(service), f"{service} is ready again", BACK_SECONDS)


@contextmanager
def stack(folder: Path) -> Iterator[Stack]:
    """Bring one up; Docker Compose itself waits until everything is healthy."""
    told = dict(line.split("=", 1) for line in _said([str(SCRIPT), "compose"], {}, seconds=900).splitlines())
    lab = Lab(
        host=told["DOCKER_HOST"],
        workspace_image=told["CODEHUB_TEST_WORKSPACE_IMAGE"],
        guard_image=told["CODEHUB_TEST_GUARD_IMAGE"],
        job_image=told["CODEHUB_TEST_JOB_IMAGE"],
    )
    socket = told["DOCKER_HOST"].removeprefix("unix://")
    installation = new_installation()
    _said([str(file.PREPARE), str(folder / "secrets")], {})
    environment = {
        "DOCKER_HOST": told["DOCKER_HOST"],
        "DOCKER_SOCKET": socket,
        "DOCKER_GID": str(Path(socket).stat().st_gid),
        "CODEHUB_SECRETS": str(folder / "secrets"),
        "CODEHUB_TLS": str(folder / "tls"),
        "CODEHUB_IMAGE": told["CODEHUB_TEST_IMAGE"],
        "CODEHUB_GUARD_IMAGE": lab.guard_image,
        "CODEHUB_IMAGES": f"test={lab.workspace_image}",
        "POSTGRES_IMAGE": told["CODEHUB_TEST_SERVERS_IMAGE"],
        "VALKEY_IMAGE": told["CODEHUB_TEST_SERVERS_IMAGE"],
        "S3_IMAGE": told["CODEHUB_TEST_SERVERS_IMAGE"],
        "CODEHUB_INSTALLATION": installation,
        "CODEHUB_NET": f"10.252.{secrets.randbelow(256)}",
        "CODEHUB_HOST": "127.0.0.1",
        "CODEHUB_PORT": str(free_port()),
        **{f"{part}_HEALTH_PORT": str(free_port()) for part in _HEALTH},
    }
    compose = (*told["CODEHUB_TEST_COMPOSE"].split(), "--file", str(file.FILE), "--env-file", os.devnull)
    up = Stack(installation, compose, environment, folder / "secrets")
    try:
        _started(up)
        yield up
    finally:
        up.run("down", "--volumes", "--timeout", "10")
        lab.sweep(lab.options(installation))


def _started(up: Stack) -> None:
    try:
        up.run("up", "--detach", "--wait", "--wait-timeout", "240")
    except AssertionError as error:
        error.add_note(up.run("ps", "--all"))
        error.add_note(up.run("logs", "--no-color", "--tail", "12"))
        raise


def _said(command: list[str], environment: Mapping[str, str], seconds: float = COMMAND_SECONDS) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)} failed: {done.stderr[-2000:]}"
    return done.stdout
