"""Settings: what the environment may say, and what is said about mistakes in it."""

import pytest
from pydantic import ValidationError

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
