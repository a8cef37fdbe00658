import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.codehub import running
from tests.embedded.support import processes_at
from tests.support import eventually, short_folder


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder; afterwards no process may be left that has to do with it."""
    folder = short_folder()
    yield folder
    eventually(lambda: not processes_at(folder), "no process is left over")
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def used_data() -> Iterator[Path]:
    """A data directory that CodeHub has run on, to be copied."""
    folder = short_folder()
    with running(folder / "d", folder / "out") as codehub:
        assert codehub.url
    yield folder / "d"
    shutil.rmtree(folder)
