"""Exhaustive search of the small world: every way in which a few surprises can fall into an undisturbed course.

Progress (a tick, a job that ends, a call that lands after all) is free, any surprise costs one; from a start, every
state within so many surprises is visited once, however long its trace. Two worlds that no rule can tell apart are one
state: names are replaced by their order of appearance, times by what they still decide.
"""

from collections.abc import Hashable, Iterator
from dataclasses import replace
from datetime import timedelta

from codehub.model import actions as a
from codehub.model.conditions import ARCHIVE_FAILED
from codehub.model.failure import is_waiting
from codehub.model.observation import JobState, Life
from codehub.model.recovery import is_pending
from codehub.model.workspace import Desired, Operation, Phase, RecoverFrom, VolumeRef, VolumeState
from tests.model.test_convergence import Event, happen, is_settled, recover_somehow
from tests.model.traces import TOO_LONG
from tests.model.world import Archive, Job, Volume, World

TICK: Event = ("tick", "well")
TIME_PASSES: Event = ("time passes", "")
OLD = timedelta(seconds=60)  # only waiting takes longer, and what a crash loop is depends on it


def fork(world: World) -> World:
    """A world of its own that goes on from here; what two of its parts share they share there too."""
    twin = object.__new__(World)
    twin.__dict__.update(world.__dict__)
    volumes: dict[int, Volume] = {}

    def moved(volume: Volume) -> Volume:
        return volumes.setdefault(id(volume), Volume(*vars(volume).values()))

    twin.volume = moved(world.volume) if world.volume is not None else None
    if world.instance is not None:
        twin.instance = replace(world.instance, volume=moved(world.instance.volume))
    twin.jobs = {op_id: replace(job, volume=moved(job.volume)) for op_id, job in world.jobs.items()}
    twin.archives = {key: Archive(*vars(archive).values()) for key, archive in world.archives.items()}
    twin.late, twin.paused = list(world.late), list(world.paused)
    twin.out, twin.problems = set(world.out), list(world.problems)
    return twin


def canonical(world: World) -> Hashable:
    """What of this world can still matter to anything."""
    names: dict[Hashable, int] = {None: -1}
    versions: dict[int | None, int] = {None: -1, 0: 0}

    def name(thing: Hashable) -> int:
        return names.setdefault(thing, len(names))

    def version(content: int | None) -> int:
        return versions.setdefault(content, len(versions))

    def volume(seen: Volume | None) -> Hashable:
        if seen is None:
            return None
        return name(seen.incarnation), name(seen.uid), version(seen.content), name(seen.restored_by)

    def job(seen: Job) -> Hashable:
        return name(seen.op_id), seen.kind, name(seen.key), seen.state.name, seen.error.name, volume(seen.volume)

    def action(asked: a.Action | None) -> Hashable:
        if asked is None:
            return None
        fields = (getattr(asked, part) for part in asked.__slots__)
        return type(asked).__name__, *(
            (name(value.incarnation), name(value.uid)) if isinstance(value, VolumeRef) else name(value)
            for value in fields
        )

    wish, status = world.row.wish, world.row.status
    home, seen, request = status.home_ctx, status.conditions, wish.recover_request
    busy = status.operation is not Operation.NONE
    since = (
        status.op_started_at,
        status.phase_changed_at if busy or status.phase is Phase.RUNNING else None,
        world.deadline_from if busy else None,
    )
    instance = world.instance
    told = (
        (wish.desired_state, wish.deleted_at is None, wish.purged_at is None),
        (status.phase, status.operation, status.error_reason, min(status.error_count, 3), status.endpoint is None),
        (name(status.op_id), name(status.archive_key), name(home.instance_op)),
        (home.volume, name(home.incarnation), name(home.uid), name(home.restore_marker)),
        tuple((c.status, c.reason) for c in (seen.volume_ready, seen.archive_ready, seen.container_ready)),
        (
            (seen.healthy.status, seen.healthy.reason == ARCHIVE_FAILED),
            (request.source, request.forced) if request is not None and is_pending(world.row) else None,
        ),
        is_waiting(status, world.now),
        tuple(mark is not None and world.now - mark >= OLD for mark in since),
        volume(world.volume),
        (name(instance.op_id), instance.life.name, volume(instance.volume)) if instance is not None else None,
        tuple(job(each) for each in world.jobs.values()),
        tuple(action(each) for each in world.late),
        tuple(action(decision.action) for _, decision in world.paused),
        (frozenset(world.out), world.unreadable, world.damaged, world.given_up, version(world.newest)),
    )
    # Of everything made earlier, only what something still names can come back.
    retired = frozenset(names[each] for each in home.retired if each in names)
    own = str(status.archive_key), f"{world.row.id}/{status.op_id}/home.tar.zst"
    archives = frozenset(
        (names.get(key), key == own[1], archive.damaged, version(archive.content))
        for key, archive in world.archives.items()
        if key in own or key in names
    )
    return told, retired, archives


def surprises(world: World) -> Iterator[Event]:
    """What could happen here that is not mere progress."""
    status, wish = world.row.status, world.row.wish
    if status.operation is not Operation.NONE:
        yield TIME_PASSES
    if status.operation not in (Operation.NONE, Operation.ARCHIVING):
        pass
    elif wish.desired_state is not Desired.DELETED:
        yield from (("ask", each.value) for each in Desired if each not in (wish.desired_state, Desired.DELETED))
        if status.operation is Operation.NONE:
            yield "delete", ""
    else:
        yield "undelete", ""
    if status.phase is Phase.ERROR and wish.deleted_at is None:
        yield from (("recover", source.value) for source in RecoverFrom)
        yield "force", "blank"
    if status.endpoint is not None:
        yield "write", ""
    if world.instance is not None and world.instance.life is not Life.DEAD:
        yield "instance dies", ""
    for job in world.jobs.values():
        if job.state is JobState.RUNNING:
            yield "jobs", "fails"
            yield "jobs", "damages" if job.kind == "archive" else "stops half way"
    yield from _accidents(world)


def _accidents(world: World) -> Iterator[Event]:
    """At most one of a kind: data can be lost only once, and a second outage is like the first."""
    if not world.damaged and world.volume is not None:
        yield "lose volume", ""
    if not world.damaged and world.row.status.archive_key in world.archives:
        yield "damage archive", ""
    if not world.unreadable and is_stepping_down(world):
        yield "unreadable", ""
    if world.out:
        yield "outage ends", ""
    else:
        yield "outage", "driver"
        yield "outage", "store"


def is_stepping_down(world: World) -> bool:
    """Whether a file that cannot be read would matter to anything soon."""
    away = world.row.wish.desired_state in (Desired.ARCHIVED, Desired.DELETED)
    return away and world.row.status.home_ctx.volume is VolumeState.LIVE


def progress(world: World) -> Iterator[Event]:
    if any(job.state is JobState.RUNNING for job in world.jobs.values()):
        yield "jobs", "well"
    if world.late:
        yield "land late", ""
    if world.paused:
        yield "wake paused", ""


def troubles(world: World) -> Iterator[Event]:
    """How a tick that acts can go wrong; two calls may hang at a time, and land in either order."""
    yield "tick", "dies before action"
    yield "tick", "action fails"
    if not world.late:
        yield "tick", "action hangs"
    if not world.paused:
        yield "tick", "pauses before action"


def _end_pause(world: World, event: Event) -> None:
    """No tick is spent on waiting: however long a pause after a failure is, the next tick comes after it."""
    retry_at = world.row.status.retry_at
    if event[0] == "tick" and retry_at is not None:
        world.now = max(world.now, retry_at)


class Search:
    """Everything within so many surprises of where it starts; `found` says how each state was first reached."""

    def __init__(self, surprises: int) -> None:
        self.surprises = surprises
        self.found: dict[Hashable, tuple[Hashable, Event] | None] = {}
        self.ends_well: set[Hashable] = set()

    def run(self, start: World) -> int:
        """Visit every state once, those with fewer surprises first. Returns how many there are."""
        known: set[Hashable] = set()
        level = {canonical(start): start}
        self.found |= dict.fromkeys(level)
        for _ in range(self.surprises + 1):
            following: dict[Hashable, World] = {}
            while level:
                key, world = level.popitem()
                if key in known:
                    continue
                known.add(key)
                self._must_end_well(key, world)
                self._expand(key, world, known, level, following)
            level = following
        return len(known)

    def _expand(
        self,
        key: Hashable,
        world: World,
        known: set[Hashable],
        level: dict[Hashable, World],
        following: dict[Hashable, World],
    ) -> None:
        ticked = self._after(key, world, TICK)
        free = [(TICK, ticked), *((event, self._after(key, world, event)) for event in progress(world))]
        costly = [*surprises(world), *(troubles(world) if ticked.acted else ())]
        for event, after in free:
            self._note(key, event, after, known, level)
        for event in costly:
            self._note(key, event, self._after(key, world, event), known, following)

    def _note(
        self, key: Hashable, event: Event, after: World, known: set[Hashable], level: dict[Hashable, World]
    ) -> None:
        reached = canonical(after)
        if reached not in known and reached not in level:
            level[reached] = after
            self.found.setdefault(reached, (key, event))

    def _after(self, key: Hashable, world: World, event: Event) -> World:
        after = fork(world)
        try:
            if event == TIME_PASSES:
                after.now += TOO_LONG
            else:
                _end_pause(after, event)
                happen(after, event)
        except AssertionError as broken:
            raise AssertionError(f"{broken} after {[*self.trace(key), event]}") from broken
        return after

    def _must_end_well(self, key: Hashable, world: World) -> None:
        """Every fault ends: it settles where it is wished to be, or in an ERROR that a person can end."""
        try:
            self._follow(fork(world))
        except AssertionError as broken:
            raise AssertionError(f"{broken} at the end of {self.trace(key)}") from broken

    def _follow(self, world: World) -> None:
        """As `ends_as_wished`, but no further than to where another state's end was already followed from."""
        path: set[Hashable] = set()
        world.out.clear()
        world.unreadable = False
        while world.late:
            world.land_late()
        while world.paused:
            world.wake_paused()
        for _ in range(200):
            key = canonical(world)
            if key in self.ends_well:
                break
            path.add(key)
            if self._moved_on(world) == key and not world.acted:
                if world.row.wish.deleted_at is None:
                    recover_somehow(world)
                assert is_settled(world), (world.row.wish, world.row.status)
                break
        else:
            raise AssertionError(f"it does not settle: {world.row.status}")
        self.ends_well |= path

    def _moved_on(self, world: World) -> Hashable:
        """One undisturbed step; a state that it leads back to is where the world comes to rest."""
        _end_pause(world, TICK)
        world.tick()
        world.run_jobs()
        world.check()
        return canonical(world)

    def trace(self, key: Hashable) -> list[Event]:
        """What happened on the way to a state."""
        events: list[Event] = []
        while (step := self.found[key]) is not None:
            key, event = step
            events.append(event)
        return events[::-1]
