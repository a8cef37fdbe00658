"""From anything that can happen, every workspace gets where its user wants it, and loses nothing on the way."""

import os
import random
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.conditions import VOLUME_UNKNOWN, VOLUME_UNPROVEN
from codehub.model.workspace import Desired, Operation, Phase, RecoverFrom
from tests.model.world import World

WANTED = st.sampled_from([Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED])
TICKS = [
    "well",
    "dies before commit",
    "dies before action",
    "pauses before commit",
    "pauses before action",
    "action fails",
    "action hangs",
    "action lands but fails",
]
PROGRESS = [
    *[("tick", "well")] * 10,
    *[("jobs", "well")] * 3,
    *[("ask", desired.value) for desired in (Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED)],
    ("write", ""),
    ("write", ""),
]
ORDINARY = [
    *[("tick", how) for how in TICKS],
    *[("tick", "well")] * 6,
    *[("jobs", how) for how in ("well", "well", "well", "fails", "damages", "stops half way")],
    *[("ask", desired.value) for desired in (Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED)],
    ("write", ""),
    ("write", ""),
    ("delete", ""),
    ("undelete", ""),
    ("recover", "as_is"),
    ("instance dies", ""),
    ("wake paused", ""),
    ("land late", ""),
    ("outage", "driver"),
    ("outage", "store"),
    ("outage", "listing"),  # a listing that lacks the volume, and nobody has looked directly yet
    ("outage ends", ""),
    ("unreadable", ""),  # a file of the home cannot be read: no archive of it can be made
    ("mended", ""),
]
ACCIDENTS = [
    ("lose volume", ""),
    ("damage archive", ""),
    ("purge", ""),
    *[("recover", source.value) for source in (RecoverFrom.ARCHIVE, RecoverFrom.BLANK, RecoverFrom.VOLUME)],
    ("force", "archive"),
    ("force", "blank"),
]

Event = tuple[str, str]


@dataclass(frozen=True)
class History:
    """Where a workspace began and what happened to it."""

    desired: Desired
    source: bool
    events: list[Event]


def walks(events: list[Event]) -> st.SearchStrategy[list[Event]]:
    """Histories of every length alike; plain lists would nearly all be short."""
    return st.integers(0, 80).flatmap(lambda n: st.lists(st.sampled_from(events), min_size=n, max_size=n))


def happen(world: World, event: Event) -> None:  # noqa: C901  one line per kind of event
    kind, how = event
    match kind:
        case "tick":
            world.tick(how)
        case "jobs":
            world.run_jobs(how)
        case "ask":
            world.ask(Desired(how))
        case "write":
            world.write()
        case "delete":
            world.ask_delete()
        case "purge":
            world.ask_delete(purge=True)
        case "undelete":
            world.ask_undelete()
        case "recover":
            world.ask_recover(RecoverFrom(how))
        case "force":
            world.ask_recover(RecoverFrom(how), forced=True)
        case "instance dies":
            world.instance_dies()
        case "wake paused":
            world.wake_paused()
        case "land late":
            world.land_late()
        case "outage":
            world.out.add(how)
        case "outage ends":
            world.out.clear()
        case "unreadable":
            world.unreadable = True
        case "mended":
            world.unreadable = False
        case "lose volume":
            world.lose_volume()
        case "damage archive":
            world.damage_archive()
        case _:
            raise AssertionError(kind)
    world.check()


def is_settled(world: World) -> bool:
    wish, status = world.row.wish, world.row.status
    if wish.deleted_at is not None:
        # A volume that no operation of ours made is left to a person even then.
        gone = world.volume is None or status.conditions.volume_ready.reason in (VOLUME_UNKNOWN, VOLUME_UNPROVEN)
        return status.phase in (Phase.DELETED, Phase.DELETING) and gone and world.instance is None
    return status.operation is Operation.NONE and status.phase.value == wish.desired_state.value


def recover_somehow(world: World) -> None:
    """What a person would do with an ERROR: try again, then say where the home comes from."""
    gentle = (RecoverFrom.AS_IS, RecoverFrom.VOLUME, RecoverFrom.ARCHIVE, RecoverFrom.BLANK)
    for source, forced in (
        *((source, False) for source in gentle),
        (RecoverFrom.ARCHIVE, True),
        (RecoverFrom.BLANK, True),
    ):
        if world.row.status.phase is not Phase.ERROR:
            return
        world.ask_recover(source, forced)
        world.settle()


def ends_as_wished(world: World) -> None:
    steps = world.settle()
    assert steps <= 60
    if world.row.status.phase is Phase.ERROR and world.row.wish.deleted_at is None:
        recover_somehow(world)
    assert is_settled(world), (world.row.wish, world.row.status)


def live_through(history: History) -> World:
    world = World(history.desired, history.source)
    for event in history.events:
        happen(world, event)
    ends_as_wished(world)
    return world


@given(st.builds(History, WANTED, st.booleans(), walks(ORDINARY)))
@settings(max_examples=150)
def test_faults_that_end_lose_nothing_and_every_wish_comes_true(history: History) -> None:
    live_through(history)


@given(st.builds(History, WANTED, st.booleans(), walks(ORDINARY + ACCIDENTS)))
@settings(max_examples=150)
def test_after_accidents_no_loss_is_silent_and_a_person_can_always_go_on(history: History) -> None:
    live_through(history)


@pytest.mark.parametrize("events", [ORDINARY, ORDINARY + ACCIDENTS], ids=["ordinary", "accidents"])
def test_thousands_of_longer_histories(events: list[Event]) -> None:
    """The same, ten times as many per second as Hypothesis draws; a failure is shrunk and shown as code."""
    for seed in range(int(os.environ.get("WALKS", "2500"))):
        history = random_history(random.Random(seed), events)
        if failure_of(history) is not None:
            smallest = shrunk(history)
            pytest.fail(f"seed {seed}: {failure_of(smallest)}\n{smallest}")


def random_history(draw: random.Random, events: list[Event]) -> History:
    """Some histories are nearly quiet and get far, others are nothing but trouble."""
    desired = draw.choice([Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED])
    trouble = draw.choice([0.1, 0.3, 0.7])
    length = draw.randint(10, 100)
    happened = [draw.choice(events if draw.random() < trouble else PROGRESS) for _ in range(length)]
    return History(desired, draw.random() < 0.2, happened)


def failure_of(history: History) -> str | None:
    try:
        live_through(history)
    except AssertionError as failure:
        return str(failure)
    return None


def shrunk(history: History) -> History:
    """The history without every event that the failure does not need."""
    for index in reversed(range(len(history.events))):
        shorter = replace(history, events=history.events[:index] + history.events[index + 1 :])
        if failure_of(shorter) is not None:
            return shrunk(shorter)
    return history


@pytest.mark.parametrize("start", [Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED])
@pytest.mark.parametrize("goal", [Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED])
def test_undisturbed_it_gets_there_in_few_ticks(start: Desired, goal: Desired) -> None:
    world = World(start)
    world.settle()
    assert is_settled(world)
    world.ask(goal)
    assert world.settle() <= 20
    assert is_settled(world)


def test_what_was_written_is_there_after_stop_archive_restore_and_start() -> None:
    world = World(Desired.RUNNING)
    world.settle()
    world.write()
    for goal in (Desired.STANDBY, Desired.ARCHIVED, Desired.RUNNING):
        world.ask(goal)
        world.settle()
    assert is_settled(world)
    assert world.volume is not None
    assert world.volume.content == world.newest == 1
