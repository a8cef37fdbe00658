"""An engine that is out: every verb says so quickly, and everything goes on when it is back."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from codehub.drivers.docker import DockerDriver
from codehub.drivers.docker.options import Patience
from codehub.errors import Unreachable
from codehub.model.observation import Life
from codehub.model.workspace import Incarnation, VolumeRef
from tests.drivers_docker.conftest import FolderStore, Home, make_home, new_op, new_workspace
from tests.lab.docker import SCRIPT, Lab
from tests.lab.wire import Wire, mended, wire_to_socket
from tests.support import eventually, eventually_async, missing, short_folder

Verb = Callable[[DockerDriver], Coroutine[Any, Any, object]]
NOBODY, VOLUME = new_workspace(), VolumeRef(Incarnation("x"), None)

VERBS: dict[str, Verb] = {
    "instances.observe": lambda driver: driver.instances.observe(),
    "instances.look": lambda driver: driver.instances.look(NOBODY),
    "instances.start": lambda driver: driver.instances.start(NOBODY, Home(driver, NOBODY, VOLUME).spec()),
    "instances.remove": lambda driver: driver.instances.remove(NOBODY),
    "instances.logs": lambda driver: driver.instances.logs(NOBODY, 10),
    "volumes.observe": lambda driver: driver.volumes.observe(),
    "volumes.look": lambda driver: driver.volumes.look(NOBODY),
    "volumes.create": lambda driver: driver.volumes.create(NOBODY, Incarnation("x")),
    "volumes.delete": lambda driver: driver.volumes.delete(NOBODY, VOLUME),
    "jobs.observe": lambda driver: driver.jobs.observe(),
    "jobs.archive": lambda driver: driver.jobs.archive(NOBODY, new_op(), VOLUME),
    "jobs.remove": lambda driver: driver.jobs.remove(NOBODY, new_op()),
    "prepare": lambda driver: driver.prepare(),
}


@pytest.fixture
async def wire(lab: Lab) -> AsyncIterator[Wire]:
    async with mended(wire_to_socket(short_folder() / "engine.sock", Path(lab.host.removeprefix("unix://")))) as wire:
        yield wire


@pytest.mark.parametrize("verb", VERBS)
async def test_nothing_listens(lab: Lab, store: FolderStore, verb: str) -> None:
    driver = DockerDriver(lab.options(host="unix:///nowhere/docker.sock"), store.job_urls)
    before = time.monotonic()
    with pytest.raises(Unreachable):
        await VERBS[verb](driver)
    assert time.monotonic() - before < 2
    await driver.close()


async def test_it_listens_and_never_answers(lab: Lab, store: FolderStore, wire: Wire) -> None:
    wire.silence()
    patience = Patience(connect=0.5, look=0.5, act=0.5)
    driver = DockerDriver(lab.options(host=f"unix://{wire.path}", patience=patience), store.job_urls)
    before = time.monotonic()
    for verb in VERBS.values():
        with pytest.raises(Unreachable):
            await verb(driver)
    assert time.monotonic() - before < 2 * len(VERBS)
    await driver.close()


async def test_events_come_again_after_an_outage(lab: Lab, store: FolderStore, wire: Wire) -> None:
    driver = DockerDriver(lab.options(host=f"unix://{wire.path}"), store.job_urls)
    events = driver.instances.events()
    async with asyncio.timeout(20):
        await anext(events)
        await wire.cut()
        with pytest.raises(Unreachable):
            await driver.instances.observe()
        await wire.mend()
        await anext(events)
    await events.aclose()  # type: ignore[attr-defined]  # it is a generator
    await driver.close()


# -- an engine of our own, killed and started again ------------------------------------------------------------------


class OwnEngine:
    """A second engine beside the one that the other tests use, with its own images and its own state."""

    def __init__(self, lab: Lab) -> None:
        self.folder = short_folder()
        self.log = (self.folder / "log").open("ab")
        self.host = f"unix://{self.folder}/docker.sock"
        self.lab = Lab(self.host, lab.workspace_image, lab.guard_image, lab.job_image)
        self.process: subprocess.Popen[bytes] | None = None
        # containerd is a process of its own, as on any machine with an init system: it outlives the engine.
        self.address = f"{self.folder}/containerd.sock"
        places = ["--root", f"{self.folder}/containerd", "--state", f"{self.folder}/state", "--address", self.address]
        config = self.folder / "containerd.toml"
        config.write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        command = ["containerd", "--config", str(config), *places]
        self.containerd = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)
        eventually(Path(self.address).is_socket, "containerd listens")

    def start(self) -> None:
        command = [
            "dockerd",
            "--containerd",
            self.address,
            "--data-root",
            f"{self.folder}/data",
            "--exec-root",
            f"{self.folder}/exec",
        ]
        command += ["--pidfile", f"{self.folder}/pid", "--host", self.host, "--bridge", "none", "--live-restore"]
        command += ["--default-address-pool", "base=10.214.0.0/16,size=24"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True)
        eventually(self.answers, f"the engine answers; its log is {self.folder}/log", 60)

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(self.host.removeprefix("unix://")):
                return False
        return self.lab.call("GET", "/_ping").is_success

    def end(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(30)

    def close(self) -> None:
        assert self.process is not None
        if self.process.poll() is None:
            self.end(signal.SIGTERM)
        self.containerd.terminate()
        self.containerd.wait(30)
        self.log.close()
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            if (place := line.split()[1]).startswith(f"{self.folder}/"):
                subprocess.run(["umount", "--lazy", place], check=True)
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture
def own(lab: Lab) -> Iterator[OwnEngine]:
    if os.geteuid() != 0 or not Path("/usr/sbin/dockerd").exists():
        missing("root and dockerd, to start an engine of our own", "make docker-lab, as root")
    engine = OwnEngine(lab)
    engine.start()
    try:
        images = [lab.workspace_image, lab.guard_image]
        load = ["docker", "-H", engine.host, "load", "-q"]
        with subprocess.Popen(["docker", "-H", lab.host, "save", *images], stdout=subprocess.PIPE) as save:
            subprocess.run(load, stdin=save.stdout, check=True, capture_output=True)
        yield engine
    finally:
        engine.close()


async def test_an_engine_that_is_killed_and_started_again(own: OwnEngine, store: FolderStore) -> None:
    options = own.lab.options(f"own-{uuid4().hex[:8]}")
    driver = DockerDriver(options, store.job_urls)
    try:
        await driver.prepare()
        home = await make_home(driver)
        endpoint = await home.start()
        own.end(signal.SIGKILL)
        with pytest.raises(Unreachable):
            await driver.instances.observe()
        own.start()
        seen = await driver.instances.look(home.id)
        assert (seen.life, seen.endpoint) == (Life.READY, endpoint)
        assert (await driver.volumes.look(home.id)).ref == home.volume
        second = await make_home(driver)
        await second.start()
        await driver.instances.remove(home.id)
        await driver.volumes.delete(home.id, home.volume)

        async def only_the_second() -> bool:
            return set(await driver.volumes.observe()) == {second.id}

        await eventually_async(only_the_second, "the first is gone")
    finally:
        own.lab.sweep(options)
        await driver.close()


def test_the_script_says_what_it_can_do() -> None:
    done = subprocess.run([str(SCRIPT), "nonsense"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "docker.sh up" in done.stderr
