"""How workspaces and archives stand, as the database knows it."""

import asyncio
from pathlib import Path

from codehub.cli.checks import servers
from codehub.db import migrate
from codehub.db.diagnosis import diagnose
from codehub.db.pool import Role, connection, open_pool
from codehub.embedded.postgres import url_at
from codehub.errors import CodeHubError
from codehub.services.doctor import codes, standing
from codehub.services.doctor.finding import Finding, failed, failed_by

_SECONDS = 15.0
_START_ANEW = "An older CodeHub runs: stop it, and start `codehub up` of this version, which migrates the database."


async def of_database(url: str, *, is_running: bool) -> list[Finding]:
    """`is_running`: whether a CodeHub is known to run, so that somebody should lead."""
    try:
        async with asyncio.timeout(_SECONDS), open_pool(url, Role.API, max_size=1) as pool, connection(pool) as conn:
            found = await diagnose(conn, stuck_after_seconds=standing.STUCK_SECONDS)
    except TimeoutError:
        return [failed(codes.DATABASE, "The database did not answer in time.", "See whether it is overloaded.")]
    except CodeHubError as error:
        return [failed_by(codes.DATABASE, error)]
    return standing.findings(found, is_running=is_running)


async def of_data_dir(path: Path) -> list[Finding]:
    """The embedded database of the CodeHub that runs on it; only who may read its secrets can look."""
    try:
        url = url_at(path)
        version = await asyncio.to_thread(migrate.schema_version, url)
        if (other := await servers.other_schema(url, version, _START_ANEW)) is not None:
            return [other]
        return await of_database(url, is_running=True)
    except CodeHubError as error:
        return [failed_by(codes.DATABASE, error)]
