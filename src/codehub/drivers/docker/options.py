"""What the Docker driver is told: which engine, which images, what workspaces may reach.

Two installations of CodeHub may share an engine: everything made is labelled with the installation, and nothing
without that label, or with another's, is ever listed, used or removed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from ipaddress import IPv4Network

from codehub.errors import SettingsError, TerminalError
from codehub.model.images import is_allowed, is_pattern
from codehub.model.workspace import ErrorReason

_INSTALLATION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


class Outbound(StrEnum):
    """What a workspace may connect to; never other workspaces, this machine, private or link-local addresses."""

    NONE = "none"
    INTERNET = "internet"


@dataclass(frozen=True, slots=True)
class WorkspaceImage:
    """One entry of the allow-list: `image_ref` names it, this is what runs."""

    image: str
    port: int = 8080
    ready_path: str = "/"  # it takes traffic when this answers with a status below 500
    read_only_root: bool = True

    @staticmethod
    def of(images: "Mapping[str, WorkspaceImage]", image_ref: str) -> "WorkspaceImage":
        """What runs for it: the entry's, or the very image that an entry which is a pattern allows."""
        found = None if is_pattern(image_ref) else images.get(image_ref)
        if found is not None:
            return found
        if is_allowed(image_ref, images):
            return WorkspaceImage(image_ref)
        raise TerminalError(
            ErrorReason.IMAGE_PULL_FAILED,
            f"The image {image_ref!r} is not one of those that workspaces may use.",
            f"Allowed are: {', '.join(sorted(images)) or 'none'}.",
        )

    @staticmethod
    def fixed(images: "Mapping[str, WorkspaceImage]") -> "dict[str, WorkspaceImage]":
        """The entries that are one image each."""
        return {name: image for name, image in images.items() if not is_pattern(name)}


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that each kind of call may take."""

    connect: float = 2.0
    look: float = 10.0
    act: float = 60.0
    pull: float = 3600.0
    pull_wait: float = 60.0  # of one start for an image that is being fetched
    ready: float = 60.0  # from a started container to a port that answers


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerOptions:
    """Settings of one Docker driver."""

    installation: str
    images: Mapping[str, WorkspaceImage]
    job_image: str
    guard_image: str
    host: str = "unix:///var/run/docker.sock"
    pull: bool = True  # fetch an allowed image that the engine does not have
    outbound: Outbound = Outbound.INTERNET
    allow: tuple[str, ...] = ()  # private networks that workspaces may reach all the same, as CIDR
    deny: tuple[str, ...] = ()  # further networks that they may not
    dns: tuple[str, ...] = ()  # name servers of workspaces; default: the engine's
    require_isolation: bool = True  # without it nothing is refused, only reported
    stop_grace: int = 0  # seconds between SIGTERM and SIGKILL
    recheck_seconds: float = 300.0  # how long a verified firewall is believed
    environment: Mapping[str, str] = field(default_factory=dict)  # of every workspace; no secrets
    tmp_bytes: int = 1 << 30
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        if not _INSTALLATION.fullmatch(self.installation):
            raise SettingsError(f"installation={self.installation!r}: must be a few of a-z, 0-9 and -.")
        for text in (*self.allow, *self.deny):
            try:
                IPv4Network(text)
            except ValueError as error:
                raise SettingsError(f"{text!r} is not an IPv4 network: {error}") from None

    @property
    def mark(self) -> str:
        """Short and safe in the names of interfaces and tables."""
        return sha256(self.installation.encode()).hexdigest()[:10]

    @property
    def network(self) -> str:
        return f"codehub-{self.installation}"

    @property
    def bridge(self) -> str:
        return f"chw{self.mark}"

    @property
    def job_network(self) -> str:
        return f"codehub-{self.installation}-jobs"

    @property
    def job_bridge(self) -> str:
        return f"chj{self.mark}"

    @property
    def table(self) -> str:
        return f"codehub_{self.mark}"
