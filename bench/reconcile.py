"""What a tick costs: idle at 100,000 workspaces beside 10,000, and a storm of 2,000 wakes at once.

Both installations have the same 2,000 running and 8,000 stopped workspaces; the large one 90,000 archived ones more.
The idle tick includes its share of the sweep (225 rows: what 15 s of it come to). The peer of the storm is the
controller that one would write first: the same decisions, each row written in a transaction of its own.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb

from bench.report import Figure, report
from codehub.coordinator.controller import Controller
from codehub.coordinator.loop import Loop
from codehub.coordinator.pace import Pace
from codehub.coordinator.ports import Asked, Reading
from codehub.coordinator.records import DatabaseRecords
from codehub.db import migrate
from codehub.db.leadership import bump_epoch
from codehub.db.losses import Word
from codehub.db.pool import Role, connection, open_pool
from codehub.db.rows import home_context_json
from codehub.db.statuses import HistoryEntry, StatusChange
from codehub.drivers.base import Resources
from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.things import Instance, Volume
from codehub.embedded import DataDir, EmbeddedServers
from codehub.model import conditions as c
from codehub.model.conditions import Condition, Conditions
from codehub.model.failure import Rules
from codehub.model.names import archive_key, volume_name
from codehub.model.observation import Life
from codehub.model.suspicion import Place
from codehub.model.workspace import (
    ArchiveKey,
    HomeContext,
    Incarnation,
    InstanceBackend,
    OpId,
    Phase,
    VolumeState,
    WorkspaceId,
)

RUNNING, STANDBY, ARCHIVED = 2_000, 8_000, 90_000
IDLE_TICKS, STORM, ROUNDS = 9, 2_000, 3
SWEPT_PER_TICK, SPACING = 225, 1.0
OWNER = UUID(int=1)
LONG_AGO = datetime.now(UTC)


class Leader:
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def is_fresh(self) -> bool:
        return True


class RowByRow:
    """The peer: every row in a transaction of its own."""

    def __init__(self, records: DatabaseRecords) -> None:
        self._records = records

    async def read(self, asked: Asked) -> Reading:
        return await self._records.read(asked)

    async def commit(
        self, epoch: int, changes: Sequence[StatusChange], history: Iterable[HistoryEntry]
    ) -> set[WorkspaceId]:
        entries = {entry.workspace_id: entry for entry in history}
        written: set[WorkspaceId] = set()
        for change in changes:
            entry = entries.get(change.was.id)
            written |= await self._records.commit(epoch, [change], [entry] if entry else [])
        return written

    async def in_store_alone(
        self, retention: timedelta, after: WorkspaceId | None, limit: int
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        return await self._records.in_store_alone(retention, after, limit)

    async def in_store_alone_of(
        self, retention: timedelta, ids: Collection[WorkspaceId]
    ) -> Mapping[WorkspaceId, ArchiveKey]:
        return await self._records.in_store_alone_of(retention, ids)

    async def accepted_losses(self) -> Mapping[Place, Word]:
        return await self._records.accepted_losses()

    async def note_losses(self, epoch: int, place: Place, word: Word) -> None:
        await self._records.note_losses(epoch, place, word)

    async def finish_deletions(self, ids: Collection[WorkspaceId]) -> int:
        return await self._records.finish_deletions(ids)


def condition(status: bool, reason: str) -> Condition:
    return Condition(status, reason, "", LONG_AGO)


def row(phase: Phase, world: MemoryWorld) -> dict[str, object]:
    """A converged workspace, in the row and in the world."""
    it, op = WorkspaceId(uuid4()), OpId(uuid4())
    home, endpoint = HomeContext(), None
    facts = Conditions(
        volume_ready=condition(phase is not Phase.ARCHIVED, c.VOLUME_PROVISIONED),
        archive_ready=condition(phase is Phase.ARCHIVED, c.ARCHIVE_UPLOADED),
        container_ready=condition(phase is Phase.RUNNING, c.CONTAINER_RUNNING),
        healthy=condition(True, c.ALL_CONDITIONS_MET),
    )
    if phase is not Phase.ARCHIVED:
        volume = Volume(Incarnation(str(op)), f"uid-{op}")
        world.volumes[it] = volume
        home = HomeContext(VolumeState.LIVE, volume.incarnation, volume.uid, instance_op=op)
    if phase is Phase.RUNNING:
        endpoint = f"10.0.0.1:{len(world.instances) + 10_000}"
        world.instances[it] = Instance(op, "ide", world.volumes[it], Life.READY, endpoint)
    return {
        "id": it, "owner_user_id": OWNER, "instance_backend": "process", "storage_backend": "directory",
        "home_store_key": volume_name(it), "name": "w", "image_ref": "ide", "standby_ttl_seconds": 600,
        "archive_ttl_seconds": 1800, "desired_state": phase.value, "phase": phase.value,
        "conditions": Jsonb(c.to_json(facts)), "home_ctx": Jsonb(home_context_json(home)), "op_id": op,
        "archive_key": archive_key(it, op) if phase is Phase.ARCHIVED else None, "endpoint": endpoint,
        "observed_at": LONG_AGO,
    }  # fmt: skip


async def fill(url: str, archived: int) -> MemoryWorld:
    world = MemoryWorld()
    phases = [Phase.RUNNING] * RUNNING + [Phase.STANDBY] * STANDBY + [Phase.ARCHIVED] * archived
    async with await psycopg.AsyncConnection.connect(url) as conn:
        await conn.execute("INSERT INTO users (id, username) VALUES (%s, 'bench')", [OWNER])
        columns = ", ".join(row(Phase.ARCHIVED, MemoryWorld()))
        async with conn.cursor().copy(f"COPY workspaces ({columns}) FROM STDIN") as copy:
            for phase in phases:
                await copy.write_row(list(row(phase, world).values()))
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute("VACUUM ANALYZE workspaces")
    return world


class Site:
    """One installation: a database filled to a size, and a world that agrees with it."""

    def __init__(self, url: str, world: MemoryWorld, records: DatabaseRecords, epoch: int) -> None:
        self.url, self.world, self.records, self.epoch = url, world, records, epoch

    def controller(
        self, records: DatabaseRecords | RowByRow | None = None, sweep_rate: float = SWEPT_PER_TICK / 15
    ) -> Controller:
        return Controller(
            records or self.records,
            self.world.archives,
            {InstanceBackend.PROCESS: self.world.backend()},
            Leader(self.epoch),
            rules=Rules(),
            resources=Resources(),
            pace=Pace(sweep_rate=sweep_rate),
            new_op_id=lambda: OpId(uuid4()),
        )


async def caught_up(controller: Controller) -> None:
    while controller.is_catching_up:
        await controller.tick()


async def idle_ticks(controllers: Sequence[Controller]) -> list[list[tuple[float, float]]]:
    """Wall and processor milliseconds of idle ticks, in turns."""
    found: list[list[tuple[float, float]]] = [[] for _ in controllers]
    started: dict[Controller, float] = {}  # each gets its share of the sweep by the time since its last tick
    for _ in range(IDLE_TICKS):
        for controller, times in zip(controllers, found, strict=True):
            await asyncio.sleep(max(0.0, SPACING - (time.perf_counter() - started.get(controller, 0.0))))
            started[controller] = time.perf_counter()
            wall, processor = time.perf_counter(), time.process_time()
            await controller.tick()
            times.append(((time.perf_counter() - wall) * 1000, (time.process_time() - processor) * 1000))
    return found


async def storm(site: Site, records: DatabaseRecords | RowByRow, counted: list[int]) -> tuple[float, float]:
    """2,000 stopped workspaces are wanted at once: transitions per second, and statements for each."""
    controller = site.controller(records)
    async with controller.working(), await psycopg.AsyncConnection.connect(site.url, autocommit=True) as conn:
        await caught_up(controller)
        loop = Loop("controller", controller.tick, controller.period)
        controller.on_wake = loop.wake
        counted[0] = 0
        ticking = asyncio.create_task(loop.run())
        started = time.perf_counter()
        await conn.execute(
            "UPDATE workspaces SET desired_state = 'RUNNING' WHERE id IN "
            "(SELECT id FROM workspaces WHERE phase = 'STANDBY' LIMIT %s)", [STORM]
        )  # fmt: skip
        controller.woken()
        while True:
            cursor = await conn.execute("SELECT count(*) FROM workspaces WHERE phase = 'RUNNING'")
            if (await cursor.fetchone() or [0])[0] == RUNNING + STORM:
                break
            await asyncio.sleep(0.05)
        seconds, statements = time.perf_counter() - started, counted[0]
        await conn.execute(
            "UPDATE workspaces SET desired_state = 'STANDBY' WHERE id IN "
            "(SELECT id FROM workspaces WHERE phase = 'RUNNING' LIMIT %s)", [STORM]
        )  # fmt: skip
        controller.woken()
        while True:
            cursor = await conn.execute("SELECT count(*) FROM workspaces WHERE phase = 'STANDBY'")
            if (await cursor.fetchone() or [0])[0] == STANDBY:
                break
            await asyncio.sleep(0.05)
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)
    return STORM / seconds, statements / STORM


def count_statements() -> list[int]:
    """Every statement of this process from here on; the poll of the benchmark itself is among them."""
    counted = [0]
    execute = psycopg.AsyncCursor.execute

    async def counting(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - passed on as it is
        counted[0] += 1
        return await execute(self, *args, **kwargs)

    psycopg.AsyncCursor.execute = counting  # type: ignore[method-assign]
    return counted


async def bench(folder: Path) -> None:
    with DataDir.open(folder / "d") as data:
        async with EmbeddedServers(data, valkey=False).running() as servers:
            assert servers.database_url is not None
            small, large = (
                await opened(servers.database_url, "small", 0),
                await opened(servers.database_url, "large", ARCHIVED),
            )
            await measure(small, large)


async def opened(server: str, name: str, archived: int) -> tuple[str, MemoryWorld]:
    async with await psycopg.AsyncConnection.connect(server, autocommit=True) as conn:
        await conn.execute(f"CREATE DATABASE {name}")
    url = psycopg.conninfo.make_conninfo(server, dbname=name)
    await asyncio.to_thread(migrate.upgrade, url)
    return url, await fill(url, archived)


async def measure(small: tuple[str, MemoryWorld], large: tuple[str, MemoryWorld]) -> None:
    sites = []
    async with (
        open_pool(small[0], Role.CONTROLLER) as small_pool,
        open_pool(small[0], Role.API) as small_api,
        open_pool(large[0], Role.CONTROLLER) as large_pool,
        open_pool(large[0], Role.API) as large_api,
    ):
        for (url, world), pool, api in ((small, small_pool, small_api), (large, large_pool, large_api)):
            async with connection(pool) as conn:
                epoch = await bump_epoch(conn, "bench")
            sites.append(Site(url, world, DatabaseRecords(pool, api), epoch))
        controllers = [site.controller(sweep_rate=SWEPT_PER_TICK / SPACING) for site in sites]
        async with controllers[0].working(), controllers[1].working():
            for controller in controllers:
                await caught_up(controller)
            at_10k, at_100k = await idle_ticks(controllers)
        counted = count_statements()
        ours, peer = [], []
        for _ in range(ROUNDS):
            ours.append(await storm(sites[1], sites[1].records, counted))
            peer.append(await storm(sites[1], RowByRow(sites[1].records), counted))
    report(
        "reconcile",
        [
            Figure("idle-tick-wall", "ms", [wall for wall, _ in at_100k], [wall for wall, _ in at_10k]),
            Figure("idle-tick-processor", "ms", [cpu for _, cpu in at_100k], [cpu for _, cpu in at_10k]),
            Figure("storm", "transitions/s", [rate for rate, _ in ours], [rate for rate, _ in peer]),
            Figure("storm-statements", "per transition", [each for _, each in ours], [each for _, each in peer]),
        ],
    )


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir="/tmp"))
    folder.chmod(0o755)  # the server runs under another account when we are root
    try:
        asyncio.run(bench(folder))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
