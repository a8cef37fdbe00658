"""Small scopes, searched exhaustively: within a few surprises of each start nothing is lost and everything ends well.

Most bugs need few surprises but the right ones at the right moments, which random histories seldom hit. The starts
differ in what is already under way or still asleep somewhere; `SURPRISES=3` searches deeper, in about two minutes.
"""

import os
from collections.abc import Callable

import pytest

from codehub.model import actions as a
from codehub.model.workspace import Desired, Phase
from tests.model.search import Search, canonical, fork
from tests.model.traces import fails_to_start, settled, until, until_about_to, until_at
from tests.model.world import World

SURPRISES = int(os.environ.get("SURPRISES", "2"))


def new() -> World:
    return World(Desired.RUNNING)


def a_copy_of_another() -> World:
    return World(Desired.STANDBY, source=True)


def running() -> World:
    return settled()


def about_to_archive() -> World:
    world = settled(Desired.STANDBY)
    world.ask(Desired.ARCHIVED)
    return world


def about_to_restore() -> World:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    return world


def about_to_be_deleted() -> World:
    world = settled(Desired.STANDBY)
    world.ask_delete()
    return world


def in_error() -> World:
    return fails_to_start()


def half_restored() -> World:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.STANDBY)
    until(world, lambda: world.row.status.phase is Phase.ERROR, jobs="stops half way")
    return world


def about_to_commit_while_a_start_sleeps() -> World:
    world = settled(Desired.STANDBY)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.StartInstance)
    world.tick("action hangs")
    until_at(world, Phase.RUNNING)
    world.ask(Desired.ARCHIVED)
    until(world, lambda: world.archives)
    return world


def running_while_a_creation_sleeps() -> World:
    world = settled(Desired.ARCHIVED)
    world.ask(Desired.RUNNING)
    until_about_to(world, a.CreateVolume)
    world.tick("pauses before action")
    until_at(world, Phase.RUNNING)
    return world


STARTS = [
    new,
    a_copy_of_another,
    running,
    about_to_archive,
    about_to_restore,
    about_to_be_deleted,
    in_error,
    half_restored,
    about_to_commit_while_a_start_sleeps,
    running_while_a_creation_sleeps,
]


@pytest.mark.parametrize("start", STARTS)
def test_whatever_few_surprises_happen_nothing_is_lost_and_all_ends_well(start: Callable[[], World]) -> None:
    assert Search(SURPRISES).run(start()) > 100  # else it did not get anywhere


def test_a_fork_goes_its_own_way_and_equal_worlds_are_one_state() -> None:
    world = settled()
    twin = fork(world)
    assert canonical(twin) == canonical(world)
    twin.write()
    assert (home_of(world), home_of(twin)) == (1, 2)
    twin.lose_volume()
    assert world.volume is not None
    assert canonical(settled(Desired.ARCHIVED, Desired.RUNNING, Desired.ARCHIVED, Desired.RUNNING)) == canonical(
        settled(Desired.ARCHIVED, Desired.RUNNING)
    )


def home_of(world: World) -> int | None:
    assert world.volume is not None
    return world.volume.content
