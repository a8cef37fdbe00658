"""Whether the archives that workspaces need are in the store that the settings name."""

import asyncio
from datetime import timedelta
from pathlib import Path

from codehub.cli.checks.servers import SECONDS
from codehub.config import Settings
from codehub.coordinator.archive_losses import InStore, missing_of, sample
from codehub.db import archives as rows
from codehub.db.pool import Pool, Role, connection, open_pool
from codehub.drivers.load import open_store
from codehub.embedded.postgres import url_at
from codehub.errors import CodeHubError
from codehub.model.suspicion import is_another_store
from codehub.model.workspace import WorkspaceId
from codehub.services.doctor import codes
from codehub.services.doctor.finding import Finding, failed, ok

_ADVICE = "Is it the bucket, folder and prefix of before? If they are lost for good: codehub accept-losses archives"


async def look(settings: Settings, database_url: str, data_dir: Path) -> list[Finding]:
    """Looks at a few; nothing where the store or the database does not answer, which others tell."""
    try:
        async with asyncio.timeout(SECONDS), open_pool(database_url, Role.API, max_size=1) as pool:
            retention = timedelta(seconds=settings.gc.trash_retention_seconds)
            few = await sample(lambda after, limit: _read(pool, retention, after, limit), None)
            url = settings.store.url or (data_dir / "archives").as_uri()
            missing, looked = await missing_of(open_store(settings.store, url), few)
    except (CodeHubError, TimeoutError):
        return []
    if looked == 0:
        return []
    told = f"of {looked} that were looked for, {looked - missing} are in the store"
    return [failed(codes.STORE_OTHER, told, _ADVICE) if is_another_store(missing, looked) else ok("archives", told)]


async def look_at_own(settings: Settings, data_dir: Path) -> list[Finding]:
    """With the embedded database of the CodeHub that runs on it."""
    try:
        url = url_at(data_dir)
    except CodeHubError:
        return []
    return await look(settings, url, data_dir)


async def _read(pool: Pool, retention: timedelta, after: WorkspaceId | None, limit: int) -> InStore:
    async with connection(pool) as conn:
        return await rows.in_store_alone(conn, retention, after, limit)
