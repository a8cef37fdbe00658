"""The same action again is asked for after growing pauses, another one at once."""

import asyncio

from codehub.coordinator.repeats import Repeats
from codehub.model import actions as a
from codehub.model.workspace import Incarnation
from tests.model import builders as b
from tests.support import eventually_async

CREATE = a.CreateVolume(Incarnation("x"))


async def test_the_same_action_waits_and_another_does_not() -> None:
    repeats = Repeats()
    assert repeats.may_ask(b.WORKSPACE, CREATE)
    assert not repeats.may_ask(b.WORKSPACE, CREATE)
    assert repeats.may_ask(b.OTHER, CREATE)
    assert repeats.may_ask(b.WORKSPACE, a.RemoveInstance())
    assert repeats.may_ask(b.WORKSPACE, CREATE)


async def test_the_pauses_grow() -> None:
    repeats = Repeats()
    now = asyncio.get_running_loop().time
    asked: list[float] = []

    async def again() -> bool:
        if repeats.may_ask(b.WORKSPACE, CREATE):
            asked.append(now())
        return len(asked) == 3

    await eventually_async(again, "it is asked for three times")
    assert asked[1] - asked[0] >= 0.2
    assert asked[2] - asked[1] >= 0.4


async def test_what_went_on_to_something_else_may_come_back_at_once() -> None:
    repeats = Repeats()
    assert repeats.may_ask(b.WORKSPACE, CREATE)
    repeats.forget(b.WORKSPACE)
    assert repeats.may_ask(b.WORKSPACE, CREATE)
