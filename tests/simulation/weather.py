"""What goes wrong: misbehaviours, outages and accidents, drawn from the seed, until they are told to stop."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from codehub.drivers.memory import Fault, MemoryWorld, Misbehaviour
from codehub.drivers.memory.things import Job, Volume
from codehub.model.names import parse_archive_key
from codehub.model.observation import JobState, Life
from codehub.model.workspace import OpId, Workspace
from tests.simulation.ledger import Ledger
from tests.simulation.process import Shared

M = Misbehaviour
VERBS = (
    "instances.start", "instances.remove", "volumes.create", "volumes.delete", "jobs.archive", "jobs.restore",
    "jobs.remove",
)  # fmt: skip
STORE_VERBS = ("archives.make_empty", "archives.copy", "archives.delete")
LISTINGS = ("jobs.observe", "volumes.observe", "instances.observe")
_CRAWLS = 6
GENERAL = (M.FLAKY, M.LIES, M.LANDS_LATE, M.LANDS_BUT_FAILS, M.ACCEPTED, M.SLOW)


@dataclass
class Weather:
    shared: Shared
    ledger: Ledger
    rng: Random
    every: float = 30.0  # seconds between two things that go wrong, on average
    losses: float = 0.0  # share of them that really destroy something
    verbs: tuple[str, ...] = ()  # what misbehaves most; else whatever
    kinds: tuple[Misbehaviour, ...] = ()  # … and how
    is_fair: bool = False  # only what no workspace can be blamed for
    store_is_slow: bool = False  # jobs get further, for longer than any limit
    _crawled: Counter[OpId] = field(default_factory=Counter)
    _gone: list[tuple[Workspace, Volume]] = field(default_factory=list)

    async def blow(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / self.every))
            if self.rng.random() < self.losses:
                self._destroy()
            else:
                self._disturb()

    def run_job(self, world: MemoryWorld, job: Job) -> None:
        """A storage job gets further by itself, each at its own speed."""

        def step() -> None:
            if world.jobs.get(job.op_id) is job and job.state is JobState.RUNNING:
                if not self._crawls(world, job):
                    world.run_jobs(job.op_id)
                self.run_job(world, job)

        if self.store_is_slow:
            self._later(self.rng.uniform(60.0, 240.0), step)
        else:
            self._later(self.rng.choice((self.rng.uniform(0.1, 1.0), self.rng.uniform(1.0, 10.0))), step)

    def _crawls(self, world: MemoryWorld, job: Job) -> bool:
        """A few bytes more, and far from done."""
        if not self.store_is_slow or job.workspace_id in world.held or self._crawled[job.op_id] >= _CRAWLS:
            return False
        self._crawled[job.op_id] += 1
        job.bytes_done += 1
        job.progress_at = world.clock()
        return True

    def clear_up(self) -> None:
        """Nothing goes wrong any more; what hangs lands now."""
        for world in self.shared.surroundings.everything:
            world.behave()
            world.held.clear()
            world.land()
        self.shared.database.is_out = self.shared.redis.is_out = False
        self.shared.lost_wakes = 0.0
        self.store_is_slow = False
        self.ledger.trace.note(None, "the weather clears up")

    # -- misbehaviour ------------------------------------------------------------------------------------------------

    def _disturb(self) -> None:
        if self.is_fair:
            self.rng.choice(self._blameless())()
            return
        focused = bool(self.verbs)
        kinds: list[tuple[int, Callable[[], None]]] = [
            (40 if focused else 8, self._verb),
            (2, self._store_verb), (2, self._engine_out), (2, self._store_out), (2, self._listing),
            (1, self._slow_listing), (3, self._job), (2, self._start), (3, self._death),
            (8 if focused else 1, self._hold),
            (1, self.database_out), (1, self._redis_lost), (1, self._clock_jumps),
            (20 if focused else 3, self._land),
        ]  # fmt: skip
        self.rng.choices([what for _, what in kinds], [weight for weight, _ in kinds])[0]()

    def _blameless(self) -> list[Callable[[], None]]:
        return [
            self._engine_out, self._store_out, self._listing, self._slow_listing, self.database_out, self._redis_lost,
            self._clock_jumps, self._evicted_job,
        ]  # fmt: skip

    def _evicted_job(self) -> None:
        self._misbehave(self._world(), "jobs.*", M.EVICTED, self.rng.randint(1, 3))

    def _world(self) -> MemoryWorld:
        return self.rng.choice(list(self.shared.surroundings.worlds.values()))

    def _row(self) -> Workspace | None:
        rows = self.shared.database.rows
        return rows[self.rng.choice(self.shared.ids)] if self.shared.ids else None

    def _verb(self) -> None:
        kind, verb = self.rng.choice(self.kinds or GENERAL), self.rng.choice(self.verbs or VERBS)
        self._misbehave(self._world(), verb, kind, self.rng.randint(1, 4))

    def _store_verb(self) -> None:
        kind, verb = self.rng.choice(GENERAL), self.rng.choice(STORE_VERBS)
        self._misbehave(self.shared.surroundings.store, verb, kind, self.rng.randint(1, 3))

    def _misbehave(self, world: MemoryWorld, verb: str, kind: Misbehaviour, times: int) -> None:
        fault = world.misbehave(verb, kind, times=times)
        self.ledger.trace.fault(kind.name, None, f"{verb} × {times}")
        if kind is M.SLOW:
            self._later(self.rng.expovariate(1 / 60), fault.release)

    def _engine_out(self) -> None:
        self.outage("engine out", self._world().engine_out(), 10.0, 300.0)

    def _store_out(self) -> None:
        kind = self.rng.choice((M.UNREACHABLE, M.TIMES_OUT))
        worlds = self.shared.surroundings.everything
        self.outage("store out", [world.misbehave("archives.*", kind) for world in worlds], 10.0, 300.0)

    def _listing(self) -> None:
        """A listing that leaves out one volume, or all of them: a loss is never concluded from it."""
        row = self._row() if self.rng.random() < 0.5 else None
        world = self._world() if row is None else self.shared.surroundings.of(row)
        fault = world.misbehave("volumes.observe", M.INCOMPLETE, workspace_id=row.id if row else None)
        self.outage("incomplete listing", [fault], 1.0, 15.0)

    def _slow_listing(self) -> None:
        fault = self._world().misbehave(self.rng.choice(LISTINGS), M.SLOW)
        self.outage("slow listing", [fault], 1.0, 40.0)

    def outage(self, kind: str, faults: list[Fault], least: float, most: float) -> None:
        seconds = least + (most - least) * self.rng.random() ** 3  # mostly short
        self.ledger.trace.fault(kind, None, f"for {seconds:.1f} s")
        for fault in faults:
            self._later(seconds, fault.end)

    def _job(self) -> None:
        verb, kind = self.rng.choice(
            (
                ("jobs.archive", M.HALF),
                ("jobs.restore", M.HALF),
                ("jobs.archive", M.DAMAGES),
                ("volumes.delete", M.HALF),
            )
        )
        self._misbehave(self._world(), verb, kind, self.rng.randint(1, 4))

    def _start(self) -> None:
        kind = self.rng.choice((M.IMAGE_MISSING, M.NEVER_READY, M.DIES, M.DIES))
        self._misbehave(self._world(), "instances.start", kind, self.rng.randint(1, 3))

    def _death(self) -> None:
        world = self._world()
        if world.instances:
            workspace_id = self.rng.choice(list(world.instances))
            if world.instances[workspace_id].life is not Life.DEAD:
                self.ledger.trace.fault("instance dies", workspace_id)
                world.kill_instance(workspace_id)

    def _hold(self) -> None:
        row = self._row()
        if row is not None:
            world = self.shared.surroundings.of(row)
            world.held.add(row.id)
            self.ledger.trace.fault("jobs stand still", row.id)
            self._later(self.rng.uniform(5.0, 1500.0), lambda: world.held.discard(row.id))

    def database_out(self) -> None:
        seconds = self.rng.uniform(6.0, 60.0)
        self.ledger.trace.fault("database out", None, f"for {seconds:.1f} s")
        self.shared.database.is_out = True
        self.shared.release(None)
        self._later(seconds, lambda: setattr(self.shared.database, "is_out", False))

    def _redis_lost(self) -> None:
        redis = self.shared.redis
        if self.rng.random() < 0.5:
            redis.flush()
            self.ledger.redis_lost_at = self.shared.database.clock()
            self.ledger.trace.fault("redis flushed")
        redis.is_out = True
        seconds = self.rng.uniform(1.0, 200.0)
        self.ledger.trace.fault("redis out", None, f"for {seconds:.1f} s")
        self._later(seconds, lambda: setattr(redis, "is_out", False))

    def _clock_jumps(self) -> None:
        """Redis's: by a day, or back again."""
        redis = self.shared.redis
        redis.skew = self.rng.choice((-86_400.0, 0.0, 86_400.0))
        self.ledger.trace.fault("clock jumps", None, f"Redis is {redis.skew:+.0f} s off")

    def _land(self) -> None:
        for world in self.shared.surroundings.everything:
            if (landed := world.land(1)) > 0:
                self.ledger.trace.fault("a late call lands", None, f"{landed}")

    # -- accidents ----------------------------------------------------------------------------------------------------

    def _destroy(self) -> None:
        accidents = (self._lose_volume, self._lose_volume, self._harm_archive, self._lose_archive, self._bring_back)
        self.rng.choice(accidents)()

    def _lose_volume(self) -> None:
        row = self._row()
        volume = self.ledger.volume(row) if row is not None else None
        if row is None or volume is None:
            return
        self.ledger.trace.fault("volume lost", row.id, volume.uid)
        self.ledger.lost(row.id)
        self.shared.surroundings.lose_volume(row)
        self._gone.append((row, volume))
        for job in self.shared.surroundings.of(row).jobs.values():
            if job.volume is volume and job.state is JobState.RUNNING:
                job.state, job.message = JobState.FAILED, "Its volume is gone."

    def _bring_back(self) -> None:
        """A node is back, and with it the volume that was on it, unless another took its place."""
        if self._gone:
            row, volume = self._gone.pop(self.rng.randrange(len(self._gone)))
            volumes = self.shared.surroundings.volumes[row.instance_backend]
            if row.id not in volumes:
                self.ledger.trace.fault("volume back", row.id, volume.uid)
                self.ledger.lost(row.id)
                volumes[row.id] = volume

    def _harm_archive(self) -> None:
        if stored := self.shared.surroundings.stored:
            key = self.rng.choice(list(stored))
            self._tell_of(key)
            self.ledger.trace.fault("archive harmed", parse_archive_key(key).workspace_id, key[37:45])
            self.shared.surroundings.store.harm_archive(key, at_a_glance=self.rng.random() < 0.5)

    def _lose_archive(self) -> None:
        if stored := self.shared.surroundings.stored:
            key = self.rng.choice(list(stored))
            self._tell_of(key)
            self.ledger.trace.fault("archive lost", parse_archive_key(key).workspace_id, key[37:45])
            self.shared.surroundings.lose_archive(key)

    def _tell_of(self, key: str) -> None:
        self.ledger.lost(parse_archive_key(key).workspace_id)
        for row in self.shared.database.rows.values():
            if row.source_archive == key:
                self.ledger.lost(row.id)

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(seconds, what)
