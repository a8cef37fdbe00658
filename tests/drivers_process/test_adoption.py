"""What runs outlives us, is found again, and is killed to the last process; what is not ours is left alone."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from uuid import uuid4

import pytest

from codehub.drivers.process.identity import boot_id, proc
from codehub.drivers.process.layout import new_token
from codehub.errors import ActionFailed, Refused, TerminalError
from codehub.model.observation import Life
from codehub.model.workspace import WorkspaceId
from tests.drivers_process.processes import living_of
from tests.drivers_process.world import Workspace, World
from tests.support import eventually, eventually_async

# A coordinator that starts a workspace and is killed before it hears that it is ready, or after.
COORDINATOR = """
import asyncio, os, sys
from pathlib import Path
from uuid import UUID
from codehub.drivers.process import Options
from codehub.model.workspace import WorkspaceId
from tests.drivers_process.world import World

async def main():
    world = World(Options(root=Path(sys.argv[1])))
    workspace_id, volume = await world.create(WorkspaceId(UUID(sys.argv[2])))
    starting = asyncio.ensure_future(world.start_on(workspace_id, volume))
    if sys.argv[3] == "early":
        while not (world.root / f"instances/ws-{workspace_id}/process.json").exists():
            await asyncio.sleep(0)
    else:
        await starting
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""

DAEMON = "(setsid sh -c 'sleep 500 & setsid sleep 500 &') >/dev/null 2>&1"


def _die_as_coordinator(world: World, workspace_id: WorkspaceId, when: str) -> None:
    command = [sys.executable, "-c", COORDINATOR, str(world.root), str(workspace_id), when]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _exists(path: str) -> bool:
    return Path(path).exists()


@pytest.mark.parametrize("when", ["early", "late"])
async def test_it_outlives_our_death_and_is_adopted(world: World, when: str) -> None:
    workspace_id = WorkspaceId(uuid4())
    _die_as_coordinator(world, workspace_id, when)
    driver = world.open()

    async def is_ready() -> bool:
        return (await driver.instances.observe())[workspace_id].life is Life.READY

    await eventually_async(is_ready, "the instance is ready for its new owner")
    seen = await driver.instances.look(workspace_id)
    assert seen.endpoint is not None
    workspace = Workspace(world, workspace_id, (await driver.volumes.look(workspace_id)).ref, seen.endpoint)
    assert str(workspace_id).encode() in workspace.request("GET", "/")[1]
    await driver.instances.remove(workspace_id)
    driver.close()


async def test_removal_takes_daemons_that_left_their_session(world: World) -> None:
    workspace = await world.start()
    workspace.run(DAEMON)
    record, before = workspace.record, workspace.processes()
    assert len(before) >= 6  # bubblewrap twice, the server, its two children, the daemons
    await world.driver.instances.remove(workspace.id)
    assert living_of(record) == set()
    assert not any(_exists(f"/proc/{pid}/exe") for pid in before)
    assert not (world.root / f"instances/ws-{workspace.id}").exists()
    assert not _exists(workspace.endpoint.removeprefix("unix:"))


async def test_removal_finds_the_sandbox_although_its_keeper_is_dead(world: World) -> None:
    workspace = await world.start()
    record = workspace.record
    os.kill(record.pids[0], signal.SIGKILL)
    eventually(lambda: record.pids[0] not in living_of(record), "bubblewrap is gone")
    assert len(living_of(record)) > 3
    await world.driver.instances.remove(workspace.id)
    assert living_of(record) == set()


async def test_an_ide_that_dies_is_dead_although_something_it_started_lives(world: World) -> None:
    workspace = await world.start()
    workspace.run(DAEMON)
    record = workspace.record
    with suppress(OSError, http.client.HTTPException):
        workspace.run("kill -9 2")

    async def is_dead() -> bool:
        return (await world.driver.instances.look(workspace.id)).life is Life.DEAD

    await eventually_async(is_dead, "the instance is dead")
    assert living_of(record)
    with pytest.raises(Refused):
        await world.driver.volumes.delete(workspace.id, workspace.volume)
    again = await world.start_on(workspace.id, workspace.volume)
    assert living_of(record) == set(), "what was left has gone"
    assert again.request("GET", "/")[0] == 200
    await world.driver.instances.remove(workspace.id)


async def test_a_dead_instance_is_made_again_and_a_living_one_left_alone(world: World) -> None:
    workspace = await world.start()
    again = await world.start_on(workspace.id, workspace.volume)
    assert again.record == workspace.record
    os.kill(workspace.record.pids[1], signal.SIGKILL)
    eventually(lambda: not workspace.processes(), "it is dead")
    seen = await world.driver.instances.look(workspace.id)
    assert (seen.life, seen.endpoint) == (Life.DEAD, None)
    new = await world.start_on(workspace.id, workspace.volume)
    assert new.endpoint != workspace.endpoint, "no address is ever used twice"
    with pytest.raises(OSError, match="No such file"):
        workspace.request("GET", "/")
    await world.driver.instances.remove(workspace.id)


@pytest.mark.parametrize("differs", ["start", "boot", "only the sandbox"])
async def test_a_pid_that_was_given_out_again_is_neither_believed_nor_killed(world: World, differs: str) -> None:
    workspace = await world.start()
    folder = world.root / f"instances/ws-{workspace.id}"
    for pid in workspace.record.pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not workspace.processes(), "it is dead")
    with running("sleep", "600") as innocent:
        found = proc(innocent.pid)
        assert found is not None
        process = {"pid": innocent.pid, "started": found.started, "boot": boot_id()}
        match differs:
            case "start":
                process["started"] = found.started - 1
            case "boot":
                process["boot"] = str(uuid4())
            case _:
                process["pid"] = 2**22 + 1
        (folder / "process.json").write_text(json.dumps(process))
        (folder / "sandbox.json").write_text(json.dumps({"child-pid": innocent.pid}))
        assert (await world.driver.instances.look(workspace.id)).life is Life.DEAD
        await world.driver.instances.remove(workspace.id)
        assert innocent.poll() is None


async def test_a_zombie_is_dead(world: World) -> None:
    workspace = await world.start()
    folder = world.root / f"instances/ws-{workspace.id}"
    for pid in workspace.record.pids:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not workspace.processes(), "it is dead")
    with running("true") as ended:
        eventually(lambda: bool((found := proc(ended.pid)) is None or found.is_zombie), "it has ended")
        found = proc(ended.pid)
        assert found is not None
        assert found.is_zombie
        process = {"pid": ended.pid, "started": found.started, "boot": boot_id()}
        (folder / "process.json").write_text(json.dumps(process))
        assert (await world.driver.instances.look(workspace.id)).life is Life.DEAD
    await world.driver.instances.remove(workspace.id)


async def test_an_instance_that_ends_at_once_is_an_error_with_its_last_words(new_world: World) -> None:
    folder = new_world.ides / "jupyterlab/bin"
    folder.mkdir(parents=True)
    (folder.parent / "installed").touch()
    (folder / "python").write_text("#!/bin/sh\necho 'no module named jupyter' >&2\nexit 1\n")
    (folder / "python").chmod(0o755)
    with pytest.raises(ActionFailed, match="no module named jupyter"):
        await new_world.start(image_ref="jupyterlab")


async def test_what_is_not_installed_or_not_offered_is_terminal(world: World) -> None:
    for image_ref in ("jupyterlab", "code-server", "../../bin/sh"):
        with pytest.raises(TerminalError) as raised:
            await world.start(image_ref=image_ref)
        assert raised.value.reason == "ImagePullFailed"


async def test_a_lost_home_is_not_made_up(world: World) -> None:
    workspace_id, volume = await world.create()
    await world.driver.volumes.delete(workspace_id, volume)
    with pytest.raises(Refused):
        await world.start_on(workspace_id, volume)
    assert not (await world.driver.volumes.look(workspace_id)).exists
    assert not (await world.driver.instances.look(workspace_id)).exists


async def test_sockets_that_no_record_names_go_and_those_in_use_stay(world: World) -> None:
    """As after a power cut: a record may then be empty, and nobody knows any more whose sockets those were."""
    living, orphan, working = await world.start(), new_token(), new_token()
    folder = world.root / f"instances/ws-{uuid4()}"
    folder.mkdir()
    (folder / "instance.json").touch()
    sockets = world.root / "sockets"
    others = sockets / "not-ours"
    for each in (sockets / orphan, sockets / working, others):
        each.mkdir()
    with running("env", f"CODEHUB_MARK={working}", "sleep", "600"):
        driver = world.open()
        eventually(lambda: not (sockets / orphan).exists(), "it is gone")
        assert (sockets / working).exists(), "somebody may still be using them"
        assert others.exists(), "not of our form"
        assert living.request("GET", "/")[0] == 200
        driver.close()
    others.rmdir()
    shutil.rmtree(folder)
    driver = world.open()
    eventually(lambda: not (sockets / working).exists(), "it is gone too")
    driver.close()
    await world.driver.instances.remove(living.id)


async def test_a_death_is_an_event(world: World) -> None:
    workspace = await world.start()
    events = world.driver.instances.events()
    await anext(events)  # what was there before
    os.kill(workspace.record.pids[1], signal.SIGKILL)
    await anext(events)
    await world.driver.instances.remove(workspace.id)


async def test_a_start_takes_a_moment(world: World, record_property: Callable[[str, object], None]) -> None:
    times = []
    for _ in range(5):
        workspace_id, volume = await world.create()
        before = time.perf_counter()
        await world.start_on(workspace_id, volume)
        times.append(time.perf_counter() - before)
        await world.driver.instances.remove(workspace_id)
    record_property("start_seconds", round(median(times), 3))
    assert median(times) < 3
