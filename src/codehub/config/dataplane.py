"""Settings of the data plane: where workspaces run, what they may use and reach, and where archives are kept."""

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from codehub.config.values import Addresses4, Bytes, Group, Interval, Networks, Networks4, Size, Words
from codehub.model.images import is_pattern, is_reference

_IMAGE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}(=[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511})?")
_ENDPOINT = re.compile(r"https?://[^/@\s]+/?")
_INDEX = re.compile(r"https?://[A-Za-z0-9._-]+(:[1-9][0-9]{0,4})?(/[^\s@]*)?")
_INSTALLATION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_USERS = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")
_FIRST_USER, _LAST_USER = 65536, 2**31 - 1  # below are people and services of the machine
_LEAST_MEMORY = 64 << 20
_LEAST_PIDS = 32


def _backends(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if name not in ("process", "docker", "k8s"):
            raise ValueError("must be some of process, docker and k8s, separated by commas")
    if not names:
        raise ValueError("must name at least one of process, docker and k8s")
    return names


def _images(entries: tuple[str, ...]) -> tuple[str, ...]:
    names = [entry.partition("=")[0] for entry in entries]
    if not all(_IMAGE.fullmatch(entry) or is_reference(entry) or is_pattern(entry) for entry in entries):
        raise ValueError(
            "must be names, names with an image as in name=image, image references, or patterns of them as in "
            "registry.example/team/*, separated by commas"
        )
    if len(set(names)) != len(names):
        raise ValueError("must not name anything twice")
    return entries


def _endpoint(text: str) -> str:
    if not _ENDPOINT.fullmatch(text):
        raise ValueError("must be http://host:port or https://host:port")
    return text


def _installation(text: str) -> str:
    if not _INSTALLATION.fullmatch(text):
        raise ValueError("must be a few of a-z, 0-9 and -")
    return text


def _index(text: str) -> str:
    if not _INDEX.fullmatch(text):
        raise ValueError("must be https://host/path or http://host:port/path, without a password")
    return text


def _users(text: str) -> str:
    found = _USERS.fullmatch(text)
    if found is None or not _FIRST_USER <= int(found[1]) <= int(found[2]) <= _LAST_USER:
        raise ValueError(f"must be first-last, both from {_FIRST_USER} to {_LAST_USER}")
    return text


def _memory(size: Size) -> Size:
    if 0 < size < _LEAST_MEMORY:
        raise ValueError(f"must be 0 (no limit) or at least {Size(_LEAST_MEMORY)}")
    return size


def _pids(count: int) -> int:
    if 0 < count < _LEAST_PIDS:
        raise ValueError(f"must be 0 (no limit) or at least {_LEAST_PIDS}")
    return count


class StoreConfig(Group):
    """Where archives are kept: a folder, or a bucket of any S3 server."""

    url: str | None = Field(
        None,
        validation_alias="ARCHIVE_URL",
        description="`file:///folder` or `s3://bucket`. Default: the folder `archives` in the data directory.",
    )
    prefix: str = Field(
        "archives/", validation_alias="ARCHIVE_PREFIX", description="Folders in it that everything of ours is under."
    )
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = Field(
        None,
        validation_alias="S3_ENDPOINT",
        description="The S3 server, as `https://host:port`. Default: AWS.",
    )
    access_key_id: str | None = Field(
        None,
        validation_alias="S3_ACCESS_KEY_ID",
        description="Default: what AWS provides (environment, instance, web identity); an archive then has at most "
        "625 GiB.",
    )
    secret_access_key: SecretStr | None = Field(
        None, validation_alias="S3_SECRET_ACCESS_KEY", description="Belongs to `S3_ACCESS_KEY_ID`."
    )
    session_token: SecretStr | None = Field(
        None, validation_alias="S3_SESSION_TOKEN", description="Of temporary credentials."
    )
    region: str = Field("us-east-1", validation_alias="S3_REGION", description="The bucket's region.")
    virtual_hosted: bool = Field(
        False,
        validation_alias="S3_VIRTUAL_HOSTED",
        description="Whether the bucket is in the host's name instead of the path.",
    )
    ca_file: Path | None = Field(
        None, validation_alias="S3_CA_FILE", description="Certificates (PEM) to trust. Default: the machine's."
    )
    request_timeout: Interval = Field(
        5, validation_alias="ARCHIVE_REQUEST_TIMEOUT", description="Seconds that one small request may take."
    )
    progress_timeout: Interval = Field(
        30,
        validation_alias="ARCHIVE_PROGRESS_TIMEOUT",
        description="Seconds that a long transfer may go without getting further.",
    )

    @model_validator(mode="after")
    def _both_keys_or_neither(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY must be set together")
        if self.session_token is not None and self.access_key_id is None:
            raise ValueError("S3_SESSION_TOKEN needs S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY")
        return self


class BackendConfig(Group):
    """Where workspaces run, and which kinds of them there are."""

    enabled: Annotated[Words, AfterValidator(_backends)] = Field(
        ("process",),
        validation_alias="CODEHUB_BACKENDS",
        description="`process` (sandboxed processes of this machine), `docker`, `k8s`, or several.",
    )
    default: str | None = Field(
        None,
        validation_alias="CODEHUB_DEFAULT_BACKEND",
        description="The one that new workspaces get. Default: the first of `CODEHUB_BACKENDS`.",
    )
    images: Annotated[Words, AfterValidator(_images)] = Field(
        (),
        validation_alias="CODEHUB_IMAGES",
        description="What workspaces may be, as `name`, `name=image`, an image reference (`codercom/code-server:4`) or "
        "a pattern of them (`registry.example/team/*`): `name` alone is one of `codehub ide list`; containers run the "
        "image, which must listen on port 8080. "
        "Default: `jupyterlab,code-server` for `process`, `code-server` for `docker` and `k8s`.",
    )

    stop_grace: Annotated[int, Field(ge=0, le=60)] = Field(
        0,
        validation_alias="STOP_GRACE_SECONDS",
        description="Seconds that a workspace has to end by itself after SIGTERM, before it is killed. Its home is "
        "kept either way. On Kubernetes at least 1.",
    )

    @model_validator(mode="after")
    def _default_is_enabled(self) -> Self:
        if self.default is not None and self.default not in self.enabled:
            raise ValueError(
                f"CODEHUB_DEFAULT_BACKEND={self.default} must be one of CODEHUB_BACKENDS={','.join(self.enabled)}"
            )
        return self

    @property
    def first(self) -> str:
        """What new workspaces get."""
        return self.default or self.enabled[0]

    @property
    def image_of(self) -> dict[str, str | None]:
        """The names with their images; None is the catalogue's, and of references and patterns, which are their own."""
        return {name: image or None for name, _, image in (entry.partition("=") for entry in self.images)}


class ResourcesConfig(Group):
    """What one running workspace may use at most; 0 is no limit."""

    cpus: float = Field(
        2, ge=0, le=4096, allow_inf_nan=False, validation_alias="WORKSPACE_CPUS", description="Processors; may be 0.5."
    )
    memory: Annotated[Bytes, AfterValidator(_memory)] = Field(
        Size(4 << 30), validation_alias="WORKSPACE_MEMORY", description="Memory, in bytes or as `4GiB`."
    )
    pids: Annotated[int, Field(ge=0, le=4_000_000), AfterValidator(_pids)] = Field(
        1024, validation_alias="WORKSPACE_PIDS", description="Processes and threads."
    )
    pip_index: Annotated[str, AfterValidator(_index)] | None = Field(
        None,
        validation_alias="WORKSPACE_PIP_INDEX",
        description="The Python package index that pip and uv in workspaces use, as `https://host/simple`; without a "
        "password, since workspaces read it. The backend `process` lets workspaces reach it wherever it is. "
        "Default: for `process` that of this machine's pip, if it needs no password; else pip's own.",
    )


class ProcessConfig(Group):
    """Workspaces as processes of this machine."""

    sandbox: Literal["auto", "required", "off"] = Field(
        "auto",
        validation_alias="PROCESS_SANDBOX",
        description="`auto` uses bubblewrap where it works, `required` refuses to start without.",
    )
    seccomp: Literal["auto", "off"] = Field(
        "auto",
        validation_alias="PROCESS_SECCOMP",
        description="`auto` refuses workspaces the system calls that a container does not get by default, where the "
        "kernel can filter them.",
    )
    install_sandbox: bool = Field(
        True,
        validation_alias="PROCESS_INSTALL_SANDBOX",
        description="Have `codehub up` install bubblewrap where it is missing and nobody has a workspace yet, with the "
        "system's own package manager, as root or by `sudo` without a password.",
    )
    network: Literal["internet", "none", "host"] = Field(
        "internet",
        validation_alias="PROCESS_NETWORK",
        description="What sandboxed workspaces reach: public addresses by HTTP(S), nothing, or all that this machine "
        "reaches.",
    )
    allow: Networks = Field(
        (),
        validation_alias="PROCESS_ALLOW",
        description="Private networks that they may reach all the same, as `10.1.0.0/16,…`.",
    )
    deny: Networks = Field((), validation_alias="PROCESS_DENY", description="Further networks that they may not reach.")
    users: Annotated[str, AfterValidator(_users)] = Field(
        "1900000000-1900065535",
        validation_alias="PROCESS_USERS",
        description="For root: user ids that nobody else on this machine has, one for each home.",
    )
    start_seconds: Interval = Field(
        60, validation_alias="PROCESS_START_SECONDS", description="Seconds that an IDE may take to answer."
    )
    disk_reserve: Bytes | None = Field(
        None,
        validation_alias="PROCESS_DISK_RESERVE",
        description="What is kept free on the disk of the homes, in bytes or as `2GiB`: below it nothing is started, "
        "who grows fastest or takes the most is stopped, and what is stopped is archived. Default: 5 % of the disk, at "
        "most 2 GiB; 0: nothing.",
    )
    home_quota: Bytes = Field(
        Size(0),
        validation_alias="PROCESS_HOME_QUOTA",
        description="What one home may take on the disk, in bytes or as `20GiB`; 0: no limit. Kept by the file system "
        "for homes made from then on, as root on ext4 or XFS mounted with `prjquota`; elsewhere no single file of a "
        "workspace may be larger.",
    )
    bwrap: Path | None = Field(
        None, validation_alias="PROCESS_BWRAP", description="The program `bwrap`. Default: found on `PATH`."
    )
    cgroup: Path | None = Field(
        None,
        validation_alias="PROCESS_CGROUP",
        description="The cgroup v2 folder to make groups in. Default: the top of the mounted tree.",
    )

    @property
    def user_range(self) -> range:
        first, last = self.users.split("-")
        return range(int(first), int(last) + 1)


class DockerConfig(Group):
    """Workspaces as containers of a Docker engine (20.10 or newer)."""

    host: str = Field(
        "unix:///var/run/docker.sock",
        validation_alias="DOCKER_HOST",
        description="The engine, as `unix:///path` or `tcp://host:port`.",
    )
    installation: Annotated[str, AfterValidator(_installation)] | None = Field(
        None,
        validation_alias="CODEHUB_INSTALLATION",
        description="Tells our containers and volumes from those of another CodeHub on the same engine. "
        "Default: drawn once, and kept in the data directory.",
    )
    job_image: str = Field(
        "codehub/codehub:latest",
        validation_alias="DOCKER_JOB_IMAGE",
        description="What storage jobs run: made from `images/codehub` or, smaller, from `images/storage-job`.",
    )
    guard_image: str = Field(
        "codehub/network-guard:latest",
        validation_alias="DOCKER_GUARD_IMAGE",
        description="Made from `images/network-guard`.",
    )
    pull: bool = Field(
        True, validation_alias="DOCKER_PULL", description="Whether images that the engine does not have are fetched."
    )
    outbound: Literal["internet", "none"] = Field(
        "internet",
        validation_alias="DOCKER_OUTBOUND",
        description="What workspaces reach: public addresses or nothing.",
    )
    allow: Networks4 = Field(
        (),
        validation_alias="DOCKER_ALLOW",
        description="Private networks that they may reach all the same, as `10.1.0.0/16,…`.",
    )
    deny: Networks4 = Field((), validation_alias="DOCKER_DENY", description="Further networks that they may not reach.")
    dns: Addresses4 = Field(
        (), validation_alias="DOCKER_DNS", description="Name servers of workspaces. Default: the engine's."
    )
    require_isolation: bool = Field(
        True,
        validation_alias="DOCKER_REQUIRE_ISOLATION",
        description="Whether nothing starts while the firewall is not in force. `false` only warns.",
    )
