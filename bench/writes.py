"""Writing the statuses of 1,000 changed workspaces: our one statement beside executemany, at 100,000 rows.

The peer is what one would write first: the same compare-and-set as one UPDATE per row, sent by psycopg's executemany,
which pipelines. Both run in one transaction on the same durable server.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from psycopg.types.json import Jsonb

from bench.report import Figure, report
from codehub.db import migrate
from codehub.db.leadership import bump_epoch
from codehub.db.pool import Connection, Role, connection, open_pool
from codehub.db.reads import sweep
from codehub.db.statuses import StatusChange, given, write_statuses
from codehub.embedded import DataDir, EmbeddedServers

ROWS, CHANGED, ROUNDS = 100_000, 1_000, 7

FILL = """
INSERT INTO workspaces (id, owner_user_id, name, image_ref, instance_backend, storage_backend, home_store_key,
                        standby_ttl_seconds, archive_ttl_seconds)
SELECT id, '00000000-0000-0000-0000-000000000001', 'w', 'ide', 'process', 'directory', 'ws-' || id || '-home', 600, 1800
FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, %s)) AS made
"""

ONE_ROW = """
UPDATE workspaces
SET conditions = %(conditions)s, phase = %(phase)s, phase_changed_at = %(phase_changed_at)s,
    observed_at = %(observed_at)s, operation = %(operation)s, op_started_at = %(op_started_at)s, op_id = %(op_id)s,
    archive_key = %(archive_key)s, home_ctx = %(home_ctx)s, endpoint = %(endpoint)s, error_reason = %(error_reason)s,
    error_count = %(error_count)s, retry_at = %(retry_at)s, recover_handled_id = %(recover_handled_id)s
WHERE id = %(id)s AND operation = %(operation_was)s AND op_id IS NOT DISTINCT FROM %(op_id_was)s
  AND phase = %(phase_was)s AND EXISTS (SELECT FROM leadership WHERE epoch = %(epoch)s)
"""


async def peer(conn: Connection, epoch: int, changes: Sequence[StatusChange]) -> None:
    def arguments(change: StatusChange) -> dict[str, Any]:
        row = given(change)
        return {**row, "conditions": Jsonb(row["conditions"]), "home_ctx": Jsonb(row["home_ctx"]), "epoch": epoch}

    async with conn.cursor() as cursor:
        await cursor.executemany(ONE_ROW, [arguments(change) for change in changes])


async def measure(url: str) -> Figure:
    ours: list[float] = []
    theirs: list[float] = []
    async with open_pool(url, Role.CONTROLLER) as pool:
        async with connection(pool) as conn:
            epoch = await bump_epoch(conn, "bench")
        for round_number in range(ROUNDS * 2):
            async with connection(pool) as conn:
                found = await sweep(conn, None, CHANGED)
                changes = [StatusChange(was, replace(was.status, error_count=round_number)) for was in found]
                assert len(changes) == CHANGED
                started = time.perf_counter()
                if round_number % 2:
                    await peer(conn, epoch, changes)
                else:
                    assert len((await write_statuses(conn, epoch, changes)).ids) == CHANGED
                await conn.commit()
                (theirs if round_number % 2 else ours).append((time.perf_counter() - started) * 1000)
    return Figure("1000-workspaces", "ms", ours, theirs)


async def bench(folder: Path) -> None:
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data, valkey=False).running() as servers:
            assert servers.database_url is not None
            await asyncio.to_thread(migrate.upgrade, servers.database_url)
            await fill(servers.database_url)
            report("writes", [await measure(servers.database_url)])


async def fill(url: str) -> None:
    async with open_pool(url, Role.API) as pool, connection(pool) as conn:
        await conn.execute("INSERT INTO users (id, username) VALUES ('00000000-0000-0000-0000-000000000001', 'bench')")
        await conn.execute("SET LOCAL statement_timeout = '300s'")
        await conn.execute(FILL, [ROWS])


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    folder.chmod(0o755)  # the server runs under another account when we are root
    try:
        asyncio.run(bench(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
