"""The database that the settings mean, wherever it is: an external one, the one of a CodeHub that runs on the data
directory, or the one of a CodeHub that does not run, whose server is then started for as long as it is needed.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from codehub.config import Settings
from codehub.embedded import DataDir, EmbeddedServers
from codehub.embedded.datadir import InUse, default_data_dir
from codehub.embedded.postgres import url_at
from codehub.errors import StartError

Say = Callable[[str], None]


def data_dir_of(settings: Settings) -> Path:
    return (settings.server.data_dir or default_data_dir()).expanduser().absolute()


@asynccontextmanager
async def reachable(settings: Settings, say: Say) -> AsyncIterator[str]:
    """Its URL, whether or not CodeHub runs; nothing that is not there is made."""
    if settings.database.url is not None:
        yield settings.database.url.get_secret_value()
        return
    folder = data_dir_of(settings)
    if not (folder / "postgres").is_dir():
        raise StartError(
            f"There is no database in {folder}.", "Name the data directory in CODEHUB_DATA_DIR, or set DATABASE_URL."
        )
    try:
        data_dir = DataDir.open(folder)
    except InUse:
        yield url_at(folder)
        return
    with data_dir:
        async with _started(settings, data_dir, say) as url:
            yield url


@asynccontextmanager
async def alone(settings: Settings, say: Say) -> AsyncIterator[str]:
    """Its URL, made if need be; refused while a CodeHub runs on the data directory."""
    if settings.database.url is not None:
        yield settings.database.url.get_secret_value()
        return
    with DataDir.open(data_dir_of(settings)) as data_dir:
        async with _started(settings, data_dir, say) as url:
            yield url


@asynccontextmanager
async def _started(settings: Settings, data_dir: DataDir, say: Say) -> AsyncIterator[str]:
    embedded = EmbeddedServers(data_dir, server_user=settings.server.embedded_user, valkey=False, progress=say)
    async with embedded.running() as servers:
        assert servers.database_url is not None
        yield servers.database_url
