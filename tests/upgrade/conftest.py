import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import short_folder
from tests.upgrade.parts import Installation, installation


@pytest.fixture
def folder() -> Iterator[Path]:
    made = short_folder()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def here(folder: Path, database: str, server_redis: str) -> Iterator[Installation]:
    with installation(folder, database, server_redis) as made:
        yield made


@pytest.fixture
def fresh(folder: Path, empty_database: str, server_redis: str) -> Iterator[Installation]:
    """On a database that nobody has migrated."""
    with installation(folder, empty_database, server_redis) as made:
        yield made
