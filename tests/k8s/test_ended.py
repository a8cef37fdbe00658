"""Pods that were ended: each end is told in plain words in the history; it runs again, and nothing is lost."""

import asyncio
import contextlib
import json

import httpx
import pytest

from tests.crash.herd import Nursery
from tests.crash.site import Site, ask
from tests.k8s.life import comes_back, coordinated
from tests.k8s.place import Pods
from tests.lab.k8s import Lab

pytestmark = pytest.mark.timeout(600)

MORE_THAN_ALLOWED = 320 << 20  # of memory: place.py


async def test_too_much_memory(site: Site, nursery: Nursery, place: Pods) -> None:
    async with coordinated(site, nursery) as (somebody, _):

        async def takes_too_much() -> None:
            with contextlib.suppress(httpx.TransportError):
                await ask(await somebody.endpoint(), "PUT", "/files/too-much", bytes(MORE_THAN_ALLOWED))

        await comes_back(somebody, place, takes_too_much, "It used more memory than it may (256 MiB), and was ended.")


async def test_too_much_in_tmp(site: Site, nursery: Nursery, lab: Lab, place: Pods) -> None:
    """The kubelet evicts a pod whose /tmp grows over its limit."""
    async with coordinated(site, nursery) as (somebody, _):

        async def fills_tmp() -> None:
            words = ["exec", "-n", place.namespace, f"ws-{somebody.id}", "--", "fallocate", "-l", "1100M", "/tmp/big"]
            await asyncio.to_thread(lab.run, *words)

        await comes_back(somebody, place, fills_tmp, "The node ended it to save itself: Usage of EmptyDir volume")


async def test_an_eviction_that_somebody_asked_for(site: Site, nursery: Nursery, lab: Lab, place: Pods) -> None:
    """As `kubectl drain` does."""
    async with coordinated(site, nursery) as (somebody, _):

        async def evicted() -> None:
            name = f"ws-{somebody.id}"
            body = json.dumps({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": name}})
            path = f"/api/v1/namespaces/{place.namespace}/pods/{name}/eviction"
            await asyncio.to_thread(lab.run, "create", "--raw", path, "-f", "-", given=body)

        await comes_back(somebody, place, evicted)
