"""Where a played trace begins and how it is moved on; shared by the tests that play one trace each."""

from collections.abc import Callable
from datetime import timedelta

from codehub.model import actions as a
from codehub.model.tick import decide
from codehub.model.workspace import Desired, ErrorReason, Operation, Phase
from tests.model import builders as b
from tests.model.world import Volume, World

TOO_LONG = timedelta(minutes=11)  # longer than every operation's time limit


def settled(*path: Desired) -> World:
    """A workspace that was RUNNING, where its user wrote something, and that then went this way."""
    world = World(Desired.RUNNING)
    world.settle()
    world.write()
    for desired in path:
        go(world, desired)
    return world


def go(world: World, desired: Desired) -> None:
    world.ask(desired)
    world.settle()
    assert_at(world, Phase(desired.value))


def until(world: World, happened: Callable[[], object], jobs: str = "well") -> None:
    """Tick, undisturbed, up to the moment this trace is about."""
    for _ in range(40):
        if happened():
            return
        world.tick()
        world.run_jobs(jobs)
        world.check()
    raise AssertionError(f"it did not happen: {world.row.status}")


def upcoming(world: World) -> a.Action | None:
    """What the next tick would ask for; nothing is changed by finding out."""
    op_id = b.op(world.ops + 1)
    return decide(world.row, world.look(), now=world.now, fresh_op_id=op_id, rules=world.rules).action


def until_about_to(world: World, action: type[a.Action], jobs: str = "well") -> None:
    """Up to the tick that will take this action."""
    until(world, lambda: isinstance(upcoming(world), action), jobs)


def until_at(world: World, phase: Phase) -> None:
    """As `settle`, but what hangs or sleeps goes on doing so."""
    until(world, lambda: (world.row.status.phase, world.row.status.operation) == (phase, Operation.NONE))


def until_error(world: World, reason: ErrorReason) -> None:
    until(world, lambda: world.row.status.phase is Phase.ERROR)
    assert world.row.status.error_reason is reason


def fail_until_error(world: World) -> None:
    """Whatever is tried fails, until trying ends."""
    for _ in range(20):
        if world.row.status.phase is Phase.ERROR:
            break
        world.tick("action fails")
        world.check()
    assert world.row.status.error_reason is ErrorReason.RETRY_EXCEEDED


def time_passes(world: World) -> None:
    world.now += TOO_LONG


def assert_at(world: World, phase: Phase) -> None:
    status = world.row.status
    assert (status.phase, status.operation) == (phase, Operation.NONE), status


def assert_in_error(world: World, reason: ErrorReason) -> None:
    assert_at(world, Phase.ERROR)
    assert world.row.status.error_reason is reason


def home(world: World) -> Volume:
    assert world.volume is not None
    return world.volume


def assert_nothing_was_lost(world: World) -> None:
    """Starting it once more shows the user what they wrote last."""
    world.check()
    go(world, Desired.RUNNING)
    assert home(world).content == world.newest > 0


def fails_to_start() -> World:
    """A home on its volume (and, older or as new, in an archive) whose instance could not be started."""
    world = settled(Desired.ARCHIVED, Desired.STANDBY)
    world.ask(Desired.RUNNING)
    fail_until_error(world)
    return world
