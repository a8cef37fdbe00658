"""A driver on a folder of its own, and workspaces that are talked to over their sockets."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from codehub.drivers.process import Options
from codehub.drivers.process.layout import Layout
from tests.drivers_process.world import World
from tests.support import needs_sandbox, short_folder


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    folder = short_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def layout() -> Iterator[Layout]:
    """Folders that no driver uses."""
    folder = short_folder()
    layout = Layout(folder / "w")
    layout.prepare()
    yield layout
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
async def world(folder: Path) -> AsyncIterator[World]:
    """Sandboxed, as by default."""
    world = World(Options(root=folder / "w"))
    needs_sandbox(world.driver)
    yield world
    await world.close()


@pytest.fixture
async def new_world() -> AsyncIterator[World]:
    """One that no other test has touched."""
    folder = short_folder()
    world = World(Options(root=folder / "w"))
    needs_sandbox(world.driver)
    yield world
    await world.close()
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
async def bare_world() -> AsyncIterator[World]:
    """Without a sandbox."""
    folder = short_folder()
    world = World(Options(root=folder / "w", sandbox="off"))
    yield world
    await world.close()
    shutil.rmtree(folder)
