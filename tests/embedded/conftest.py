import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from codehub.embedded import DataDir, EmbeddedServers, RunningServers
from tests.embedded.support import copy_of, processes_at
from tests.support import eventually, short_folder


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder that anybody may enter."""
    folder = short_folder()
    yield folder
    eventually(lambda: not processes_at(folder), "no process is left over")
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
async def made() -> AsyncIterator[Path]:
    """A data directory in which both servers have run and hold something; to be copied, not used."""
    folder = short_folder()
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data, durable=False).running():
            pass
    yield data.path
    shutil.rmtree(folder)


@pytest.fixture
def used(place: Path, made: Path) -> Path:
    """A data directory of one's own that has been used before."""
    return copy_of(made, place / "d")


@pytest.fixture(scope="session")
async def servers() -> AsyncIterator[RunningServers]:
    """Servers as users have them, for tests that only look."""
    folder = short_folder()
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data).running() as running:
            yield running
    shutil.rmtree(folder)
