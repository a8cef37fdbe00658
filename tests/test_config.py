"""Settings: what the environment may say, and what is said about mistakes in it."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from codehub.config import Settings, setting_names
from codehub.errors import SettingsError


def load(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Settings:
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Settings.load()


def mistakes(monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(monkeypatch, **environment)
    assert caught.value.exit_code == 2
    return caught.value.message.splitlines()


def test_the_defaults_are_the_specification_s(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch)
    assert (settings.coordinator.idle_interval, settings.coordinator.active_interval) == (15, 1)
    assert settings.coordinator.active_duration == 30
    assert (settings.coordinator.ttl_interval, settings.coordinator.gc_interval) == (60, 4 * 3600)
    assert (settings.ttl.standby_seconds, settings.ttl.archive_seconds) == (600, 1800)
    assert settings.activity.flush_interval == 30
    assert (settings.limits.max_running_per_user, settings.limits.max_running_global) == (2, 100)
    assert settings.retry.max_retry == 3
    assert settings.gc.trash_retention_seconds == 7 * 24 * 3600
    assert settings.gc.orphan_delay_seconds == 2 * 3600
    assert settings.redis_channels.sse_prefix == "codehub:sse:"
    assert settings.redis_channels.wake_prefix == "codehub:wake:"
    assert settings.server.host == "127.0.0.1"


def test_every_setting_is_read_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, COORDINATOR_IDLE_INTERVAL="20", TTL_ARCHIVE_SECONDS="0", CODEHUB_PORT="9000")
    assert settings.coordinator.idle_interval == 20
    assert settings.ttl.archive_seconds == 0
    assert settings.server.port == 9000


def test_an_empty_variable_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch, CODEHUB_PORT="").server.port == 8080


def test_secrets_may_be_in_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "S3_SECRET_ACCESS_KEY").write_text("from the file\n")
    (tmp_path / "S3_ACCESS_KEY_ID").write_text("id of the file")
    (tmp_path / "CODEHUB_ADMIN_PASSWORD").write_text("")
    (tmp_path / "somebody-else-s").mkdir()
    settings = load(monkeypatch, CODEHUB_SECRETS_DIR=str(tmp_path), S3_ACCESS_KEY_ID="of the environment")
    assert settings.store.secret_access_key == SecretStr("from the file")
    assert settings.store.access_key_id == "of the environment", "the environment goes before files"
    assert settings.accounts.admin_password is None, "an empty file is the default"


def test_files_that_cannot_be_meant_stop_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "CODEHUB_ADMIN_PASWORD").write_text("secret")
    (tmp_path / "DATABASE_URL").mkdir()
    (tmp_path / "REDIS_URL").write_bytes(b"redis://\xff")
    assert mistakes(monkeypatch, CODEHUB_SECRETS_DIR=str(tmp_path)) == [
        "CODEHUB_ADMIN_PASWORD: there is no such setting; did you mean CODEHUB_ADMIN_PASSWORD?",
        f"DATABASE_URL: the file {tmp_path}/DATABASE_URL cannot be read: is a directory.",
        f"REDIS_URL: the file {tmp_path}/REDIS_URL cannot be read: it is not text.",
    ]
    gone = tmp_path / "gone"
    assert mistakes(monkeypatch, CODEHUB_SECRETS_DIR=str(gone)) == [
        f"CODEHUB_SECRETS_DIR={gone}: cannot be read: no such file or directory."
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CODEHUB_PORT", "eighty"),
        ("CODEHUB_PORT", "70000"),
        ("TTL_STANDBY_SECONDS", "59"),
        ("TTL_STANDBY_SECONDS", "-1"),
        ("COORDINATOR_IDLE_INTERVAL", "0"),
        ("MAX_RUNNING_PER_USER", "0"),
        ("MAX_RETRY", "many"),
        ("CODEHUB_LOG_LEVEL", "loud"),
        ("TRASH_RETENTION_SECONDS", "-5"),
        ("TRASH_RETENTION_SECONDS", "1000000000000"),
        ("COORDINATOR_IDLE_INTERVAL", "inf"),
        ("DATABASE_POOL_SIZE", "100000"),
        ("CODEHUB_BACKENDS", "podman"),
        ("CODEHUB_IMAGES", "a=b c"),
        ("CODEHUB_IMAGES", "../etc"),
        ("CODEHUB_INSTALLATION", "Ours!"),
        ("S3_ENDPOINT", "ftp://here"),
        ("ARCHIVE_REQUEST_TIMEOUT", "0"),
        ("DOCKER_OUTBOUND", "some"),
        ("DOCKER_ALLOW", "10.0.0.1/8"),
        ("DOCKER_DENY", "fd00::/8"),
        ("DOCKER_DNS", "resolver"),
        ("DOCKER_PULL", "sometimes"),
        ("PROCESS_SANDBOX", "maybe"),
        ("PROCESS_DENY", "everything"),
        ("PROCESS_USERS", "0-1000"),
        ("PROCESS_USERS", "200000-100000"),
        ("WORKSPACE_CPUS", "-1"),
        ("WORKSPACE_CPUS", "nan"),
        ("WORKSPACE_MEMORY", "4 gigs"),
        ("WORKSPACE_MEMORY", "1MiB"),
        ("WORKSPACE_PIDS", "3"),
    ],
)
def test_a_wrong_value_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    (line,) = mistakes(monkeypatch, **{name: value})
    assert line.startswith(f"{name}={value}: ")


def test_all_mistakes_are_reported_together(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = mistakes(monkeypatch, CODEHUB_PORT="x", TTL_STANDBY_SECONDS="1", CODEHUB_PROT="1")
    assert len(lines) == 3


def test_a_misspelt_name_is_refused_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = mistakes(monkeypatch, CODEHUB_DATADIR="/tmp/x")
    assert line == "CODEHUB_DATADIR: there is no such setting; did you mean CODEHUB_DATA_DIR?"


def test_the_active_interval_may_not_be_the_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = mistakes(monkeypatch, COORDINATOR_ACTIVE_INTERVAL="20")
    assert "COORDINATOR_ACTIVE_INTERVAL must not be longer" in line


def test_settings_cannot_be_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch)
    with pytest.raises(ValidationError):
        settings.server.port = 1


def test_a_secret_is_not_in_what_a_setting_prints_as(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, DATABASE_URL="postgresql://u:hunter2@h/d")
    assert "hunter2" not in repr(settings)


def test_lists_are_words_with_commas_between(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, CODEHUB_BACKENDS="docker, process", PROCESS_ALLOW="10.0.0.0/8,fd00::/8")
    assert settings.backends.enabled == ("docker", "process")
    assert settings.process.allow == ("10.0.0.0/8", "fd00::/8")
    assert settings.docker.dns == ()


def test_new_workspaces_get_the_first_backend_or_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch).backends.first == "process"
    assert load(monkeypatch, CODEHUB_BACKENDS="docker,process").backends.first == "docker"
    both = {"CODEHUB_BACKENDS": "docker,process", "CODEHUB_DEFAULT_BACKEND": "process"}
    assert load(monkeypatch, **both).backends.first == "process"
    (line,) = mistakes(monkeypatch, CODEHUB_DEFAULT_BACKEND="docker")
    assert line == "CODEHUB_DEFAULT_BACKEND=docker must be one of CODEHUB_BACKENDS=process."


def test_nothing_is_named_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ({"CODEHUB_BACKENDS": "process,process"}, {"CODEHUB_IMAGES": "a=x,a=y"}):
        (line,) = mistakes(monkeypatch, **given)
        assert line.endswith(": must not name anything twice.")


def test_images_are_names_with_or_without_what_they_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(monkeypatch, CODEHUB_IMAGES="code-server,python=registry.example:5000/team/py@sha256:ab")
    assert settings.backends.image_of == {"code-server": None, "python": "registry.example:5000/team/py@sha256:ab"}


def test_images_are_references_and_patterns_of_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = ("codercom/code-server:latest", f"registry.example:5000/x@sha256:{'0' * 64}", "registry.example/team/*")
    assert load(monkeypatch, CODEHUB_IMAGES=",".join(entries)).backends.image_of == dict.fromkeys(entries)
    for wrong in ("registry.example/../x", "http://registry.example/x", "a/b:c d", "team/*;x"):
        (line,) = mistakes(monkeypatch, CODEHUB_IMAGES=wrong)
        assert "registry.example/team/*" in line


@pytest.mark.parametrize(
    ("text", "size", "written"),
    [
        ("1073741824", 1 << 30, "1GiB"),
        ("512MiB", 512 << 20, "512MiB"),
        ("1536 MiB", 1536 << 20, "1536MiB"),
        ("0", 0, "0"),
    ],
)
def test_sizes_are_bytes_or_have_a_unit(monkeypatch: pytest.MonkeyPatch, text: str, size: int, written: str) -> None:
    memory = load(monkeypatch, WORKSPACE_MEMORY=text).resources.memory
    assert (memory, str(memory)) == (size, written)


def test_the_keys_of_a_bucket_come_in_pairs_and_stay_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ({"S3_ACCESS_KEY_ID": "me"}, {"S3_SECRET_ACCESS_KEY": "hunter2"}, {"S3_SESSION_TOKEN": "hunter2"}):
        (line,) = mistakes(monkeypatch, **given)
        assert "S3_SECRET_ACCESS_KEY" in line
        assert "hunter2" not in line
    settings = load(monkeypatch, S3_ACCESS_KEY_ID="me", S3_SECRET_ACCESS_KEY="hunter2")
    assert "hunter2" not in repr(settings)


def test_user_ids_are_a_range_with_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(monkeypatch).process.user_range == range(1_900_000_000, 1_900_065_536)
    assert list(load(monkeypatch, PROCESS_USERS="100000-100001").process.user_range) == [100000, 100001]
