"""What goes wrong at large and is no workspace's fault: whole stores, machines, clocks, and crowds of people.

Each ends by itself or when the weather clears up, but for a file that nobody can read: that home is never archived, and
its owner must get in all the same.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from codehub.drivers.memory import Fault, Misbehaviour
from codehub.model.observation import Life
from codehub.model.workspace import WorkspaceId
from tests.simulation.ledger import Ledger
from tests.simulation.people import People
from tests.simulation.process import Shared
from tests.simulation.scale import TRAVELS, Disaster
from tests.simulation.travel import TimeMachine
from tests.simulation.weather import Weather

M = Misbehaviour
_TRAVELS_SHARE = 0.3  # the world goes on in between
_MANY = 5  # fewer may be lost one by one
_DAY = timedelta(days=1)


@dataclass
class Disasters:
    shared: Shared
    ledger: Ledger
    people: People
    weather: Weather
    rng: Random
    kinds: tuple[Disaster, ...]
    every: float  # seconds between two of them, on average
    time_machine: TimeMachine
    _unreadable: dict[WorkspaceId, Fault] = field(default_factory=dict)

    async def strike(self) -> None:
        """Until it is cancelled."""
        does = self._what()
        while self.kinds:
            await asyncio.sleep(self.rng.expovariate(1 / self.every))
            kind = self.rng.choice(self.kinds)
            if kind not in TRAVELS or self.rng.random() < _TRAVELS_SHARE:
                does[kind]()

    def clear_up(self) -> None:
        """After the weather has: what cannot be read still cannot."""
        self.shared.surroundings.bring_archives_back()
        for workspace_id in self._unreadable.keys() & self.shared.database.rows.keys():
            self._cannot_be_read(workspace_id)

    def _what(self) -> Mapping[Disaster, Callable[[], None]]:
        return {
            Disaster.STORE_FULL: self._store_full,
            Disaster.SLOW_STORE: self._slow_store,
            Disaster.UNREADABLE_FILE: self._unreadable_file,
            Disaster.EVICTIONS: self._evictions,
            Disaster.CLOCKS_JUMP: self._clocks_jump,
            Disaster.PURGE_STORM: self._purge_storm,
            Disaster.TRASH_EXPIRES: self._many_deleted,
            Disaster.ARCHIVES_GONE: self._archives_gone,
            Disaster.BACKUP_RESTORED: self.time_machine.restore,
            Disaster.SNAPSHOT_PUT_BACK: self.time_machine.put_back,
            Disaster.COMMITS_LOST: self.time_machine.lose_commits,
        }

    # -- the store ---------------------------------------------------------------------------------------------------

    def _store_full(self) -> None:
        """No room for another archive, until somebody makes room."""
        worlds = self.shared.surroundings.everything
        faults = [world.misbehave("archives.*", M.FULL) for world in worlds]
        self.weather.outage("store full", faults, 30.0, 1200.0)

    def _slow_store(self) -> None:
        """Everything that moves archives gets further, for longer than any time limit."""
        seconds = self.rng.uniform(300.0, 1500.0)
        self.ledger.trace.fault("slow store", None, f"for {seconds:.1f} s")
        self.weather.store_is_slow = True
        self._later(seconds, lambda: setattr(self.weather, "store_is_slow", False))
        reading = self.shared.surroundings.store.misbehave("archives.verify", M.SLOW)
        self._later(self.rng.uniform(10.0, 120.0), reading.end)

    def _archives_gone(self) -> None:
        """Another bucket, or an empty folder where the store was mounted: most archives are missing, and come back."""
        surroundings = self.shared.surroundings
        rows = self.shared.database.rows.values()
        archived = [row for row in rows if row.status.archive_key is not None and row.wish.deleted_at is None]
        if len(archived) < _MANY or surroundings.away:
            return
        seconds = self.rng.uniform(10.0, 600.0)
        self.ledger.trace.fault("archives gone", None, f"{len(archived)}, for {seconds:.1f} s")
        surroundings.take_archives_away(list(surroundings.stored))
        self._later(seconds, surroundings.bring_archives_back)

    def _unreadable_file(self) -> None:
        """One home has a file that its archive job cannot read, for good."""
        left = [identity for identity in self.shared.ids if identity not in self._unreadable]
        if left:
            workspace_id = self.rng.choice(left)
            self.ledger.trace.fault("unreadable file", workspace_id)
            self._cannot_be_read(workspace_id)

    def _cannot_be_read(self, workspace_id: WorkspaceId) -> None:
        world = self.shared.surroundings.of(self.shared.database.rows[workspace_id])
        self._unreadable[workspace_id] = world.misbehave("jobs.archive", M.HALF, workspace_id=workspace_id)

    # -- machines ----------------------------------------------------------------------------------------------------

    def _evictions(self) -> None:
        """A machine in distress ends what runs on it, instances and jobs."""
        world = self.rng.choice(list(self.shared.surroundings.worlds.values()))
        share = self.rng.random()
        living = [who for who, instance in world.instances.items() if instance.life is not Life.DEAD]
        for workspace_id in living:
            if self.rng.random() < share:
                self.ledger.trace.fault("instance evicted", workspace_id)
                world.evict_instance(workspace_id)
        jobs = world.misbehave("jobs.*", M.EVICTED)
        self.weather.outage("jobs evicted", [jobs], 5.0, 120.0)

    def _clocks_jump(self) -> None:
        """The database's (it fails over to another machine), Redis's, or an engine's: by a day, or back again."""
        jump = self.rng.choice((-_DAY, timedelta(), _DAY))
        whose = self.rng.choice(("database", "database", "Redis", "engine"))
        match whose:
            case "database":
                self.shared.clock.skew = jump
                if self.rng.random() < 0.5:
                    self.weather.database_out()
            case "Redis":
                self.shared.redis.skew = jump.total_seconds()
            case _:
                self.shared.surroundings.skews[self.rng.choice(list(self.shared.surroundings.worlds))] = jump
        self.ledger.trace.fault(f"clock of the {whose} jumps", None, f"{jump.total_seconds():+.0f} s")

    # -- people ------------------------------------------------------------------------------------------------------

    def _purge_storm(self) -> None:
        """A course is over: its owner purges all of it, and nobody's archives may wait for that."""
        self._delete_many("purge storm", purge=True)

    def _many_deleted(self) -> None:
        """… or puts it into the trash, which expires all at once."""
        self._delete_many("trash en masse", purge=False)

    def _delete_many(self, kind: str, *, purge: bool) -> None:
        ids = self.shared.ids
        chosen = self.rng.sample(ids, self.rng.randint(len(ids) // 2, len(ids)))
        self.ledger.trace.fault(kind, None, f"{len(chosen)} workspaces")
        self.people.delete_many(chosen, purge=purge)

    def _later(self, seconds: float, what: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(seconds, what)
