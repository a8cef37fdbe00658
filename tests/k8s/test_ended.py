"""Pods that a node ended: each end is told in plain words in the history; it runs again, and nothing is lost."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import httpx
import pytest

from codehub.db import history
from codehub.db.pool import connection
from codehub.model.workspace import Phase
from tests.crash.cycle import Person
from tests.crash.herd import Nursery
from tests.crash.site import Site, ask
from tests.k8s.place import Pods
from tests.k8s.test_lifecycle import answers, coordinated
from tests.lab.k8s import Lab
from tests.support import eventually_async

pytestmark = pytest.mark.timeout(600)

USUALLY_SPARE = "100Mi"  # tests/lab/k8s.sh
LOW_MEMORY = "The node ended it to save itself: The node was low on resource: memory"
MORE_THAN_ALLOWED = 320 << 20  # of memory: place.py


async def told(somebody: Person, words: str) -> None:
    """The history says so."""

    async def says() -> bool:
        async with connection(somebody.api) as conn:
            lines = await history.page(conn, somebody.id, None, 50)
        return any(words in line.reason for line in lines)

    await eventually_async(says, f"the history says: {words}", 60)


async def comes_back(somebody: Person, place: Pods, happens: Callable[[], Awaitable[None]], words: str) -> None:
    """With another pod, and with its files."""
    await somebody.create()
    await somebody.becomes(Phase.RUNNING)
    await somebody.write("kept", 100_000)
    before = await asyncio.to_thread(place.pod)
    assert before is not None
    await happens()

    async def another_runs() -> bool:
        await somebody.look()
        now = await asyncio.to_thread(place.pod)
        return now is not None and now["metadata"]["uid"] != before["metadata"]["uid"]

    await eventually_async(another_runs, "another pod is made", 180)
    assert await somebody.read("kept") == somebody.files["kept"]
    await told(somebody, words)
    await somebody.delete()


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


async def test_a_node_that_runs_out_of_memory(site: Site, nursery: Nursery, lab: Lab, place: Pods) -> None:
    """It evicts what runs there, takes it again when it has memory again, and no ERROR is seen meanwhile."""
    async with coordinated(site, nursery) as (somebody, _):

        async def pressed() -> None:
            await asyncio.to_thread(lab.spare_memory, "99%")
            await told(somebody, LOW_MEMORY)
            await asyncio.to_thread(lab.spare_memory, USUALLY_SPARE)

        try:
            await comes_back(somebody, place, pressed, LOW_MEMORY)
        finally:
            await asyncio.to_thread(lab.spare_memory, USUALLY_SPARE)
    answers(lab)
