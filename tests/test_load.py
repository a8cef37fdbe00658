"""Opening what the settings name: real stores, processes and containers, and what is out when CodeHub starts."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from codehub.cli.api import offered
from codehub.dependencies import Dependency
from codehub.drivers import load
from codehub.drivers.base import InstanceSpec, Resources
from codehub.drivers.docker import Outbound, WorkspaceImage
from codehub.drivers.images import for_containers, for_processes
from codehub.drivers.load import Drivers, open_drivers
from codehub.drivers.preparing import Preparing
from codehub.drivers.process.programs import READY
from codehub.errors import SettingsError, StartError, TerminalError, Unavailable, Unreachable
from codehub.model.names import archive_key
from codehub.model.observation import ArchiveSeen
from codehub.model.workspace import Incarnation, InstanceBackend, OpId, WorkspaceId
from tests.contract.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from tests.lab.docker import Lab, lab
from tests.support import background, eventually_async, short_folder
from tests.test_config import load as settings_of

PROCESS, DOCKER = InstanceBackend.PROCESS, InstanceBackend.DOCKER


@pytest.fixture
def data() -> Iterator[Path]:
    folder = short_folder()
    yield folder
    shutil.rmtree(folder)


async def is_up(drivers: Drivers, name: Dependency) -> bool:
    try:
        await drivers.checks[name]()
    except (Unavailable, Unreachable):
        return False
    return True


async def use(drivers: Drivers, backend: InstanceBackend, image_ref: str) -> str:
    """Run a workspace for a moment; its page."""
    parts, workspace_id = drivers.backends[backend], WorkspaceId(uuid4())
    await parts.volumes.create(workspace_id, Incarnation(str(uuid4())))
    volume = (await parts.volumes.look(workspace_id)).ref
    try:
        spec = InstanceSpec(op_id=OpId(uuid4()), image_ref=image_ref, volume=volume, resources=drivers.resources)
        await parts.instances.start(workspace_id, spec)
        endpoint = (await parts.instances.look(workspace_id)).endpoint
        assert endpoint is not None
        uds = endpoint.removeprefix("unix:") if endpoint.startswith("unix:") else None
        transport = httpx.AsyncHTTPTransport(uds=uds)
        url = "http://workspace" if uds else endpoint if "://" in endpoint else f"http://{endpoint}"
        async with httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=True) as client:
            return (await client.get(url)).raise_for_status().text
    finally:
        await parts.instances.remove(workspace_id)
        await parts.volumes.delete(workspace_id, volume)


# -- by default ----------------------------------------------------------------------------------------------------


async def test_by_default_a_folder_and_processes(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    async with open_drivers(settings_of(monkeypatch), data) as drivers:
        assert list(drivers.backends) == [PROCESS]
        assert drivers.default_backend is PROCESS
        assert drivers.resources == Resources()
        assert list(drivers.checks) == [Dependency.ARCHIVES, Dependency.PROCESS]
        assert await drivers.checks[Dependency.ARCHIVES]() is None
        assert await is_up(drivers, Dependency.PROCESS)
        assert drivers.isolation()["process"]
        key = archive_key(WorkspaceId(uuid4()), OpId(uuid4()))
        await drivers.archives.make_empty(key)
        assert (data / "archives/archives" / key).exists()


async def test_a_workspace_runs_as_a_process(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    async with open_drivers(settings_of(monkeypatch, CODEHUB_IMAGES="test"), data) as drivers:
        assert drivers.images() == {PROCESS: ["test"]}
        assert await use(drivers, PROCESS, "test")


async def test_what_can_be_started_is_what_is_installed_by_now(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    async with open_drivers(settings_of(monkeypatch), data) as drivers:
        before = drivers.images()[PROCESS]
        assert "jupyterlab" not in before
        for name in ("jupyterlab", "code-server"):
            (data / "ide" / name).mkdir(parents=True)
            (data / "ide" / name / READY).touch()
        assert drivers.images() == {PROCESS: ["jupyterlab", "code-server"]}


async def test_weak_isolation_is_a_warning_not_an_outage(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    async with open_drivers(settings_of(monkeypatch, PROCESS_SANDBOX="off"), data) as drivers:
        warning = await drivers.checks[Dependency.PROCESS]()
        assert warning is not None
        assert "without a sandbox" in warning


async def test_a_required_sandbox_that_cannot_be_had_ends_the_start(
    monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    settings = settings_of(monkeypatch, PROCESS_SANDBOX="required", PROCESS_BWRAP="/bin/false")
    with pytest.raises(StartError, match="cannot be sandboxed"):
        async with open_drivers(settings, data):
            pytest.fail("it opened")


# -- places that were there and are not ----------------------------------------------------------------------------


async def test_a_folder_of_archives_that_is_gone_is_not_made_again(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    settings = settings_of(monkeypatch, ARCHIVE_URL=(data / "disk/archives").as_uri())
    async with open_drivers(settings, data):
        pass
    (data / "disk").rename(data / "away")
    async with open_drivers(settings, data) as drivers:
        with pytest.raises(Unavailable, match="Is its disk mounted"):
            await drivers.checks[Dependency.ARCHIVES]()
        assert not (data / "disk").exists()
        key = archive_key(WorkspaceId(uuid4()), OpId(uuid4()))
        assert await drivers.archives.look(key) is ArchiveSeen.UNREACHABLE, "nothing is said to be missing"
        (data / "away").rename(data / "disk")
        await eventually_async(lambda: is_up(drivers, Dependency.ARCHIVES), "the disk is mounted, and used")


@pytest.mark.parametrize("left", ["nothing", "an empty folder", "another installation's"])
async def test_homes_that_are_gone_end_the_start(monkeypatch: pytest.MonkeyPatch, data: Path, left: str) -> None:
    settings = settings_of(monkeypatch)
    async with open_drivers(settings, data):
        pass
    shutil.rmtree(data / "workspaces")
    if left != "nothing":
        (data / "workspaces").mkdir()
    if left == "another installation's":
        (data / "workspaces/codehub-workspaces").write_text("0123456789abcdef")
    with pytest.raises(StartError, match=r"Is its disk mounted\?.*workspaces-made"):
        async with open_drivers(settings, data):
            pytest.fail("it opened")
    (data / "workspaces-made").unlink()
    async with open_drivers(settings, data) as drivers:
        assert await is_up(drivers, Dependency.PROCESS)


async def test_a_home_folder_that_goes_away_is_an_outage(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    async with open_drivers(settings_of(monkeypatch), data) as drivers:
        assert await is_up(drivers, Dependency.PROCESS)
        (data / "workspaces").rename(data / "away")
        assert not await is_up(drivers, Dependency.PROCESS)


# -- a bucket ------------------------------------------------------------------------------------------------------


async def test_a_bucket_that_is_out_at_the_start_is_used_when_it_answers(
    monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    (data / "s3").mkdir()
    server = S3Server(data / "s3")
    keys = {"S3_ACCESS_KEY_ID": ACCESS_KEY, "S3_SECRET_ACCESS_KEY": SECRET_KEY, "S3_REGION": REGION}
    settings = settings_of(monkeypatch, ARCHIVE_URL=server.url, S3_ENDPOINT=server.endpoint, **keys)
    try:
        async with open_drivers(settings, data) as drivers:
            with pytest.raises(Unavailable, match="cannot be reached") as caught:
                await drivers.checks[Dependency.ARCHIVES]()
            assert SECRET_KEY not in str(caught.value)
            assert await is_up(drivers, Dependency.PROCESS), "nothing else is held up"
            await asyncio.to_thread(server.start)
            await eventually_async(lambda: is_up(drivers, Dependency.ARCHIVES), "it is used", 60)
            server.kill()
            assert not await is_up(drivers, Dependency.ARCHIVES), "an outage later is seen too"
    finally:
        server.close()


async def test_a_store_that_cannot_be_one_is_a_wrong_setting(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    for name, value in (("ARCHIVE_URL", "ftp://x"), ("ARCHIVE_PREFIX", "../x"), ("S3_CA_FILE", "/no/such/file")):
        given = {"ARCHIVE_URL": "s3://bucket", name: value}
        with pytest.raises(SettingsError, match=f"{name}={value}: "):
            async with open_drivers(settings_of(monkeypatch, **given), data):
                pytest.fail("it opened")


# -- containers ----------------------------------------------------------------------------------------------------


def docker_settings(engine: Lab, installation: str, host: str | None = None) -> dict[str, str]:
    return {
        "CODEHUB_BACKENDS": "docker,process",
        "CODEHUB_IMAGES": f"test={engine.workspace_image}",
        "CODEHUB_INSTALLATION": installation,
        "DOCKER_HOST": host or engine.host,
        "DOCKER_JOB_IMAGE": engine.job_image,
        "DOCKER_GUARD_IMAGE": engine.guard_image,
        "DOCKER_PULL": "false",
    }


@pytest.mark.exhaustive(needs="a Docker engine")
async def test_a_workspace_runs_as_a_container(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    engine = lab()
    with engine.installation() as options:
        settings = settings_of(monkeypatch, **docker_settings(engine, options.installation))
        async with open_drivers(settings, data) as drivers:
            assert list(drivers.backends) == [DOCKER, PROCESS]
            assert drivers.default_backend is DOCKER
            assert await drivers.checks[Dependency.DOCKER]() is None
            assert "firewall verified" in " ".join(drivers.isolation()["docker"])
            assert drivers.images()[DOCKER] == ["test"]
            assert await use(drivers, DOCKER, "test")


@pytest.mark.exhaustive(needs="a Docker engine")
async def test_an_engine_that_is_out_at_the_start_is_used_when_it_answers(
    monkeypatch: pytest.MonkeyPatch, data: Path
) -> None:
    engine = lab()
    socket = data / "docker.sock"
    with engine.installation() as options:
        settings = settings_of(monkeypatch, **docker_settings(engine, options.installation, f"unix://{socket}"))
        async with open_drivers(settings, data) as drivers:
            with pytest.raises(Unavailable, match="does not answer"):
                await drivers.checks[Dependency.DOCKER]()
            assert await is_up(drivers, Dependency.PROCESS), "nothing else is held up"
            socket.symlink_to(engine.host.removeprefix("unix://"))
            await eventually_async(lambda: is_up(drivers, Dependency.DOCKER), "it is used", 60)
            assert "firewall verified" in " ".join(drivers.isolation()["docker"]), "it was prepared"


async def test_an_engine_s_address_that_cannot_be_one(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    with pytest.raises(SettingsError, match="DOCKER_HOST=ssh://x"):
        async with open_drivers(settings_of(monkeypatch, CODEHUB_BACKENDS="docker", DOCKER_HOST="ssh://x"), data):
            pytest.fail("it opened")


# -- what settings become ------------------------------------------------------------------------------------------


def test_every_setting_of_the_engine_arrives(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    settings = settings_of(
        monkeypatch, CODEHUB_INSTALLATION="ours", CODEHUB_IMAGES="py=image:1", DOCKER_HOST="tcp://h:1",
        DOCKER_JOB_IMAGE="job", DOCKER_GUARD_IMAGE="guard", DOCKER_PULL="no", DOCKER_OUTBOUND="none",
        DOCKER_ALLOW="10.0.0.0/8", DOCKER_DENY="1.0.0.0/8,2.0.0.0/8", DOCKER_DNS="9.9.9.9",
        DOCKER_REQUIRE_ISOLATION="false", STOP_GRACE_SECONDS="9",
    )  # fmt: skip
    options = load.docker_options(settings, data)
    assert (options.installation, options.host, options.job_image, options.guard_image) == (
        "ours", "tcp://h:1", "job", "guard",
    )  # fmt: skip
    assert options.images == {"py": WorkspaceImage("image:1")}
    assert (options.pull, options.outbound, options.require_isolation) == (False, Outbound.NONE, False)
    assert options.stop_grace == 9
    assert (options.allow, options.deny, options.dns) == (("10.0.0.0/8",), ("1.0.0.0/8", "2.0.0.0/8"), ("9.9.9.9",))


def test_references_and_patterns_are_what_containers_run(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    given = "code-server,codercom/code-server:4,registry.example/team/*"
    settings = settings_of(monkeypatch, CODEHUB_IMAGES=given, CODEHUB_BACKENDS="docker,k8s,process")
    options = load.docker_options(settings, data)
    for ref in ("codercom/code-server:4", "registry.example/team/ide:1"):
        assert WorkspaceImage.of(options.images, ref) == WorkspaceImage(ref)
    assert WorkspaceImage.of(options.images, "code-server").image == "codehub/workspace:latest"
    for ref in ("registry.example/team/*", "registry.example/other:1", "codercom/code-server:5", "jupyterlab"):
        with pytest.raises(TerminalError, match="is not one of those"):
            WorkspaceImage.of(options.images, ref)
    assert list(WorkspaceImage.fixed(options.images)) == ["code-server", "codercom/code-server:4"]
    everything = given.split(",")
    assert offered(settings) == {"docker": everything, "k8s": everything, "process": ["code-server"]}


def test_every_setting_of_processes_arrives(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    settings = settings_of(
        monkeypatch, PROCESS_SANDBOX="required", PROCESS_NETWORK="none", PROCESS_ALLOW="10.0.0.0/8",
        PROCESS_DENY="1.0.0.0/8", PROCESS_USERS="100000-100009", PROCESS_START_SECONDS="7", PROCESS_BWRAP="/b",
        PROCESS_CGROUP="/c",
    )  # fmt: skip
    options = load.process_options(settings, data)
    assert (options.root, options.sandbox, options.network) == (data, "required", "none")
    assert (options.allow, options.deny, options.users) == (("10.0.0.0/8",), ("1.0.0.0/8",), range(100000, 100010))
    assert (options.start_seconds, options.bwrap, options.cgroup) == (7, "/b", Path("/c"))


def test_resources_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    none = {"WORKSPACE_CPUS": "0", "WORKSPACE_MEMORY": "0", "WORKSPACE_PIDS": "0"}
    assert load.resources_of(settings_of(monkeypatch, **none)) == Resources(None, None, None)
    some = {"WORKSPACE_CPUS": "0.5", "WORKSPACE_MEMORY": "1GiB", "WORKSPACE_PIDS": "99"}
    assert load.resources_of(settings_of(monkeypatch, **some)) == Resources(0.5, 1 << 30, 99)


def test_an_installation_is_named_once(monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
    settings = settings_of(monkeypatch)
    (data / "other").mkdir()
    name = load.docker_options(settings, data).installation
    assert load.docker_options(settings, data).installation == name
    assert load.docker_options(settings, data / "other").installation != name


def test_names_of_images_for_each_kind_of_backend() -> None:
    assert list(for_processes({}).ides) == ["jupyterlab", "code-server"]
    assert list(for_containers({})) == ["code-server"]
    mixed = {"code-server": "mine:2", "python": "py:3"}
    assert list(for_processes(mixed).ides) == ["code-server"]
    assert {name: found.image for name, found in for_containers(mixed).items()} == {
        "code-server": "mine:2", "python": "py:3",
    }  # fmt: skip


def test_names_that_nothing_is_known_about() -> None:
    for translate in (for_processes, for_containers):
        with pytest.raises(SettingsError, match=r"emacs is none of code-server, jupyterlab; .* emacs=image"):
            translate({"emacs": None})
    with pytest.raises(SettingsError, match="`process` can run none of these"):
        for_processes({"python": "py:3"})


# -- trying again --------------------------------------------------------------------------------------------------


async def test_a_bug_while_preparing_is_an_outage_without_details() -> None:
    tries = 0

    async def prepare() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise RuntimeError("inside")

    preparing = Preparing("it", prepare, wait=0.01)
    with pytest.raises(Unavailable, match="being prepared"):
        preparing.check()
    running = asyncio.create_task(preparing.run())
    await preparing.tried.wait()
    with pytest.raises(Unavailable, match="the log has the details"):
        preparing.check()
    await running
    preparing.check()
    assert tries == 3


async def test_what_may_be_undone_is_prepared_again_and_again() -> None:
    prepared = 0

    async def prepare() -> None:
        nonlocal prepared
        prepared += 1
        if prepared == 2:
            raise Unreachable("Somebody undid it.")

    async def often() -> bool:
        return prepared > 4

    preparing = Preparing("it", prepare, wait=0.01, every=0.01)
    async with background(preparing.run()):
        await eventually_async(often, "it is prepared again")
    preparing.check()
