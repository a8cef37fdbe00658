"""Whether a cluster's network enforces policies is found out by trying; what is found out is said, and obeyed."""

from typing import Any

import pytest

from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes.api import Cluster
from codehub.drivers.kubernetes.isolation import Isolation
from codehub.drivers.kubernetes.policies import CLOSED_PROBE
from codehub.errors import ActionFailed
from tests.drivers_kubernetes.scripted import Answer, Asked, failed, listed, server
from tests.drivers_kubernetes.test_manifests import options

REACHED, BLOCKED = 0, 3


class Probed:
    """A cluster in which a pod that tries the network ends with a given code at once."""

    def __init__(self, opened: int | None, closed: int | None) -> None:
        self._codes = {m.PROBE: opened, CLOSED_PROBE: closed}
        self._pods: dict[str, dict[str, Any]] = {}
        self.policies: set[str] = set()

    def answer(self, asked: Asked) -> Answer:
        kind, _, name = asked.path.rpartition("/homes/")[2].partition("/")
        if kind == "networkpolicies":
            return self._policy(asked, name)
        if asked.method == "POST":
            return self._pod(asked.body)
        if asked.method == "DELETE":
            self._pods.pop(name)
            return Answer({})
        return Answer(self._pods[name]) if name else listed()

    def _policy(self, asked: Asked, name: str) -> Answer:
        wanted = name or asked.body["metadata"]["name"]
        if asked.method == "POST" and wanted in self.policies:
            return failed(409, "AlreadyExists")
        self.policies.add(wanted)
        return Answer({})

    def _pod(self, body: dict[str, Any]) -> Answer:
        code = self._codes[body["metadata"]["labels"][m.ROLE]]
        if code is None:
            return failed(403, "Forbidden", "exceeded quota: few")
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"state": {"terminated": {"exitCode": code}}}],
        }
        self._pods[body["metadata"]["name"]] = {**body, "metadata": {**body["metadata"], "uid": "u"}, "status": status}
        return Answer(self._pods[body["metadata"]["name"]])

    @property
    def left(self) -> list[str]:
        return list(self._pods)


def isolation(cluster: Cluster, *, required: bool, control_namespace: str | None = "codehub") -> Isolation:
    async def no_rules() -> list[dict[str, Any]]:
        return []

    given = options(namespace="homes", require_isolation=required, control_namespace=control_namespace)
    return Isolation(cluster, given, no_rules)


@pytest.mark.parametrize(
    ("opened", "closed", "words"),
    [
        (REACHED, REACHED, "does not enforce"),
        (BLOCKED, BLOCKED, "could not be found out"),  # it reaches nothing at all: that says nothing about policies
        (BLOCKED, REACHED, "could not be found out"),
        (137, BLOCKED, "could not be found out"),
        (REACHED, 1, "could not be found out"),
        (None, None, "could not be found out"),
    ],
)
async def test_anything_but_a_clear_yes_is_a_warning(opened: int | None, closed: int | None, words: str) -> None:
    probed = Probed(opened, closed)
    async with server(probed.answer) as (cluster, _):
        strict, lax = isolation(cluster, required=True), isolation(cluster, required=False)
        with pytest.raises(ActionFailed, match=words):
            await strict.ensure()
        assert strict.sentences()[0].startswith("WARNING")
        await lax.ensure()
        await lax.put_back()
        assert words in lax.sentences()[0]
    assert not probed.left


async def test_a_network_that_blocks_what_it_should_is_believed() -> None:
    probed = Probed(REACHED, BLOCKED)
    async with server(probed.answer) as (cluster, asked):
        strict = isolation(cluster, required=True)
        assert "not known yet" in strict.sentences()[0]
        await strict.ensure()
        before = len(asked)
        await strict.ensure()  # it was tried: not again for a while
        assert len(asked) == before
        assert not any(sentence.startswith("WARNING") for sentence in strict.sentences())
    assert not probed.left
    assert len(probed.policies) == 3


async def test_that_nobody_may_dial_workspaces_is_said() -> None:
    async with server(Probed(REACHED, BLOCKED).answer) as (cluster, _):
        outside = isolation(cluster, required=True, control_namespace=None)
        await outside.ensure()
        assert "the proxy cannot reach workspaces" in outside.sentences()[-1]


async def test_a_policy_that_somebody_removed_is_put_back() -> None:
    probed = Probed(REACHED, BLOCKED)
    async with server(probed.answer) as (cluster, _):
        strict = isolation(cluster, required=True)
        await strict.put_back()
        probed.policies.clear()
        await strict.put_back()
    assert len(probed.policies) == 3
