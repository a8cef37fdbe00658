"""The rights in deploy/kubernetes/base/role.yaml are enough for everything, and are no more than that."""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import yaml

from codehub.drivers.kubernetes import KubernetesDriver
from codehub.model.workspace import OpId
from tests.k8s.account import account
from tests.k8s.driver import Case, opened, urls
from tests.lab.k8s import Lab
from tests.support import eventually


@contextmanager
def kubeconfig_of_account(lab: Lab, folder: Path, namespace: str) -> Iterator[Path]:
    with account(lab, namespace) as home:
        eventually(lambda: bool(lab.get(home, "serviceaccount", "codehub").get("secrets")), "the account has a token")
        secret = lab.get(home, "serviceaccount", "codehub")["secrets"][0]["name"]
        config = yaml.safe_load(lab.kubeconfig.read_text())
        config["users"][0]["user"] = {
            "token": base64.b64decode(lab.get(home, "secret", secret)["data"]["token"]).decode()
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        yield path


async def test_the_role_is_enough(lab: Lab, tmp_path: Path) -> None:
    with lab.namespace() as namespace, kubeconfig_of_account(lab, tmp_path, namespace) as kubeconfig:
        driver = KubernetesDriver(lab.options(namespace=namespace, kubeconfig=kubeconfig), urls)
        try:
            await driver.prepare()
            assert await driver.self_check() == []
            case = Case(driver)
            volume = await case.volume()
            await case.start(volume)
            assert case.id in await driver.instances.observe()
            assert case.id in await driver.volumes.observe()
            assert "listening" in await driver.instances.logs(case.id, 10)
            await driver.instances.remove(case.id)
            op_id = OpId(uuid4())
            await driver.jobs.archive(case.id, op_id, volume)
            assert case.id in await driver.jobs.observe()
            await driver.jobs.remove(case.id, op_id)
            await driver.volumes.delete(case.id, volume)
        finally:
            await driver.close()


async def test_what_the_cluster_would_refuse_is_told_by_a_dry_run(lab: Lab) -> None:
    async with opened(lab, storage_class="Not a name") as (driver, _):
        (said,) = await driver.self_check()
        assert said.startswith("The cluster would refuse a home: ")
        assert not await driver.volumes.observe(), "nothing was made"


FORBIDDEN = (
    ("list", "secrets"),
    ("create", "pods", "--subresource=exec"),
    ("patch", "pods"),
    ("create", "serviceaccounts"),
    ("delete", "networkpolicies"),
    ("get", "pods", "--all-namespaces"),
    ("list", "nodes"),
)


def test_the_role_is_no_more(lab: Lab, tmp_path: Path) -> None:
    with lab.namespace() as namespace, kubeconfig_of_account(lab, tmp_path, namespace) as kubeconfig:
        for words in FORBIDDEN:
            asked = ["auth", "can-i", *words, "-n", namespace, f"--kubeconfig={kubeconfig}"]
            assert lab.run(*asked, check=False).strip() == "no", words
        assert (
            lab.run("auth", "can-i", "create", "pods", "-n", namespace, f"--kubeconfig={kubeconfig}").strip() == "yes"
        )
