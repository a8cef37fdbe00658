"""The whole product on a real cluster: what a person does with a workspace, through the API and the proxy.

Once with CodeHub outside the cluster and a kubeconfig, once as a pod of it with its service account and the rights of
deploy/kubernetes/base/role.yaml and no more.
"""

import os
from pathlib import Path

import pytest

from tests.contract.s3 import S3Server
from tests.k8s.place import Pods
from tests.k8s.product import Product, inside, new_workspace, outside
from tests.support import eventually

pytestmark = pytest.mark.timeout(600)


def lives(product: Product, place: Pods) -> None:
    """Create, open, write, stand by, archive, open again, read, delete."""
    it, content = new_workspace(product), os.urandom(100_000)
    product.becomes(it, "RUNNING")
    assert product.ask("GET", it, "").text.strip() == str(it), "the proxy leads to this workspace"
    assert product.ask("PUT", it, "files/notes/kept", content).is_success
    product.get(it, "STANDBY")
    has(place, "PersistentVolumeClaim")
    product.get(it, "ARCHIVED")
    has(place)
    product.get(it, "RUNNING")
    assert product.ask("GET", it, "files/notes/kept").content == content
    product.admin.delete_workspace(it)
    product.becomes(it, "DELETING")
    has(place)


def has(place: Pods, *kinds: str) -> None:
    """These and nothing else; the gate of a pod that went goes when the cluster comes round to it."""
    assert place.kinds() - {"Secret"} == set(kinds)
    eventually(lambda: place.kinds() == set(kinds), "the gates go", 60)


def test_a_life_with_codehub_outside_the_cluster(place: Pods, s3: S3Server, folder: Path) -> None:
    with outside(place, s3, folder) as product:
        lives(product, place)


def test_a_life_with_codehub_as_a_pod_of_the_cluster(place: Pods, s3: S3Server) -> None:
    with inside(place, s3) as product:
        lives(product, place)
        [policy] = [one for one in place.policies() if one["metadata"]["name"].endswith("-workspaces")]
        [caller] = policy["spec"]["ingress"][0]["from"]
        names = caller["namespaceSelector"]["matchLabels"]
        assert names == {"kubernetes.io/metadata.name": product.namespace}
