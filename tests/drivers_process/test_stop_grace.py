"""STOP_GRACE_SECONDS: programs are asked to end before they are killed, and nothing waits for those that do not."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

from codehub.drivers.process import Options
from tests.drivers_process.processes import living_of
from tests.drivers_process.world import World
from tests.support import eventually, needs_sandbox, short_folder

LAST_WILL = (
    "(trap 'echo bye >{home}/will; exit' TERM; touch {home}/ready; while :; do sleep 0.3; done) >/dev/null 2>&1 &"
)
STUBBORN = "(trap '' TERM; touch {home}/ready; while :; do sleep 0.05; done) >/dev/null 2>&1 &"


@asynccontextmanager
async def graceful(sandbox: Literal["auto", "off"], seconds: float) -> AsyncIterator[World]:
    folder = short_folder()
    world = World(Options(root=folder / "w", sandbox=sandbox, stop_grace=seconds))
    yield world
    await world.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize("seconds", [0.0, 30.0])
async def test_a_program_has_time_to_end_by_itself(seconds: float) -> None:
    """Without a sandbox, which would end everything as soon as its first program ends."""
    async with graceful("off", seconds) as world:
        await _ends_by_itself(world, expected=seconds > 0)


async def _ends_by_itself(world: World, *, expected: bool) -> None:
    workspace = await world.start()
    home = workspace.home
    workspace.run(LAST_WILL.format(home=home))
    eventually((home / "ready").exists, "it runs")
    record = workspace.record
    await world.driver.instances.remove(workspace.id)
    assert (home / "will").exists() == expected
    assert living_of(record) == set()


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_what_does_not_end_is_killed(sandbox: Literal["auto", "off"]) -> None:
    async with graceful(sandbox, 0.2) as world:
        if sandbox == "auto":
            needs_sandbox(world.driver)
        workspace = await world.start()
        workspace.run(STUBBORN.format(home="~" if sandbox == "auto" else workspace.home))
        eventually((workspace.home / "ready").exists, "it runs")
        record = workspace.record
        await world.driver.instances.remove(workspace.id)
        assert living_of(record) == set()
