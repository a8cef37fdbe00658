"""What a workspace uses: all of its processes count, once, for it alone; and its ports, not the machine's."""

import asyncio
import io
import shutil

import pytest

from codehub.drivers.base import InstanceUsage
from codehub.drivers.process.usage import is_worth_telling, listening
from tests.drivers_process.world import Workspace, World
from tests.support import eventually_async

MEGABYTE = 1 << 20
# A daemon, without its parent, its session and its environment, that uses memory and a processor.
HUNGRY = """
import os, sys, time
kept = b"x" * (64 << 20)
open("hungry", "w").close()
while time.process_time() < 0.5:
    pass
time.sleep(600)
"""
MANY_PORTS = """
import socket, time
kept = [socket.create_server(("127.0.0.1", port)) for port in range(2000, 2150)]
time.sleep(600)
"""
TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0
   1: 0100007F:1F40 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3 1 0
"""


async def used_by(workspace: Workspace) -> InstanceUsage:
    return (await workspace.world.driver.instances.usage())[workspace.id]


def test_only_listening_ports_of_a_table_count() -> None:
    assert list(listening(io.BytesIO(TABLE.encode()))) == [8000, 22]


def test_a_table_is_read_up_to_a_size() -> None:
    """A workspace may hold any number of connections in its own network namespace."""
    head, one, other, _ = TABLE.encode().splitlines(keepends=True)
    table = io.BytesIO(head + one + other * 100_000 + one)
    assert list(listening(table)) == [8000]
    assert table.tell() == 4 << 20


@pytest.mark.parametrize(("port", "told"), [(80, False), (1024, True), (3128, False), (8888, True), (40_001, False)])
def test_ports_that_a_person_chose_are_told(port: int, told: bool) -> None:
    assert is_worth_telling(port) is told


async def check_that_daemons_count_for_their_workspace_alone(world: World) -> None:
    hungry, modest = await world.start(), await world.start()
    before = await used_by(hungry)
    assert before.memory_bytes is not None
    assert before.cpu_seconds is not None
    hungry.request("PUT", "/files/hungry.py", HUNGRY.encode())
    hungry.run(f"{shutil.which('setsid')} env -i /usr/bin/python3 hungry.py > /dev/null 2>&1 &")
    least_memory, least_cpu = before.memory_bytes + 60 * MEGABYTE, before.cpu_seconds + 0.4

    async def is_counted() -> bool:
        used = await used_by(hungry)
        return (used.memory_bytes or 0) > least_memory and (used.cpu_seconds or 0) > least_cpu

    await eventually_async(is_counted, "what the daemon uses is counted")
    others = await used_by(modest)
    assert (others.memory_bytes or 0) < 60 * MEGABYTE
    for workspace in (hungry, modest):
        await world.driver.instances.remove(workspace.id)


async def test_daemons_count_for_their_workspace_alone(world: World) -> None:
    await check_that_daemons_count_for_their_workspace_alone(world)


async def test_without_a_sandbox_too(bare_world: World) -> None:
    await check_that_daemons_count_for_their_workspace_alone(bare_world)


async def test_ports_are_those_of_the_workspace(world: World) -> None:
    workspace, other = await world.start(), await world.start()
    assert (await used_by(workspace)).ports == ()
    workspace.run("setsid python3 -m http.server 8000 --bind 127.0.0.1 > /dev/null 2>&1 &")

    async def is_seen() -> bool:
        return (await used_by(workspace)).ports == (8000,)

    await eventually_async(is_seen, "the port is seen")
    assert (await used_by(other)).ports == ()
    for each in (workspace, other):
        await world.driver.instances.remove(each.id)


async def test_so_many_ports_are_told_and_no_more(world: World) -> None:
    workspace = await world.start()
    workspace.request("PUT", "/files/many.py", MANY_PORTS.encode())
    workspace.run("setsid python3 many.py > /dev/null 2>&1 &")

    async def are_told() -> bool:
        ports = (await used_by(workspace)).ports
        return ports is not None and len(ports) >= 100

    await eventually_async(are_told, "the ports are seen")
    assert (await used_by(workspace)).ports == tuple(range(2000, 2100))
    await world.driver.instances.remove(workspace.id)


async def test_looks_never_overlap(world: World) -> None:
    workspace = await world.start()
    instances = world.driver.instances
    impatient = asyncio.create_task(instances.usage())
    await asyncio.sleep(0)  # it has begun
    impatient.cancel()
    one, other = await asyncio.gather(instances.usage(), instances.usage())
    assert one is other
    assert one is not await instances.usage(), "the next one is a new look"
    await instances.remove(workspace.id)


async def test_without_a_sandbox_ports_are_the_machines_and_not_told(bare_world: World) -> None:
    workspace = await bare_world.start()
    assert (await used_by(workspace)).ports is None
    await bare_world.driver.instances.remove(workspace.id)
