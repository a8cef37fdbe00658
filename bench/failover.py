"""How long nobody leads: a leader that is told to stop (ours), beside one that is killed (the peer).

Two real coordinators on one PostgreSQL and one Valkey; each round ends the leader, and the clock stops when another one
has raised the epoch. What was ended is replaced before the next round. ROUNDS=… for other than 20 of each.
"""

import os
import shutil
import signal
import statistics
import time
from pathlib import Path

from bench.report import Figure, report
from codehub.db import migrate
from codehub.embedded import DataDir, EmbeddedServers
from tests.support import eventually, short_folder
from tests.upgrade.parts import Installation, Part, installation

ROUNDS = int(os.environ.get("ROUNDS", "20"))
LOOK_SECONDS = 0.005
LONGEST_SECONDS = 60.0


def fresh(here: Installation) -> Part:
    return here.start("coordinator").is_ready()


def ended(here: Installation, members: list[Part], how: signal.Signals) -> float:
    """Milliseconds until another one leads; `members` are as many as before."""
    (leader,) = [each for each in members if here.leads(each)]
    epoch, _ = here.leadership()
    at = time.perf_counter()
    leader.signal(how)
    while here.leadership()[0] == epoch:
        assert time.perf_counter() - at < LONGEST_SECONDS
        time.sleep(LOOK_SECONDS)
    took = (time.perf_counter() - at) * 1000
    members.remove(leader)
    leader.ended()
    here.parts.remove(leader)
    members.append(fresh(here))
    return took


def measured(folder: Path, database: str, redis: str) -> tuple[list[float], list[float]]:
    with installation(folder, database, redis) as here:
        members = [fresh(here), fresh(here)]
        eventually(lambda: any(here.leads(each) for each in members), "somebody leads", LONGEST_SECONDS)
        told, killed = [], []
        for _ in range(ROUNDS):  # one after the other, so that both have the same weather
            told.append(ended(here, members, signal.SIGTERM))
            killed.append(ended(here, members, signal.SIGKILL))
        return told, killed


async def main() -> None:
    folder = short_folder()
    with DataDir.open(folder / "servers") as data:
        async with EmbeddedServers(data, durable=False).running() as servers:
            assert servers.database_url
            assert servers.redis_url
            migrate.upgrade(servers.database_url)
            told, killed = measured(folder, servers.database_url, servers.redis_url)
    shutil.rmtree(folder)
    slowest = [[statistics.quantiles(each, n=20)[-1]] for each in (told, killed)]
    report("failover", [Figure("p50", "ms", told, killed), Figure("p95", "ms", *slowest)])


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
