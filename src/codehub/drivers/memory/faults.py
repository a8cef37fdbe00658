"""Misbehaviour by name: how a verb of the fake goes wrong, for which workspace, and how often.

A verb is called `part.name`, for example `volumes.delete`; `volumes.*` and `*` mean all of them. Which fault strikes is
a matter of what was switched on and in which order, never of chance or time.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from fnmatch import fnmatchcase
from typing import TypeVar

from codehub.errors import ActionFailed, DriverError, Unreachable
from codehub.model.workspace import WorkspaceId

T = TypeVar("T")


class TimedOut(Unreachable):
    """No answer in time, which the archive store tells from being refused."""


class Misbehaviour(Enum):
    """What may go wrong. Those after the line are about one verb only, which is named."""

    SLOW = auto()  # does not return until released, then does what was asked
    FLAKY = auto()  # ActionFailed, and nothing was done
    LIES = auto()  # returns as if done, and did nothing; asked to look, it sees nothing
    LANDS_LATE = auto()  # ActionFailed now; what was asked happens when `land` is called
    LANDS_BUT_FAILS = auto()  # does it, then ActionFailed
    ACCEPTED = auto()  # returns as if done; what was asked happens when `land` is called
    UNREACHABLE = auto()  # an outage: Unreachable, and nothing was done
    TIMES_OUT = auto()  # an outage that shows as silence
    # ----
    IMAGE_MISSING = auto()  # instances.start: ImagePullFailed
    NEVER_READY = auto()  # instances.start: the instance lives and takes no traffic; ActionFailed
    DIES = auto()  # instances.start: it was ready, and is dead at the next look
    INCOMPLETE = auto()  # *.observe: the listing leaves out the fault's workspace, or everything
    HALF = auto()  # jobs, volumes.delete: it fails after doing half of it
    EVICTED = auto()  # jobs: what it runs on ends it half way, to save itself
    DAMAGES = auto()  # jobs: an archive job succeeds, and its archive does not verify
    FULL = auto()  # archives.*: no room for another one; what is there can be read and removed


@dataclass(eq=False)
class Fault:
    """One misbehaviour that is switched on."""

    verb: str
    kind: Misbehaviour
    workspace_id: WorkspaceId | None = None  # None: whichever
    times: int | None = None  # None: until it is ended
    struck: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let slow calls go on."""
        self._released.set()

    def end(self) -> None:
        """Misbehave no more."""
        self.times = self.struck
        self.release()

    @property
    def is_on(self) -> bool:
        return self.times is None or self.struck < self.times

    async def wait(self) -> None:
        await self._released.wait()


class Faults:
    """All that are switched on, and the calls that have yet to land."""

    def __init__(self) -> None:
        self._on: list[Fault] = []
        self._late: list[Callable[[], object]] = []

    def add(self, fault: Fault) -> Fault:
        self._on = [*(each for each in self._on if each.is_on), fault]
        return fault

    def end_all(self) -> None:
        for fault in self._on:
            fault.end()
        self._on.clear()

    def strikes(self, verb: str, workspace_id: WorkspaceId | None, *kinds: Misbehaviour) -> Fault | None:
        """The first fault of these kinds that is on for this call; it counts as one of its times."""
        for fault in self._on:
            about = fault.workspace_id is None or fault.workspace_id == workspace_id
            if fault.kind in kinds and about and fault.is_on and fnmatchcase(verb, fault.verb):
                fault.struck += 1
                return fault
        return None

    def hides(self, verb: str) -> Callable[[WorkspaceId], bool]:
        """Whom an incomplete listing leaves out."""
        hiding = [f for f in self._on if f.kind is Misbehaviour.INCOMPLETE and f.is_on and fnmatchcase(verb, f.verb)]
        for fault in hiding:
            fault.struck += 1
        return lambda workspace_id: any(fault.workspace_id in (None, workspace_id) for fault in hiding)

    async def call(self, verb: str, workspace_id: WorkspaceId | None, effect: Callable[[], T], nothing: T) -> T:
        """Do what was asked, or what goes wrong instead. `nothing` is what a lie answers."""
        await asyncio.sleep(0)  # others run meanwhile, as they would with any real driver
        general = (kind for kind in Misbehaviour if kind.value < Misbehaviour.IMAGE_MISSING.value)
        fault = self.strikes(verb, workspace_id, *general)
        match fault.kind if fault else None:
            case Misbehaviour.FLAKY:
                raise ActionFailed(f"{verb} failed, as it was told to.")
            case Misbehaviour.UNREACHABLE:
                raise Unreachable(f"{verb}: nothing answers, as it was told to.")
            case Misbehaviour.TIMES_OUT:
                raise TimedOut(f"{verb}: no answer in time, as it was told to.")
            case Misbehaviour.LIES:
                return nothing
            case Misbehaviour.LANDS_LATE:
                self._late.append(effect)
                raise ActionFailed(f"{verb} did not answer in time; it will land later.")
            case Misbehaviour.ACCEPTED:
                self._late.append(effect)
                return nothing
            case Misbehaviour.LANDS_BUT_FAILS:
                effect()
                raise ActionFailed(f"{verb} was done and failed all the same.")
            case Misbehaviour.SLOW:
                assert fault is not None
                await fault.wait()
        return effect()

    def land(self, most: int | None = None) -> int:
        """Let late calls happen now, in order; what each meets then decides. Returns how many there were."""
        most = len(self._late) if most is None else most
        late, self._late = self._late[:most], self._late[most:]
        for effect in late:
            try:
                effect()
            except DriverError:
                continue  # nobody waits for its answer any more
        return len(late)
