"""Settings: every environment variable CodeHub reads, what it means, and what it may be; secrets may be in files.

Settings are read once, checked at once and passed on as frozen values; nothing reads the environment later. All
mistakes are reported together, one line each, without ever showing a secret. docs/settings.md is made from these files.
"""

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from codehub.config.accounts import AccountConfig, OidcConfig
from codehub.config.control import (
    ActivityConfig,
    CoordinatorConfig,
    DatabaseConfig,
    GcConfig,
    HistoryConfig,
    LimitsConfig,
    LogConfig,
    OperationConfig,
    RedisChannelConfig,
    RedisConfig,
    RetryConfig,
    ServerConfig,
    TtlConfig,
)
from codehub.config.dataplane import BackendConfig, DockerConfig, ProcessConfig, ResourcesConfig, StoreConfig
from codehub.config.kubernetes import KubernetesConfig
from codehub.config.proxy import ProxyConfig
from codehub.config.tracing import TracingConfig
from codehub.config.values import Group
from codehub.errors import SettingsError

__all__ = [
    "AccountConfig",
    "ActivityConfig",
    "BackendConfig",
    "CoordinatorConfig",
    "DatabaseConfig",
    "DockerConfig",
    "GcConfig",
    "Group",
    "HistoryConfig",
    "KubernetesConfig",
    "LimitsConfig",
    "LogConfig",
    "OidcConfig",
    "OperationConfig",
    "ProcessConfig",
    "ProxyConfig",
    "RedisChannelConfig",
    "RedisConfig",
    "ResourcesConfig",
    "RetryConfig",
    "ServerConfig",
    "Settings",
    "StoreConfig",
    "TracingConfig",
    "TtlConfig",
    "group_types",
    "setting_names",
]


class Settings(BaseModel):
    """All groups."""

    model_config = ConfigDict(frozen=True)

    server: ServerConfig
    log: LogConfig
    tracing: TracingConfig
    accounts: AccountConfig
    oidc: OidcConfig
    database: DatabaseConfig
    redis: RedisConfig
    redis_channels: RedisChannelConfig
    coordinator: CoordinatorConfig
    ttl: TtlConfig
    activity: ActivityConfig
    proxy: ProxyConfig
    limits: LimitsConfig
    retry: RetryConfig
    operations: OperationConfig
    history: HistoryConfig
    gc: GcConfig
    store: StoreConfig
    backends: BackendConfig
    resources: ResourcesConfig
    process: ProcessConfig
    docker: DockerConfig
    kubernetes: KubernetesConfig

    @classmethod
    def load(cls) -> Self:
        """Read the environment and the files, or raise SettingsError with one line for every mistake in them."""
        groups: dict[str, Group] = {}
        in_files, mistakes = read_files(os.environ.get(SECRETS_DIR) or None)
        mistakes = unknown_names(os.environ) + mistakes
        in_files = {name: text for name, text in in_files.items() if not os.environ.get(name)}
        for name, group in group_types().items():
            try:
                groups[name] = group(**{key: in_files[key] for key in group.variables() if key in in_files})
            except ValidationError as error:
                mistakes += mistakes_of(group, error)
        if mistakes:
            raise SettingsError("\n".join(mistakes))
        return cls.model_validate(groups)


SECRETS_DIR = "CODEHUB_SECRETS_DIR"

# Read by the test suite, and by commands that speak to a server (cli/connecting.py).
_OTHER_NAMES = ("CODEHUB_REQUIRE", "CODEHUB_LAB_", "CODEHUB_TEST_", "CODEHUB_URL", "CODEHUB_TOKEN", "CODEHUB_PASSWORD")


def group_types() -> dict[str, type[Group]]:
    """The groups by their name in Settings."""
    found = {name: field.annotation for name, field in Settings.model_fields.items()}
    return {name: group for name, group in found.items() if isinstance(group, type) and issubclass(group, Group)}


def setting_names() -> list[str]:
    """Every environment variable there is."""
    return [name for group in group_types().values() for name in group.variables()]


def unknown_names(environment: Mapping[str, str]) -> list[str]:
    """A line for each variable that looks like ours and is not: a typing mistake must not be silent."""
    known = setting_names()
    lines = []
    for name in sorted(environment):
        if not name.startswith("CODEHUB_") or name in known or name.startswith(_OTHER_NAMES):
            continue
        close = difflib.get_close_matches(name, known, n=1)
        lines.append(f"{name}: there is no such setting" + (f"; did you mean {close[0]}?" if close else "."))
    return lines


def read_files(folder: str | None) -> tuple[dict[str, str], list[str]]:
    """The settings that are files of that folder, and a line for each that cannot be read or is none of ours."""
    try:
        names = sorted(entry.name for entry in Path(folder).iterdir()) if folder else []
    except OSError as error:
        return {}, [f"{SECRETS_DIR}={folder}: cannot be read: {(error.strerror or str(error)).lower()}."]
    found: dict[str, str] = {}
    mistakes = unknown_names(dict.fromkeys(names, ""))
    for path in (Path(folder or "") / name for name in names if name in setting_names()):
        try:
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            mistakes.append(f"{path.name}: the file {path} cannot be read: {(reason or str(error)).lower()}.")
        else:
            found |= {path.name: text} if text else {}
    return found, mistakes


def mistakes_of(group: type[Group], error: ValidationError) -> list[str]:
    """A line for each mistake; what was given is shown unless it is a secret."""
    secrets = {name for name, field in group.variables().items() if "Secret" in str(field.annotation)}
    lines = []
    for mistake in error.errors():
        name = str(mistake["loc"][0]) if mistake["loc"] else ""
        what = mistake["msg"].removeprefix("Value error, ")
        what = what[0].lower() + what[1:] if name else what
        given = "" if name in secrets or not name else f"={mistake['input']}"
        lines.append(f"{name}{given}: {what}." if name else f"{what}.")
    return lines
