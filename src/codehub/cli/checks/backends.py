"""Where workspaces run: the engine, the sandbox, and the IDEs that can be started."""

import asyncio
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from codehub.cli.ide import FIRST
from codehub.cli.isolation import advice_for
from codehub.config import Settings
from codehub.drivers import places
from codehub.drivers.docker import DockerDriver
from codehub.drivers.images import for_containers, for_processes
from codehub.drivers.kubernetes import KubernetesDriver
from codehub.drivers.load import (
    docker_options,
    ide_folder,
    kubernetes_options,
    open_store,
    process_options,
    process_self_check,
)
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.machine import Machine
from codehub.drivers.process.programs import is_installed
from codehub.errors import CodeHubError, StartError
from codehub.model.workspace import InstanceBackend, WorkspaceId
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, failed_by, ok, warning

DOCKER, KUBERNETES, SANDBOX, IDES, SELF_CHECK = "docker", "k8s", "sandbox", "ide", "self-check"
_NOBODY = WorkspaceId(UUID(int=0))
_DOCTOR = "codehub-doctor"


async def backends(settings: Settings, data_dir: Path) -> list[Finding]:
    found: list[Finding] = []
    for backend in settings.backends.enabled:
        if backend == InstanceBackend.DOCKER:
            found.append(await docker(settings))
        elif backend == InstanceBackend.K8S:
            found.append(await kubernetes(settings))
        else:
            found += [*await asyncio.to_thread(sandbox, settings), *ides(settings, data_dir)]
            found.append(await self_check(settings, data_dir))
    return found


async def self_check(settings: Settings, data_dir: Path) -> Finding:
    """As at a start, whether or not it passed then."""
    if not places.has_workspaces(data_dir):
        return ok(SELF_CHECK, "made by the first start")
    try:
        store = open_store(settings.store, settings.store.url or (data_dir / "archives").as_uri())
        await process_self_check(settings, data_dir, store).make()
    except CodeHubError as error:
        return failed_by(codes.SELF_CHECK, error)
    return ok(SELF_CHECK, "a program ran as a workspace does; a home was archived and restored")


async def docker(settings: Settings) -> Finding:
    """Asks for a volume that is nobody's: one small question."""
    named = settings.model_copy(update={"docker": settings.docker.model_copy(update={"installation": _DOCTOR})})
    try:
        images = ", ".join(for_containers(settings.backends.image_of))
        driver = DockerDriver(
            docker_options(named, Path()), open_store(settings.store, settings.store.url or "file:///archives").job_urls
        )
        try:
            await driver.volumes.look(_NOBODY)
            problems = await driver.self_check()
        finally:
            await driver.close()
    except CodeHubError as error:
        return failed(
            codes.DOCKER,
            error.message,
            error.hint or "Start the Docker engine, or let this user use its socket; DOCKER_HOST says where it is.",
        )
    if problems:
        return failed(codes.SELF_CHECK, " ".join(problems))
    return ok(DOCKER, f"the engine at {settings.docker.host} answers; images: {images}")


async def kubernetes(settings: Settings) -> Finding:
    """Asks for a volume that is nobody's: one small question."""
    named = settings.model_copy(update={"docker": settings.docker.model_copy(update={"installation": _DOCTOR})})
    try:
        store = open_store(settings.store, settings.store.url or "file:///")
        driver = await asyncio.to_thread(KubernetesDriver, kubernetes_options(named, Path()), store.job_urls)
        try:
            await driver.volumes.look(_NOBODY)
            problems = await driver.self_check()
        finally:
            await driver.close()
    except CodeHubError as error:
        hint = error.hint or "K8S_KUBECONFIG, K8S_CONTEXT and K8S_NAMESPACE say where it is: see docs/kubernetes.md."
        return failed(codes.KUBERNETES, error.message, hint)
    if problems:
        return failed(codes.SELF_CHECK, " ".join(problems))
    return ok(KUBERNETES, f"the cluster at {driver.cluster.server} answers; namespace: {driver.cluster.namespace}")


def isolation_here(settings: Settings) -> list[str]:
    """What the process backend could do here, tried in a folder of its own, as the first start would."""
    try:
        root = Path(tempfile.mkdtemp(prefix="codehub-doctor-"))
    except OSError as error:
        raise StartError(f"It cannot be tried: {error}.", "TMPDIR names a folder that can be written.") from error
    try:
        root.chmod(0o711)
        layout = Layout(root / "w")
        layout.prepare()
        machine = Machine(replace(process_options(settings, layout.root)), layout)
        machine.find_out()
        return machine.isolation()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def sandbox(settings: Settings) -> list[Finding]:
    try:
        lines = isolation_here(settings)
    except CodeHubError as error:
        return [failed_by(codes.SANDBOX, error)]
    found = []
    for line in lines:
        if line.startswith("WARNING"):
            found.append(warning(codes.ISOLATION, line.removeprefix("WARNING: "), " ".join(advice_for(line))))
        else:
            found.append(ok(SANDBOX, line))
    return found


def ides(settings: Settings, data_dir: Path) -> list[Finding]:
    try:
        offered = for_processes(settings.backends.image_of).ides
    except CodeHubError as error:
        return [failed_by(codes.IDE, error)]
    found = []
    for name, ide in offered.items():
        if is_installed(ide, ide_folder(data_dir)):
            found.append(ok(IDES, f"{name} is installed"))
        elif name == FIRST:
            found.append(ok(IDES, f"{name} is installed by the first start"))
        else:
            found.append(warning(codes.IDE, f"{name} is offered but not installed.", f"codehub ide install {name}"))
    return found
