"""Settings of the backend `k8s`: workspaces as pods of a Kubernetes cluster."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from codehub.config.values import Bytes, Group, Networks, Size, Words

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_PAIR = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,252}=[A-Za-z0-9._-]{0,63}")
_TOLERATION = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._/-]{0,252})(?:=([A-Za-z0-9._-]{0,63}))?(?::(NoSchedule|PreferNoSchedule|NoExecute))?"
)
_LEAST_HOME = 1 << 20


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise ValueError("must be the name of a namespace: a-z, 0-9 and -")
    return text


def _names(words: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_NAME.fullmatch(word) for word in words):
        raise ValueError("must be names of the cluster's objects, separated by commas")
    return words


def _pairs(words: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_PAIR.fullmatch(word) for word in words):
        raise ValueError("must be labels as key=value, separated by commas")
    return words


def _labels(pairs: tuple[str, ...]) -> dict[str, str]:
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def _tolerations(words: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_TOLERATION.fullmatch(word) for word in words):
        raise ValueError("must be taints as key=value:NoSchedule, key:NoExecute or key, separated by commas")
    return words


def _home(size: Size) -> Size:
    if size < _LEAST_HOME:
        raise ValueError(f"must be at least {Size(_LEAST_HOME)}")
    return size


class KubernetesConfig(Group):
    """Workspaces as pods of a Kubernetes cluster (1.20 or newer)."""

    kubeconfig: Path | None = Field(
        None,
        validation_alias="K8S_KUBECONFIG",
        description="How to reach the cluster. Default: the service account of the pod that CodeHub runs in, else "
        "`KUBECONFIG`, else `~/.kube/config`.",
    )
    context: str | None = Field(
        None, validation_alias="K8S_CONTEXT", description="The context in it. Default: its current one."
    )
    namespace: Annotated[str, AfterValidator(_namespace)] | None = Field(
        None,
        validation_alias="K8S_NAMESPACE",
        description="Where pods and volumes are made; it must exist. Default: that of the context or of our own pod.",
    )
    job_image: str = Field(
        "codehub/codehub:latest",
        validation_alias="K8S_JOB_IMAGE",
        description="What storage jobs run: made from `images/codehub` or, smaller, from `images/storage-job`.",
    )
    storage_class: str | None = Field(
        None, validation_alias="K8S_STORAGE_CLASS", description="Of homes. Default: the cluster's default."
    )
    home_size: Annotated[Bytes, AfterValidator(_home)] = Field(
        Size(10 << 30), validation_alias="K8S_HOME_SIZE", description="What a home asks for, in bytes or as `10GiB`."
    )
    access_mode: Literal["ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"] = Field(
        "ReadWriteOnce", validation_alias="K8S_ACCESS_MODE", description="Of homes."
    )
    requested_cpus: float = Field(
        0.1,
        ge=0,
        le=4096,
        allow_inf_nan=False,
        validation_alias="K8S_REQUEST_CPUS",
        description="Processors that a node must have free for a workspace; `WORKSPACE_CPUS` is its limit.",
    )
    requested_memory: Bytes = Field(
        Size(256 << 20),
        validation_alias="K8S_REQUEST_MEMORY",
        description="Memory that a node must have free for a workspace; `WORKSPACE_MEMORY` is its limit.",
    )
    node_selector: Annotated[Words, AfterValidator(_pairs)] = Field(
        (), validation_alias="K8S_NODE_SELECTOR", description="Labels of nodes that may run workspaces: `key=value,…`."
    )
    tolerations: Annotated[Words, AfterValidator(_tolerations)] = Field(
        (),
        validation_alias="K8S_TOLERATIONS",
        description="Taints of nodes that workspaces bear: `key=value:NoSchedule,key:NoExecute,…`.",
    )
    pull_secrets: Annotated[Words, AfterValidator(_names)] = Field(
        (), validation_alias="K8S_PULL_SECRETS", description="Secrets of the namespace that open private registries."
    )
    pull: bool = Field(
        True, validation_alias="K8S_PULL", description="Whether images that a node does not have are fetched."
    )
    outbound: Literal["internet", "none"] = Field(
        "internet", validation_alias="K8S_OUTBOUND", description="What workspaces reach: public addresses or nothing."
    )
    allow: Networks = Field(
        (),
        validation_alias="K8S_ALLOW",
        description="Private networks that they may reach all the same, as `10.1.0.0/16,…`.",
    )
    deny: Networks = Field((), validation_alias="K8S_DENY", description="Further networks that they may not reach.")
    control_namespace: Annotated[str, AfterValidator(_namespace)] | None = Field(
        None,
        validation_alias="K8S_CONTROL_NAMESPACE",
        description="The namespace of CodeHub's own pods, which alone may dial workspaces. Default: that of the pod "
        "that CodeHub runs in.",
    )
    callers: Networks = Field(
        (),
        validation_alias="K8S_CALLERS",
        description="Networks that CodeHub's proxy dials workspaces from, where it runs outside the cluster.",
    )
    store_pods: Annotated[Words, AfterValidator(_pairs)] = Field(
        (),
        validation_alias="K8S_STORE_PODS",
        description="Labels of the store's pods, `key=value,…`, where `S3_ENDPOINT` is a service of the cluster. "
        "Default: all pods of its namespace.",
    )
    require_isolation: bool = Field(
        True,
        validation_alias="K8S_REQUIRE_ISOLATION",
        description="Whether nothing starts while the cluster does not enforce network policies. `false` only warns.",
    )

    @property
    def node_labels(self) -> dict[str, str]:
        return _labels(self.node_selector)

    @property
    def store_labels(self) -> dict[str, str]:
        return _labels(self.store_pods)

    @property
    def taints(self) -> list[tuple[str, str | None, str | None]]:
        """Key, value and effect."""
        found = [_TOLERATION.fullmatch(word) for word in self.tolerations]
        return [(match[1], match[2], match[3]) for match in found if match is not None]
