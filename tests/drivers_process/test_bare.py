"""Without a sandbox: it says so, still keeps users apart where it can, and still kills everything."""

import os
import subprocess
from pathlib import Path

import pytest

from codehub.drivers.base import Resources
from codehub.drivers.process import Options
from codehub.drivers.process.cgroups import Cgroups, limits
from codehub.errors import StartError
from tests.drivers_process.processes import living_with
from tests.drivers_process.world import World
from tests.support import AS_ROOT, eventually, missing, needs_root, short_folder

DAEMONS = (
    "(setsid sleep 500 &) >/dev/null 2>&1",
    "(env -i setsid sleep 500 &) >/dev/null 2>&1",  # left its session, its parent and its mark
)


async def test_it_says_plainly_that_there_is_none(bare_world: World) -> None:
    said = " ".join(bare_world.driver.isolation())
    assert "WARNING: workspaces run without a sandbox" in said
    assert "reach every server" in said


async def test_a_sandbox_that_cannot_be_had_is_said_with_its_reason() -> None:
    folder = short_folder()
    world = World(Options(root=folder / "w", bwrap="/bin/false"))
    assert "it was tried and failed" in world.driver.isolation()[0]
    await world.close()
    with pytest.raises(StartError, match="cannot be sandboxed"):
        World(Options(root=folder / "w", bwrap="/bin/false", sandbox="required"))


async def test_a_sandbox_that_was_there_is_not_given_up_silently(new_world: World) -> None:
    with pytest.raises(StartError, match="sandboxed until now"):
        World(Options(root=new_world.root, bwrap="/bin/false"))
    World(Options(root=new_world.root, sandbox="off")).driver.close()


async def test_every_process_of_it_is_killed(bare_world: World) -> None:
    workspace = await bare_world.start()
    for daemon in DAEMONS:
        workspace.run(daemon)
    if os.geteuid() != 0 and bare_world.driver._machine.cgroups is None:
        missing("root, who finds processes that hide", AS_ROOT)
    user = workspace.home.stat().st_uid
    before = living_with(user)
    assert len(before) >= 5
    await bare_world.driver.instances.remove(workspace.id)
    assert not living_with(user) & before


async def test_every_process_of_it_is_killed_without_cgroups_too(bare_world: World) -> None:
    machine = bare_world.driver._machine
    needs_root("whose workspaces have user ids of their own")
    groups, machine.cgroups = machine.cgroups, None
    try:
        await test_every_process_of_it_is_killed(bare_world)
    finally:
        machine.cgroups = groups


async def test_homes_are_closed_to_other_workspaces(bare_world: World) -> None:
    needs_root("whose workspaces have user ids of their own")
    one, other = await bare_world.start(), await bare_world.start()
    other.request("PUT", "/files/private", "secret")
    assert "denied" in one.run(f"cat {other.home}/private")
    assert "denied" in one.run(f"ls {bare_world.root}/sockets {bare_world.root}/instances")
    for workspace in (one, other):
        await bare_world.driver.instances.remove(workspace.id)


async def test_an_outcast_is_still_adopted(bare_world: World) -> None:
    workspace = await bare_world.start()
    driver = bare_world.open()
    seen = await driver.instances.look(workspace.id)
    assert seen.endpoint == workspace.endpoint
    await driver.instances.remove(workspace.id)
    assert not (await bare_world.driver.instances.look(workspace.id)).exists
    driver.close()


def test_limits_are_written_as_the_kernel_reads_them() -> None:
    assert limits(Resources(1.5, 1 << 30, 100)) == {
        "memory.max": "1073741824",
        "memory.swap.max": "0",
        "memory.oom.group": "0",
        "pids.max": "100",
        "cpu.max": "150000 100000",
    }
    assert limits(Resources(None, None, None)) == {}


def test_a_group_kills_everything_in_it() -> None:
    groups = Cgroups.find(f"test-{os.getpid()}")
    if groups is None:
        missing("a cgroup v2 tree to write", AS_ROOT)
    procs = groups.make("ws-x", Resources())
    with subprocess.Popen(["setsid", "sleep", "600"]) as process:
        procs.write_text(str(process.pid))
        assert process.pid in groups.members("ws-x")
        groups.kill("ws-x")
        assert process.wait(10) < 0
    eventually(lambda: not groups.members("ws-x"), "the group is empty")
    groups.remove("ws-x")
    assert not groups.parent.exists()


def test_where_groups_cannot_be_made_there_are_none(tmp_path: Path) -> None:
    assert Cgroups.find("test", tmp_path / "missing") is None


def test_where_its_python_is_is_looked_up_once(bare_world: World) -> None:
    """Each start and each look asks; on a slow disk that is felt."""
    machine = bare_world.driver._machine
    assert machine.python is machine.python
