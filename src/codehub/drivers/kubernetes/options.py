"""What the Kubernetes driver is told: which cluster, which images, what pods and volumes are to look like.

Two installations of CodeHub may share a namespace: everything made is labelled with the installation, and nothing
without that label, or with another's, is ever listed, used or removed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codehub.drivers.docker.options import Outbound, WorkspaceImage


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that each kind of call may take."""

    connect: float = 2.0
    look: float = 10.0
    act: float = 60.0
    removal: float = 150.0  # a node that is just mounting volumes for a pod hears of its end two minutes later
    pending: float = 240.0  # from a pod that was made to a container that runs: a node is found, images are fetched
    ready: float = 60.0  # from there to a port that answers
    cooling: float = 60.0  # how long an address that a workspace had is given to no other


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint of nodes that workspaces bear."""

    key: str
    value: str | None = None
    effect: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """Settings of one Kubernetes driver."""

    installation: str
    images: Mapping[str, WorkspaceImage]
    job_image: str
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None  # None: where we run, or what the kubeconfig says
    storage_class: str | None = None  # None: the cluster's default
    home_bytes: int = 10 << 30
    access_mode: str = "ReadWriteOnce"
    requested_cpus: float = 0.1
    requested_memory: int = 256 << 20
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    pull_secrets: tuple[str, ...] = ()
    pull: bool = True  # fetch an allowed image that a node does not have
    outbound: Outbound = Outbound.INTERNET
    allow: tuple[str, ...] = ()  # private networks that workspaces may reach all the same, as CIDR
    deny: tuple[str, ...] = ()  # further networks that they may not
    control_namespace: str | None = None  # where our own pods are; None: where we run, if that is a pod of the cluster
    callers: tuple[str, ...] = ()  # networks that proxies outside the cluster dial from
    store_pods: Mapping[str, str] = field(default_factory=dict)  # labels of the pods behind a store that is a service
    stop_grace: int = 0  # seconds between SIGTERM and SIGKILL; the least is 1
    require_isolation: bool = True  # without it nothing is refused, only reported
    environment: Mapping[str, str] = field(default_factory=dict)  # of every workspace; no secrets
    tmp_bytes: int = 1 << 30
    patience: Patience = field(default_factory=Patience)
