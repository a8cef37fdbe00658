import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.s3 import S3Server
from tests.crash.herd import Nursery, open_nursery
from tests.support import short_folder


@pytest.fixture(scope="session")
async def nursery() -> AsyncIterator[Nursery]:
    async with open_nursery() as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    made = short_folder()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def s3() -> Iterator[S3Server]:
    folder = short_folder()
    server = S3Server(folder)
    server.start()
    yield server
    server.close()
    shutil.rmtree(folder)


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Says a figure in the output of the run, whether the test passes or not."""

    def say(figure: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"[{figure}] ")
            sys.stdout.flush()

    return say
