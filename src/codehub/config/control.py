"""Settings of the control plane: where it listens, what it stores, how often it works, and the limits it keeps."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from codehub.config.values import Count, Group, Interval, Networks, Rate, Seconds, Ttl
from codehub.model.workspace import Operation


class ServerConfig(Group):
    """Where CodeHub listens, and where it keeps what it needs."""

    host: str = Field("127.0.0.1", validation_alias="CODEHUB_HOST", description="Address to listen on.")
    port: int = Field(
        8080, ge=0, le=65535, validation_alias="CODEHUB_PORT", description="Port to listen on; 0 takes a free one."
    )
    health_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        validation_alias="CODEHUB_HEALTH_PORT",
        description="Port on which `codehub api`, `codehub coordinator` and `codehub proxy` answer `/healthz`, "
        "`/readyz` and `/metrics` about themselves, to whoever reaches it. Default: none.",
    )
    health_host: str = Field(
        "127.0.0.1",
        validation_alias="CODEHUB_HEALTH_HOST",
        description="Address of that port. Whoever reaches it is told everything: 0.0.0.0 is for a network of our own.",
    )
    drain_delay: float = Field(
        0,
        ge=0,
        le=600,
        allow_inf_nan=False,
        validation_alias="CODEHUB_DRAIN_DELAY",
        description="Seconds that `codehub api` and `codehub proxy` go on taking requests after SIGTERM while "
        "`/readyz` already says `draining`: as long as a load balancer needs to notice.",
    )
    drain_requests: int = Field(
        10,
        ge=1,
        le=600,
        validation_alias="CODEHUB_DRAIN_REQUESTS",
        description="Seconds that requests under way may still take when a process stops.",
    )
    drain_websockets: float = Field(
        15,
        gt=0,
        le=86400,
        allow_inf_nan=False,
        validation_alias="CODEHUB_DRAIN_WEBSOCKETS",
        description="Seconds that WebSockets stay open when the proxy stops; it takes nothing new meanwhile.",
    )
    health_networks: Networks = Field(
        ("127.0.0.0/8", "::1/128"),
        validation_alias="CODEHUB_HEALTH_NETWORKS",
        description="Networks, separated by commas, from which `/metrics` and the details in `/readyz` may be read at "
        "the public port and the API's; everybody else is told whether all is well. Default: this machine.",
    )
    data_dir: Path | None = Field(
        None,
        validation_alias="CODEHUB_DATA_DIR",
        description="Folder for databases and secrets. Default: `~/.codehub`, for root `/var/lib/codehub`.",
    )
    secrets_dir: Path | None = Field(
        None,
        validation_alias="CODEHUB_SECRETS_DIR",
        description="Folder whose files are settings, too: a file `DATABASE_URL` is read as the variable of that name, "
        "which goes before it. Default: none.",
    )
    tls_cert: Path | None = Field(
        None,
        validation_alias="CODEHUB_TLS_CERT",
        description="Certificate of the public port with its chain (PEM); a renewed one is taken up by itself. "
        "Default: no TLS.",
    )
    tls_key: Path | None = Field(
        None, validation_alias="CODEHUB_TLS_KEY", description="The certificate's key (PEM), without a password."
    )
    embedded_user: str | None = Field(
        None,
        validation_alias="CODEHUB_EMBEDDED_USER",
        description="Account the embedded servers run as when CodeHub runs as root. "
        "Default: `codehub`, which the first start as root makes; `nobody` where that is not possible.",
    )

    @model_validator(mode="after")
    def _belong_together(self) -> Self:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("CODEHUB_TLS_CERT and CODEHUB_TLS_KEY must be set together")
        return self


class LogConfig(Group):
    """What is logged, and how."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", validation_alias="CODEHUB_LOG_LEVEL", description="The least important messages to log."
    )
    format: Literal["auto", "text", "json"] = Field(
        "auto",
        validation_alias="CODEHUB_LOG_FORMAT",
        description="`auto` is text on a terminal and JSON elsewhere. "
        "`codehub up` logs to `logs/codehub.log` in the data directory, and to standard error if that is no terminal.",
    )


class DatabaseConfig(Group):
    """PostgreSQL."""

    url: SecretStr | None = Field(
        None,
        validation_alias="DATABASE_URL",
        description="PostgreSQL to use, as `postgresql://user:password@host/database`. Default: an embedded one.",
    )
    api_url: SecretStr | None = Field(
        None,
        validation_alias="API_DATABASE_URL",
        description="The same database with another user: the login that `codehub api` is to have as its "
        "`DATABASE_URL`. `codehub migrate` makes it, a member of the role `codehub_api` alone. Default: none.",
    )
    proxy_url: SecretStr | None = Field(
        None,
        validation_alias="PROXY_DATABASE_URL",
        description="The same for `codehub proxy` and the role `codehub_proxy`. Default: none.",
    )
    pool_size: int = Field(
        10, ge=1, le=80, validation_alias="DATABASE_POOL_SIZE", description="Most connections of one process."
    )


class RedisConfig(Group):
    """Redis or Valkey: hints and buffers, whose loss costs latency, never data."""

    url: SecretStr | None = Field(
        None,
        validation_alias="REDIS_URL",
        description="Redis or Valkey to use, as `redis://:password@host:6379/0`. Default: an embedded one.",
    )


class RedisChannelConfig(Group):
    """Names of the channels that events travel on."""

    sse_prefix: str = Field(
        "codehub:sse:",
        validation_alias="REDIS_CHANNEL_SSE_PREFIX",
        description="Followed by a user's id: changes to show.",
    )
    wake_prefix: str = Field(
        "codehub:wake:",
        validation_alias="REDIS_CHANNEL_WAKE_PREFIX",
        description="Followed by a part's name: hints to look now.",
    )


class CoordinatorConfig(Group):
    """How often the coordinator's parts work, in seconds."""

    idle_interval: Interval = Field(
        15, validation_alias="COORDINATOR_IDLE_INTERVAL", description="Seconds between ticks while nothing happens."
    )
    active_interval: Interval = Field(
        1, validation_alias="COORDINATOR_ACTIVE_INTERVAL", description="Seconds between ticks while something happens."
    )
    active_duration: Interval = Field(
        30, validation_alias="COORDINATOR_ACTIVE_DURATION", description="Seconds that a wake-up keeps ticks frequent."
    )
    ttl_interval: Interval = Field(
        60, validation_alias="COORDINATOR_TTL_INTERVAL", description="Seconds between looks for idle workspaces."
    )
    gc_interval: Interval = Field(
        14400,
        validation_alias="COORDINATOR_GC_INTERVAL",
        description="Seconds between collections of orphaned archives.",
    )

    sweep_rate: Rate = Field(
        15,
        validation_alias="COORDINATOR_SWEEP_RATE",
        description="Workspaces per second that are looked at although nothing seems to have happened to them.",
    )

    @model_validator(mode="after")
    def _active_is_quicker(self) -> Self:
        if self.active_interval > self.idle_interval:
            raise ValueError("COORDINATOR_ACTIVE_INTERVAL must not be longer than COORDINATOR_IDLE_INTERVAL")
        return self


class TtlConfig(Group):
    """After how long an unused workspace stops and is archived; copied into each workspace when it is made."""

    standby_seconds: Ttl = Field(
        600,
        validation_alias="TTL_STANDBY_SECONDS",
        description="Seconds without activity until a workspace stops; 0 is never. Advice for production: 10800.",
    )
    archive_seconds: Ttl = Field(
        1800,
        validation_alias="TTL_ARCHIVE_SECONDS",
        description="Seconds until a stopped workspace is archived; 0 is never. Advice for production: 86400.",
    )


class ActivityConfig(Group):
    """How activity seen by proxies is gathered."""

    flush_interval: Interval = Field(
        30, validation_alias="ACTIVITY_FLUSH_INTERVAL", description="Seconds between a proxy's reports of activity."
    )


class LimitsConfig(Group):
    """How many workspaces there may be, and may run at once, and how many homes may be moved at once."""

    max_workspaces_per_user: Count = Field(
        200, validation_alias="MAX_WORKSPACES_PER_USER", description="Workspaces per user, without deleted ones."
    )
    max_running_per_user: Count = Field(
        2, validation_alias="MAX_RUNNING_PER_USER", description="Running workspaces per user."
    )
    max_running_global: Count = Field(
        100, validation_alias="MAX_RUNNING_GLOBAL", description="Running workspaces in all."
    )
    max_jobs_per_node: Count | None = Field(
        None,
        validation_alias="MAX_JOBS_PER_NODE",
        description="Storage jobs (archiving, restoring) at once on one machine; the others wait in a queue, and one "
        "place is left to restores. For `process` and `docker`; a cluster places jobs itself. "
        "Default: a core and a GiB of memory for each, at least 2.",
    )
    max_jobs_global: Count = Field(
        32, validation_alias="MAX_JOBS_GLOBAL", description="Storage jobs at once in all, `k8s` included."
    )


class RetryConfig(Group):
    """When failing operations are given up."""

    max_retry: Count = Field(
        3, validation_alias="MAX_RETRY", description="Failed attempts after which a person must recover."
    )


class OperationConfig(Group):
    """How long an operation may take before it is given up; outages do not count."""

    provisioning: Interval = Field(
        120, validation_alias="OPERATION_TIMEOUT_PROVISIONING", description="Seconds until a blank home must be made."
    )
    restoring: Interval = Field(
        600,
        validation_alias="OPERATION_TIMEOUT_RESTORING",
        description="Seconds until a restore must have got further.",
    )
    starting: Interval = Field(
        300, validation_alias="OPERATION_TIMEOUT_STARTING", description="Seconds until a container must be ready."
    )
    stopping: Interval = Field(
        180, validation_alias="OPERATION_TIMEOUT_STOPPING", description="Seconds until a container must be gone."
    )
    archiving: Interval = Field(
        600,
        validation_alias="OPERATION_TIMEOUT_ARCHIVING",
        description="Seconds until an archiving must have got further.",
    )
    create_empty_archive: Interval = Field(
        300,
        validation_alias="OPERATION_TIMEOUT_CREATE_EMPTY_ARCHIVE",
        description="Seconds until a first archive must be made.",
    )
    deleting: Interval = Field(
        300,
        validation_alias="OPERATION_TIMEOUT_DELETING",
        description="Seconds until a deleted workspace's container and home must be gone.",
    )

    def limits(self) -> dict[Operation, float]:
        """Each operation's limit, in seconds."""
        return {
            operation: getattr(self, operation.lower()) for operation in Operation if operation is not Operation.NONE
        }


class HistoryConfig(Group):
    """How long it is remembered what happened."""

    retention_seconds: Seconds = Field(
        7776000, validation_alias="HISTORY_RETENTION_SECONDS", description="Seconds that a line of history is kept."
    )
    audit_retention_days: int = Field(
        365,
        ge=0,
        le=3650,
        validation_alias="AUDIT_RETENTION_DAYS",
        description="Days that an entry of the audit log (who did what) is kept; 0 is for ever.",
    )


class GcConfig(Group):
    """When archives that nobody needs are removed."""

    trash_retention_seconds: Seconds = Field(
        604800,
        validation_alias="TRASH_RETENTION_SECONDS",
        description="Seconds that a deleted workspace can be undeleted.",
    )
    orphan_delay_seconds: Seconds = Field(
        7200,
        validation_alias="GC_ORPHAN_DELAY_SECONDS",
        description="Seconds that an archive must have been an orphan.",
    )
