"""The users: they ask for things exactly as the service layer lets them, visit, and write into their homes.

What they write counts only if it went through an instance that their row led them to. Once connected they may go on
writing for as long as that instance lives.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from random import Random
from uuid import UUID

from codehub.drivers.memory.things import Instance
from codehub.errors import Unavailable
from codehub.model import wishes
from codehub.model.failure import is_put_off
from codehub.model.observation import Life
from codehub.model.recovery import is_refused
from codehub.model.wishes import Refusal
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    InstanceBackend,
    Operation,
    Phase,
    RecoverFrom,
    RecoverRequest,
    Status,
    UserId,
    VolumeState,
    Wish,
    Workspace,
    WorkspaceId,
)
from tests.simulation.ledger import Ledger, home_of, version_of
from tests.simulation.process import FLUSH_SECONDS, Shared
from tests.simulation.signals import MemoryActivity
from tests.simulation.surroundings import STORAGE

_PATIENCE = 20
_TTLS = (0, 60, 90, 300)
LONGEST_TTL = max(_TTLS)
_ASKED = (Desired.RUNNING, Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED)


@dataclass
class People:
    shared: Shared
    ledger: Ledger
    rng: Random
    every: float  # seconds between two things that somebody does, on average
    most: int  # workspaces
    _versions: "count[int]" = field(default_factory=lambda: count(1))
    _connected: dict[WorkspaceId, Instance] = field(default_factory=dict)
    _seen: dict[WorkspaceId, datetime] = field(default_factory=dict)  # what proxies have yet to tell
    _deleting: set[asyncio.Task[None]] = field(default_factory=set)

    async def live(self) -> None:
        """Until they are told to stop."""
        while True:
            await asyncio.sleep(self.rng.expovariate(1 / self.every))
            if self.rng.random() < 0.001:
                await asyncio.sleep(self.rng.uniform(60, 1200))  # a night
            try:
                await self._do_something()
            except Unavailable:
                continue

    async def proxies(self) -> None:
        """What was seen is kept until Redis took it."""
        activity = MemoryActivity(self.shared.redis)
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            with suppress(Unavailable):
                now = self.ledger.clock()  # an age, by a clock that never jumps
                await activity.report({who: (now - at).total_seconds() for who, at in self._seen.items()})
                self._seen.clear()

    async def _do_something(self) -> None:
        ids = self.shared.ids
        if len(ids) < self.most and (not ids or self.rng.random() < 0.1):
            self.create()
            return
        place = self.rng.randrange(len(ids))
        row = self.shared.database.rows[ids[place]]
        dice = self.rng.random()
        if row.status.phase is Phase.DELETED:
            ids[place] = ids[-1]  # nobody comes back to it, but for its ghost
            ids.pop()
        elif dice < 0.45:
            self._write(row)
        elif row.wish.desired_state is Desired.DELETED:
            await (self.undelete(row) if dice < 0.9 else self._delete(row, purge=self.rng.random() < 0.2))
        elif row.status.phase is Phase.ERROR and dice < 0.95:
            await self._recover(row)
        elif dice < 0.94:
            others = [desired for desired in _ASKED if desired is not row.wish.desired_state]
            await self.ask(row, self.rng.choice(others))
        elif dice < 0.96:
            await self._delete(row, purge=self.rng.random() < 0.2)
        elif dice < 0.98:
            until = self._now() + timedelta(seconds=self.rng.uniform(60, LONGEST_TTL))
            self._set(row, replace(row.wish, keep_awake_until=until), "keeps it awake")
        else:
            self._copy(row)

    # -- what they ask for --------------------------------------------------------------------------------------------

    def create(self, source: ArchiveKey | None = None) -> None:
        now = self._now()
        backend = self.rng.choice((InstanceBackend.PROCESS, InstanceBackend.DOCKER))
        row = Workspace(
            id=WorkspaceId(UUID(int=self.rng.getrandbits(128), version=4)),
            owner_user_id=UserId(UUID(int=1)),
            created_at=now,
            instance_backend=backend,
            storage_backend=STORAGE[backend],
            source_archive=source,
            wish=Wish(
                image_ref="ide",
                desired_state=self.rng.choice((Desired.RUNNING, Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED)),
                standby_ttl_seconds=self.rng.choice(_TTLS),
                archive_ttl_seconds=self.rng.choice(_TTLS),
            ),
            status=Status(phase_changed_at=now),
        )
        self.shared.database.insert(row)
        self.shared.ids.append(row.id)

    async def ask(self, row: Workspace, desired: Desired) -> None:
        answer = wishes.request_state(row, desired, self._now())
        if not isinstance(answer, Refusal):
            await self._pause()
            if self.shared.database.set_desired(desired, was=row):
                self.ledger.trace.note(row.id, f"the user wants {desired}")

    def delete_many(self, ids: Sequence[WorkspaceId], *, purge: bool) -> None:
        """One after the other, each as soon as nothing is in progress."""

        async def all_of_them() -> None:
            for workspace_id in ids:
                tries = _PATIENCE
                while (row := self.shared.database.rows.get(workspace_id)) is not None and tries:
                    if row.status.operation is Operation.NONE:
                        break
                    tries -= 1
                    await asyncio.sleep(5.0)
                with suppress(Unavailable):
                    if row is not None:
                        await self._delete(row, purge=purge)

        task = asyncio.get_running_loop().create_task(all_of_them())
        self._deleting.add(task)
        task.add_done_callback(self._deleting.discard)

    def stop(self) -> None:
        """Whatever somebody is still about to ask for, they do not."""
        for task in self._deleting:
            task.cancel()

    async def _delete(self, row: Workspace, *, purge: bool) -> None:
        answer = wishes.delete(row, self._now(), purge=purge, confirmed=True)
        if isinstance(answer, Refusal):
            return
        await self._pause()
        if self._set(row, answer, f"the user deletes it{', for good' * purge}"):
            # Whoever asks is told that nothing is archived.
            told = purge or row.status.phase is Phase.ERROR or is_put_off(row.status)
            if told:
                self.ledger.given_up(row.id)

    async def undelete(self, row: Workspace) -> None:
        answer = wishes.undelete(row, self._now(), self.ledger.retention)
        if isinstance(answer, Refusal):
            return
        await self._pause()
        if self._set(row, answer, "the user takes the deletion back"):
            self.ledger.undeleted(self.shared.database.rows[row.id])

    async def _recover(self, row: Workspace) -> None:
        if row.wish.deleted_at is not None:
            return
        source = self.rng.choice((RecoverFrom.AS_IS, RecoverFrom.AS_IS, *RecoverFrom))
        forced = self.rng.random() < 0.15  # never a volume that may be half a home: whoever does that was told
        await self.recover(row, source, forced=forced and source is not RecoverFrom.VOLUME)

    async def recover(self, row: Workspace, source: RecoverFrom, *, forced: bool = False) -> None:
        if is_refused(row.status, source, forced=forced) is not None:
            return
        identity = UUID(int=self.rng.getrandbits(128), version=4)
        request = RecoverRequest(identity, source, row.status.error_reason, forced)
        await self._pause()
        what = f"the user recovers from {source}{', forced' * forced}"
        self._set(row, replace(row.wish, recover_request=request), what)

    def _copy(self, row: Workspace) -> None:
        """A new workspace from an archive of this one, if it is not about to be collected."""
        deleted_at, key = row.wish.deleted_at, row.status.archive_key
        kept = deleted_at is None or self._now() < deleted_at + self.ledger.retention - timedelta(minutes=10)
        if key is not None and kept and row.wish.purged_at is None and len(self.shared.ids) < self.most:
            self.create(key)

    def _set(self, row: Workspace, wish: Wish, what: str) -> bool:
        done = self.shared.database.set_wish(wish, was=row)
        if done:
            self.ledger.trace.note(row.id, what)
        return done

    # -- what they do inside ------------------------------------------------------------------------------------------

    def _write(self, row: Workspace) -> None:
        """Type, if the proxy lets them or they are still connected."""
        instance = self.shared.surroundings.of(row).instances.get(row.id)
        if instance is None or instance.life is not Life.READY or row.wish.deleted_at is not None:
            return
        led_here = row.status.phase is Phase.RUNNING and row.status.endpoint == instance.endpoint
        if led_here:
            self._connected[row.id] = instance
            self._seen[row.id] = self.ledger.clock()
            self.ledger.expected[row.id].visits.append(self.ledger.clock())
        volume, home = self.ledger.volume(row), row.status.home_ctx
        mounted = instance.volume is volume and home.volume is VolumeState.LIVE and home.uid == volume.uid
        if self._connected.get(row.id) is instance and mounted and instance.op_id == home.instance_op:
            version = next(self._versions)
            over, instance.volume.home = version_of(instance.volume.home), home_of(version)
            self.ledger.trace.note(row.id, f"the user writes {version}")
            self.ledger.wrote(row.id, version, over=over)

    async def _pause(self) -> None:
        """Between reading and writing others go on; the compare-and-set decides."""
        await asyncio.sleep(self.rng.random() * 0.2)

    def _now(self) -> datetime:
        return self.shared.database.clock()
