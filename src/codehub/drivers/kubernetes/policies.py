"""The NetworkPolicies that separate workspaces from each other, from the cluster and from its neighbours. Pure.

They hold only where the cluster's network enforces them, which isolation.py finds out. A workspace is dialled by
CodeHub alone, which is its pods in its own namespace and the networks it is said to dial from; it dials the internet or
nothing. A job dials the archive store, and where that is a service of the cluster, the pods behind it and no workspace.
"""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from codehub.drivers.docker.firewall import METADATA, PRIVATE
from codehub.drivers.docker.options import Outbound
from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.options import KubernetesOptions

GROUP = "networking.k8s.io/v1"
CLOSED_PROBE = "probe-closed"  # the role of a pod that may dial nothing
CONTROL_PLANE = {"app.kubernetes.io/name": "codehub"}  # the label of our own pods
NAMESPACE_NAME = "kubernetes.io/metadata.name"  # which servers since 1.21 put on every namespace
PRIVATE6 = ("::1/128", "64:ff9b::/96", "fc00::/7", "fe80::/10", "ff00::/8")
_NODE_DNS = "169.254.20.10/32"  # where clusters with a name cache on each node have it

Body = dict[str, Any]


def policies(options: KubernetesOptions, server: str, store: Sequence[Body]) -> list[Body]:
    """All of them. `server` is the API server's host; `store` are the rules that lead to the archive store."""
    callers = dialled_from(options)
    dialled = [{"from": callers}] if callers else []  # a rule from nobody would be one from everybody
    dns = [] if options.outbound is Outbound.NONE else [_names()]
    return [
        _policy(options, "workspaces", m.INSTANCE, ingress=dialled, egress=[*dns, *_outbound(options, server)]),
        _policy(options, "jobs", m.JOB, ingress=[], egress=[_names(), *store]),
        _policy(options, "probe", CLOSED_PROBE, ingress=[], egress=[]),
    ]


def dialled_from(options: KubernetesOptions) -> list[Body]:
    """Who may dial workspaces."""
    networks = [{"ipBlock": {"cidr": cidr}} for cidr in options.callers]
    if options.control_namespace is None:
        return networks
    ours = {"podSelector": {"matchLabels": CONTROL_PLANE}}
    return [_of_namespace(options, options.control_namespace) | ours, *networks]


def store_rules(options: KubernetesOptions, host: str | None, port: int, addresses: Sequence[str]) -> list[Body]:
    """How jobs reach the store: no host is Amazon's; an address of its own; a service of the cluster; the internet."""
    ports = [{"protocol": "TCP", "port": port}]
    private = [address for address in addresses if not ip_address(address).is_global]
    if host is None or not private:
        return [{"to": _internet(()), "ports": ports}]
    rules: list[Body] = [{"to": [{"ipBlock": {"cidr": str(ip_network(one))}} for one in private], "ports": ports}]
    namespace = _namespace_of_service(options, host)
    if namespace is not None:  # policies see the pods behind a service, and their port
        behind: Body = {"matchLabels": dict(options.store_pods)} if options.store_pods else {}
        behind["matchExpressions"] = [{"key": m.WORKSPACE, "operator": "DoesNotExist"}]
        rules.append({"to": [_of_namespace(options, namespace) | {"podSelector": behind}]})
    return rules


def _namespace_of_service(options: KubernetesOptions, host: str) -> str | None:
    """Of `name.namespace.svc…`, or of a bare name, which jobs look up in their own; None if it is no service."""
    labels = host.split(".")
    if len(labels) == 1:
        return options.namespace
    return labels[1] if labels[2:3] == ["svc"] else None


def _of_namespace(options: KubernetesOptions, namespace: str) -> Body:
    """What limits a selector of pods to one namespace; that of the policy needs no words."""
    if namespace == options.namespace:
        return {}
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}}}


def _policy(options: KubernetesOptions, name: str, role: str, *, ingress: list[Body], egress: list[Body]) -> Body:
    return {
        "apiVersion": GROUP,
        "kind": "NetworkPolicy",
        "metadata": {
            "name": f"codehub-{options.installation}-{name}",
            "labels": {m.INSTALLATION: options.installation},
        },
        "spec": {
            "podSelector": {"matchLabels": {m.INSTALLATION: options.installation, m.ROLE: role}},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": ingress,
            "egress": egress,
        },
    }


def _names() -> Body:
    """The cluster's name servers, at their port."""
    servers = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"to": [servers, {"ipBlock": {"cidr": _NODE_DNS}}], "ports": ports}


def _outbound(options: KubernetesOptions, server: str) -> list[Body]:
    rules: list[Body] = []
    if options.outbound is Outbound.INTERNET:
        rules.append({"to": _internet((*options.deny, *_public(server)))})
    if options.allow:
        rules.append({"to": [_block(cidr, METADATA) for cidr in options.allow]})
    return rules


def _public(server: str) -> list[str]:
    """The API server, where it has a public address."""
    try:
        address = ip_address(server)
    except ValueError:
        return []
    return [str(ip_network(address))] if address.is_global else []


def _internet(deny: Sequence[str]) -> list[Body]:
    return [_block("0.0.0.0/0", (*PRIVATE, *METADATA, *deny)), _block("::/0", (*PRIVATE6, *deny))]


def _block(cidr: str, without: Sequence[str]) -> Body:
    """A network without those parts of `without` that are in it."""
    whole = ip_network(cidr)
    inside = []
    for text in dict.fromkeys(without):
        part = ip_network(text)
        if part.version == whole.version and part != whole and part.subnet_of(whole):  # type: ignore[arg-type]  # one version
            inside.append(text)
    return {"ipBlock": {"cidr": cidr} | ({"except": inside} if inside else {})}
