"""The process driver without a sandbox, in a place that a workspace's own user may not enter (as below root's home)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from codehub.drivers.archives import ArchiveStore
from tests.contract.harness import Harness
from tests.contract.harness_process import ProcessHarness, SilentServer, running


class PlainHarness(ProcessHarness):
    name = "plain"


@asynccontextmanager
async def open_harness(folder: Path, store: ArchiveStore) -> AsyncIterator[Harness]:
    folder.parent.chmod(0o700)  # with the store's folder, if it is one
    silent = SilentServer()
    harness = PlainHarness(folder, store, silent.port, sandbox="off")
    async with running(harness, silent):
        yield harness
