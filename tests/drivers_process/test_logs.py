"""A workspace's log: what it says is kept, up to a size, and nothing that was said can be taken back."""

import os
import socket
from pathlib import Path

import pytest

from codehub.drivers.process.layout import new_token
from codehub.drivers.process.machine import Launch
from codehub.drivers.process.records import last_words, tail
from codehub.drivers.process.sandbox import View
from tests.drivers_process.world import World
from tests.support import eventually, eventually_async, needs_sandbox

SCRIPT = """
import os
os.write(1, b"first\\n")
try:
    os.ftruncate(1, 0)
except OSError:
    pass
try:
    os.pwrite(1, b"forged", 0)
except OSError:
    pass
for _ in range(%d):
    os.write(1, b"0123456789abcdef" * 4096)
os.write(2, b"\\nlast\\n")
"""


def _log_of(world: World, blocks: int) -> Path:
    machine = world.driver._machine
    folder = machine.layout.draft(Path("record"))
    command = [str(machine.python), "-I", "-S", "-c", SCRIPT % blocks]
    machine.launch(
        Launch(
            folder=folder, mark=new_token(), view=View(machine.python_binds(), {}, command, folder="/"),
            user=(machine.users or [os.geteuid()])[0], plain=command, plain_environment={}, plain_folder=Path("/"),
            wait=True,
        )
    )  # fmt: skip
    return folder / "log"


@pytest.mark.parametrize("kind", ["world", "bare_world"])
def test_it_cannot_be_truncated_or_forged(request: pytest.FixtureRequest, world: World, kind: str) -> None:
    needs_sandbox(world.driver)
    log = _log_of(request.getfixturevalue(kind), 0)
    assert last_words(log, 9).split() == ["first", "last"]


@pytest.mark.parametrize("kind", ["world", "bare_world"])
def test_it_does_not_grow_without_end(request: pytest.FixtureRequest, world: World, kind: str) -> None:
    needs_sandbox(world.driver)
    log = _log_of(request.getfixturevalue(kind), 400)  # 25 MiB
    assert last_words(log, 1) == "last\n"
    assert log.stat().st_size < 3 << 20


async def test_nor_does_what_a_way_out_says(world: World) -> None:
    """It has no reader of ours for as long as CodeHub is down, and a workspace makes it say something at will."""
    needs_sandbox(world.driver)
    machine = world.driver._machine
    folder = machine.layout.draft(Path("record"))
    command = [str(machine.python), "-I", "-S", "-c", SCRIPT % 400]
    user, place = (machine.users or [os.geteuid()])[0], folder / "socket"
    machine.launch(
        Launch(
            folder=folder, mark=new_token(), view=View(machine.python_binds(), {}, command, folder="/"), user=user,
            plain=[], plain_environment={}, plain_folder=Path("/"), listen=[place], doze=True, dialler=user,
        )
    )  # fmt: skip
    with socket.socket(socket.AF_UNIX) as leash, socket.socket(socket.AF_UNIX) as visitor:
        leash.connect(str(place))
        visitor.connect(str(place))  # there is work: it is started, and ends
        eventually(lambda: "The way out has ended" in tail(folder / "log", 2), "it was started")
    assert tail(folder / "log", 2).startswith("last\n")
    assert (folder / "log").stat().st_size < 3 << 20


async def test_it_goes_on_while_nobody_looks(new_world: World) -> None:
    """Whoever keeps it is no child of ours."""
    workspace = await new_world.start()
    new_world.driver.close()
    workspace.request("GET", "/said-meanwhile")
    new_world.driver = new_world.open()

    async def is_there() -> bool:
        return "said-meanwhile" in await new_world.driver.instances.logs(workspace.id, 10)

    await eventually_async(is_there, "what was said without us")
    members = workspace.processes()
    await new_world.driver.instances.remove(workspace.id)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in members), "who kept it has ended too")
