"""Lives of workspaces on the lab's cluster: who looks after them, and what becomes of them when a pod is ended."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from codehub.db import history
from codehub.db.pool import connection
from codehub.model.workspace import Operation, Phase
from tests.crash.cycle import Person, person
from tests.crash.herd import Coordinator, Herd, Nursery, herd_of
from tests.crash.site import Site
from tests.k8s.place import Pods
from tests.lab.k8s import Lab
from tests.support import eventually, eventually_async

EVERY = {
    Operation.PROVISIONING,
    Operation.STARTING,
    Operation.STOPPING,
    Operation.ARCHIVING,
    Operation.RESTORING,
}


@asynccontextmanager
async def coordinated(site: Site, nursery: Nursery, size: int = 1) -> AsyncIterator[tuple[Person, Herd]]:
    async def start() -> Coordinator:
        return await nursery.start(site.environment, site.folder / "log")

    async with herd_of(size, start) as herd, person(site) as somebody:
        yield somebody, herd


async def comes_back(somebody: Person, place: Pods, happens: Callable[[], Awaitable[None]], words: str = "") -> None:
    """Something happens to the pod: another one runs, with the same files, and the history says why."""
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


async def told(somebody: Person, words: str) -> None:
    """The history says so."""

    async def says() -> bool:
        async with connection(somebody.api) as conn:
            lines = await history.page(conn, somebody.id, None, 50)
        return any(words in line.reason for line in lines)

    await eventually_async(says, f"the history says: {words}", 60)


def answers(lab: Lab) -> None:
    """The next test finds the cluster well."""
    eventually(lambda: lab.run("get", "--raw", "/readyz", check=False) == "ok", "the API server answers", 120)
    eventually(lambda: " Ready " in lab.run("get", "nodes", check=False), "the node is ready", 120)
