"""Opens what the settings name: the archive store and the backends, ready for use, closed together.

A wrong setting, or a sandbox that is required and cannot be had, ends the start; a store or an engine that is out does
not. It is prepared as soon as it answers, and `checks` say so meanwhile.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from codehub.config import Settings, StoreConfig
from codehub.dependencies import Check, Checks, Dependency
from codehub.drivers import packages, places
from codehub.drivers.archives import ArchiveStore, Limits, S3Options
from codehub.drivers.base import Archives, Backend, Resources
from codehub.drivers.docker import DockerDriver, DockerOptions, Outbound
from codehub.drivers.images import for_containers, for_processes
from codehub.drivers.kubernetes import KubernetesDriver, KubernetesOptions
from codehub.drivers.kubernetes.options import Toleration
from codehub.drivers.preparing import Preparing
from codehub.drivers.process import Options, ProcessDriver
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.programs import is_installed
from codehub.drivers.process.self_check import self_check
from codehub.drivers.process.self_check_record import SelfCheck, digest_of
from codehub.errors import SettingsError
from codehub.model.workspace import InstanceBackend, WorkspaceId

FIRST_ATTEMPT_SECONDS = 5.0
PREPARED_AGAIN_SECONDS = 240.0  # a firewall that somebody flushed is put back, a self-check that failed repeated

_NOBODY = WorkspaceId(UUID(int=0))

Isolation = Callable[[], Sequence[str]]
Names = Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Drivers:
    """The data plane. `isolation`, `images` and `checks` may say something else every time they are asked."""

    archives: Archives
    backends: Mapping[InstanceBackend, Backend]
    default_backend: InstanceBackend  # what new workspaces get
    resources: Resources  # what each of them may use
    isolation: Callable[[], Mapping[str, Sequence[str]]]  # for each backend, sentences for people
    images: Callable[[], Mapping[InstanceBackend, Sequence[str]]]  # what can be started now: names for image_ref
    checks: Checks  # for /readyz: the store and each backend
    self_check: SelfCheck | None  # of the backend `process`, if it is one of them; the others' are among the checks


@dataclass(frozen=True, slots=True)
class _Opened:
    backend: Backend
    isolation: Isolation
    images: Names
    prepare: Callable[[], Awaitable[None]] | None = None
    self_check: SelfCheck | None = None


def ide_folder(data_dir: Path) -> Path:
    """Where IDEs for the `process` backend are installed."""
    return data_dir / "ide"


def workspaces_folder(data_dir: Path) -> Path:
    """Where the `process` backend has homes and records."""
    return data_dir / "workspaces"


def has_homes(data_dir: Path) -> bool:
    """Whether somebody has a workspace here that is not archived."""
    return Layout(workspaces_folder(data_dir)).has_homes()


@asynccontextmanager
async def open_drivers(settings: Settings, data_dir: Path) -> AsyncIterator[Drivers]:
    """Everything that the settings name. Raises SettingsError or StartError where that is not possible at all."""
    async with AsyncExitStack() as stack:
        url = settings.store.url or (data_dir / "archives").as_uri()
        store = open_store(settings.store, url)
        opened: dict[InstanceBackend, _Opened] = {}
        for backend in map(InstanceBackend, settings.backends.enabled):
            opened[backend] = await _OPENERS[backend](settings, data_dir, store, stack)

        async def prepare_store() -> None:
            if places.knows_store(data_dir, url):
                await store.ping()
            else:
                await store.prepare()
                places.remember_store(data_dir, url)

        preparing = {Dependency.ARCHIVES: Preparing(Dependency.ARCHIVES, prepare_store)}
        for backend, one in opened.items():
            if one.prepare is not None:
                preparing[Dependency(backend)] = Preparing(backend, one.prepare, every=PREPARED_AGAIN_SECONDS)
        await stack.enter_async_context(_kept_trying(preparing.values()))
        checks = {Dependency.ARCHIVES: _check_of(preparing[Dependency.ARCHIVES], store.ping)}
        for backend, one in opened.items():
            name = Dependency(backend)
            checks[name] = _check_of(preparing.get(name), _look_of(one.backend), one.isolation)
        yield Drivers(
            archives=store,
            backends=MappingProxyType(
                {name: replace(one.backend, node=_node(name, settings)) for name, one in opened.items()}
            ),
            default_backend=InstanceBackend(settings.backends.first),
            resources=resources_of(settings),
            isolation=lambda: {str(name): one.isolation() for name, one in opened.items()},
            images=lambda: {name: one.images() for name, one in opened.items()},
            checks=MappingProxyType(checks),
            self_check=opened[InstanceBackend.PROCESS].self_check if InstanceBackend.PROCESS in opened else None,
        )


def open_store(config: StoreConfig, url: str) -> ArchiveStore:
    """Nothing is contacted yet."""
    secret, token = config.secret_access_key, config.session_token
    s3 = S3Options(
        endpoint=config.endpoint,
        access_key_id=config.access_key_id,
        secret_access_key=secret.get_secret_value() if secret else None,
        session_token=token.get_secret_value() if token else None,
        region=config.region,
        virtual_hosted=config.virtual_hosted,
        ca_file=config.ca_file,
    )
    limits = Limits(request=config.request_timeout, progress=config.progress_timeout)
    return ArchiveStore.open(url, prefix=config.prefix, s3=s3, limits=limits)


def _node(backend: InstanceBackend, settings: Settings) -> str:
    """The one machine that it is on; "" for a cluster."""
    if backend is InstanceBackend.K8S:
        return ""
    host = settings.docker.host
    return host if backend is InstanceBackend.DOCKER and not host.startswith("unix:") else "here"


def resources_of(settings: Settings) -> Resources:
    """0 is no limit."""
    given = settings.resources
    return Resources(given.cpus or None, int(given.memory) or None, given.pids or None)


def docker_options(settings: Settings, data_dir: Path) -> DockerOptions:
    given = settings.docker
    return DockerOptions(
        installation=given.installation or places.installation(data_dir),
        images=for_containers(settings.backends.image_of),
        job_image=given.job_image,
        guard_image=given.guard_image,
        host=given.host,
        pull=given.pull,
        outbound=Outbound(given.outbound),
        allow=given.allow,
        deny=given.deny,
        dns=given.dns,
        stop_grace=settings.backends.stop_grace,
        require_isolation=given.require_isolation,
        environment=packages.environment(settings.resources.pip_index),
    )


def kubernetes_options(settings: Settings, data_dir: Path) -> KubernetesOptions:
    if not (settings.store.url or "").startswith("s3:"):
        raise SettingsError(
            f"ARCHIVE_URL={settings.store.url or ''}: the backend k8s needs a bucket, as s3://bucket; pods do not see"
            " our folders."
        )
    given = settings.kubernetes
    return KubernetesOptions(
        installation=settings.docker.installation or places.installation(data_dir),
        images=for_containers(settings.backends.image_of),
        job_image=given.job_image,
        kubeconfig=given.kubeconfig,
        context=given.context,
        namespace=given.namespace,
        storage_class=given.storage_class,
        home_bytes=int(given.home_size),
        access_mode=given.access_mode,
        requested_cpus=given.requested_cpus,
        requested_memory=int(given.requested_memory),
        node_selector=given.node_labels,
        tolerations=tuple(Toleration(*taint) for taint in given.taints),
        pull_secrets=given.pull_secrets,
        pull=given.pull,
        outbound=Outbound(given.outbound),
        allow=given.allow,
        deny=given.deny,
        control_namespace=given.control_namespace,
        callers=given.callers,
        store_pods=given.store_labels,
        stop_grace=settings.backends.stop_grace,
        require_isolation=given.require_isolation,
        environment=packages.environment(settings.resources.pip_index),
    )


def process_options(settings: Settings, root: Path) -> Options:
    given, index = settings.process, settings.resources.pip_index
    return Options(
        root=root,
        sandbox=given.sandbox,
        seccomp=given.seccomp,
        network=given.network,
        allow=given.allow,
        deny=given.deny,
        hosts=(packages.address_of(index),) if index else (),
        environment=packages.environment(index or packages.machine_index()),
        users=given.user_range,
        start_seconds=given.start_seconds,
        stop_grace=settings.backends.stop_grace,
        reserve=given.disk_reserve,
        home_quota=given.home_quota or None,
        bwrap=str(given.bwrap) if given.bwrap else None,
        cgroup=given.cgroup,
    )


async def _open_process(settings: Settings, data_dir: Path, store: ArchiveStore, stack: AsyncExitStack) -> _Opened:
    allowed = for_processes(settings.backends.image_of)
    ides, layout = ide_folder(data_dir), Layout(workspaces_folder(data_dir))
    places.check_workspaces(data_dir, layout)
    options = process_options(settings, layout.root)
    driver = await asyncio.to_thread(ProcessDriver.open, options, allowed, ides, store.job_urls)
    stack.callback(driver.close)
    places.remember_workspaces(data_dir, layout)

    def installed() -> list[str]:
        return [name for name, ide in allowed.ides.items() if is_installed(ide, ides)]

    check = process_self_check(settings, data_dir, store)
    return _Opened(
        driver.backend,
        lambda: [*driver.isolation(), check.sentence()],
        installed,
        prepare=check.repeat,
        self_check=check,
    )


def process_self_check(settings: Settings, data_dir: Path, store: ArchiveStore) -> SelfCheck:
    """It has a folder of its own in that of the workspaces: what holds there holds here."""
    allowed, ides = for_processes(settings.backends.image_of), ide_folder(data_dir)
    options = process_options(settings, workspaces_folder(data_dir) / "self-check")
    place = repr(settings.store.model_dump(mode="python")) + _credentials(settings.store)

    def digest() -> str:
        return digest_of(options, allowed, ides, options.bwrap or shutil.which("bwrap"), place)

    return SelfCheck(lambda: self_check(options, allowed, ides, store), digest, data_dir / "self-check.json")


def _credentials(config: StoreConfig) -> str:
    """For a digest alone. Those that the environment gives to every client of S3 are among them."""
    given = [secret.get_secret_value() for secret in (config.secret_access_key, config.session_token) if secret]
    return repr([*given, *sorted(item for item in os.environ.items() if item[0].startswith("AWS_"))])


async def _open_docker(settings: Settings, data_dir: Path, store: ArchiveStore, stack: AsyncExitStack) -> _Opened:
    options = docker_options(settings, data_dir)
    driver = DockerDriver(options, store.job_urls)
    stack.push_async_callback(driver.close)
    return _checked(driver, lambda: list(options.images))


async def _open_kubernetes(settings: Settings, data_dir: Path, store: ArchiveStore, stack: AsyncExitStack) -> _Opened:
    options = kubernetes_options(settings, data_dir)
    driver = await asyncio.to_thread(KubernetesDriver, options, store.job_urls)
    stack.push_async_callback(driver.close)
    return _checked(driver, lambda: list(options.images))


def _checked(driver: DockerDriver | KubernetesDriver, images: Names) -> _Opened:
    """Its self-check follows each preparation; what that found is told beside what does not isolate."""
    problems: list[str] = []

    async def prepare() -> None:
        await driver.prepare()
        problems[:] = [f"WARNING: {problem}" for problem in await driver.self_check()]

    return _Opened(driver.backend, lambda: [*driver.isolation(), *problems], images, prepare)


_OPENERS = {
    InstanceBackend.PROCESS: _open_process,
    InstanceBackend.DOCKER: _open_docker,
    InstanceBackend.K8S: _open_kubernetes,
}


@asynccontextmanager
async def _kept_trying(preparing: Collection[Preparing]) -> AsyncIterator[None]:
    """All at once; goes on after the first attempts, or when they take too long."""
    tasks = [asyncio.create_task(one.run()) for one in preparing]
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_ATTEMPT_SECONDS):
                for one in preparing:
                    await one.tried.wait()
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _look_of(backend: Backend) -> Callable[[], Awaitable[object]]:
    """Of a volume that is nobody's: one small question, which only a backend that works can answer."""
    return lambda: backend.volumes.look(_NOBODY)


def _check_of(
    preparing: Preparing | None, look: Callable[[], Awaitable[object]], isolation: Isolation | None = None
) -> Check:
    async def check() -> str | None:
        if preparing is not None:
            preparing.check()
        await look()
        return " ".join(warnings_in(isolation())) or None if isolation else None

    return check


def warnings_in(isolation: Sequence[str]) -> list[str]:
    """What does not keep workspaces apart."""
    return [line.removeprefix("WARNING: ") for line in isolation if line.startswith("WARNING") or " NOT " in line]
