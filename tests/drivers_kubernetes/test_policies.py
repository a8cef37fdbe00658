"""Who may dial workspaces, and what jobs may dial: nobody because of a label alone, whatever namespace it is in."""

import ssl
from typing import Any

import pytest

from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes import policies
from codehub.drivers.kubernetes.access import Access
from codehub.drivers.kubernetes.driver import placed
from tests.drivers_kubernetes.test_manifests import options

NAMED = "kubernetes.io/metadata.name"
OURS = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": "codehub"}}}
NOT_A_WORKSPACE = {"matchExpressions": [{"key": m.WORKSPACE, "operator": "DoesNotExist"}]}


def dialled(**given: Any) -> list[policies.Body]:
    """The rules by which a workspace is dialled."""
    found: list[policies.Body] = policies.policies(options(**given), "10.96.0.1", [])[0]["spec"]["ingress"]
    return found


def test_only_pods_of_our_own_namespace_dial_workspaces() -> None:
    assert dialled(namespace="homes", control_namespace="codehub") == [
        {"from": [{"namespaceSelector": {"matchLabels": {NAMED: "codehub"}}, **OURS}]}
    ]


def test_a_namespace_that_is_shared_needs_no_label_of_its_own() -> None:
    assert dialled(namespace="codehub", control_namespace="codehub") == [{"from": [OURS]}]


def test_outside_the_cluster_only_named_networks_dial() -> None:
    assert dialled(callers=("192.0.2.0/24",)) == [{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}]


def test_nobody_is_not_everybody() -> None:
    """To Kubernetes a rule with an empty list of callers admits all."""
    assert dialled() == []


def behind_service(host: str, **given: Any) -> Any:
    """Where jobs may go beyond the address of the service itself."""
    first, *rest = policies.store_rules(options(namespace="homes", **given), host, 9000, ["10.96.7.7"])
    assert first == {"to": [{"ipBlock": {"cidr": "10.96.7.7/32"}}], "ports": [{"protocol": "TCP", "port": 9000}]}
    return [peer for rule in rest for peer in rule["to"]]


@pytest.mark.parametrize("host", ["minio.storage.svc", "minio.storage.svc.cluster.local", "minio.storage.svc.corp.lan"])
def test_jobs_reach_the_namespace_of_a_store_that_is_a_service(host: str) -> None:
    there = {"namespaceSelector": {"matchLabels": {NAMED: "storage"}}}
    assert behind_service(host) == [{**there, "podSelector": NOT_A_WORKSPACE}]


def test_jobs_reach_the_stores_pods_alone_where_these_are_named() -> None:
    [peer] = behind_service("minio.storage.svc", store_pods={"app": "minio"})
    assert peer["podSelector"] == {"matchLabels": {"app": "minio"}, **NOT_A_WORKSPACE}


def test_a_store_beside_the_workspaces_opens_no_way_to_them() -> None:
    assert behind_service("minio") == behind_service("minio.homes.svc") == [{"podSelector": NOT_A_WORKSPACE}]


@pytest.mark.parametrize("host", ["10.96.7.7", "nas.lan", "s3.svc"])
def test_a_store_that_is_no_service_is_its_address_and_port(host: str) -> None:
    assert behind_service(host) == []


def access(**given: Any) -> Access:
    async def nobody() -> str | None:
        return None

    return Access("https://cluster", ssl.create_default_context(), nobody, **given)


@pytest.mark.parametrize(
    ("told", "found", "namespaces"),
    [
        ({}, {"namespace": "codehub", "own_namespace": "codehub"}, ("codehub", "codehub")),
        ({"namespace": "homes"}, {"namespace": "codehub", "own_namespace": "codehub"}, ("homes", "codehub")),
        ({}, {"namespace": "of-a-kubeconfig"}, ("of-a-kubeconfig", None)),
        ({"control_namespace": "codehub"}, {}, ("default", "codehub")),
    ],
)
def test_our_namespace_is_the_one_that_is_named_or_our_pods(
    told: dict[str, str], found: dict[str, str], namespaces: tuple[str, str | None]
) -> None:
    there = placed(options(**told), access(**found))
    assert (there.namespace, there.control_namespace) == namespaces
