"""The WorkspaceController: gather, decide, record, act; one tick at a time.

1. gather: results of errands, a listing per backend, then the rows that need something, those whose listing changed,
   and a slice of all the others;
2. decide: `model.tick.decide`, from the row and what was seen of it;
3. record: all changes and their history in one transaction, fenced by the epoch, each row by compare-and-set;
4. act: what was decided becomes errands, only for rows that were written or had nothing to write.

The process may die between any two lines: the next tick, of whichever leader, starts from the rows and the world.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from codehub.coordinator import perform, store
from codehub.coordinator.archive_losses import ArchiveLosses
from codehub.coordinator.breakages import Breakages, LookBroke
from codehub.coordinator.deadlines import LONGEST_CALL_SECONDS, Deadlines
from codehub.coordinator.errands import DONE, SKIPPED, Broke, Errands, Failed, Looked, Result
from codehub.coordinator.history import entry_of
from codehub.coordinator.looking import Lookout
from codehub.coordinator.moves import Move, asked_at
from codehub.coordinator.pace import Pace, Pacer, Sweep
from codehub.coordinator.ports import Asked, Leadership, Reading, Records
from codehub.coordinator.repeats import Repeats
from codehub.coordinator.seeing import NOTHING_SEEN, Eyes
from codehub.coordinator.store import StoreWatch
from codehub.coordinator.traces import Calls
from codehub.coordinator.turns import Turns, starts_job
from codehub.db.adoption import AdoptionDue
from codehub.db.losses import Word
from codehub.db.statuses import StatusChange
from codehub.drivers.base import Archives, Backend, Resources
from codehub.errors import ActionFailed, DriverError
from codehub.model.actions import DESTRUCTIVE, Action, MarkWhole
from codehub.model.breakage import given_up
from codehub.model.clocks import JUMP_SECONDS, ClockWatch
from codehub.model.failure import Rules, after_failure, is_waiting
from codehub.model.gc import GcRules
from codehub.model.job_queue import JobLimits
from codehub.model.needs import NOTHING, Need
from codehub.model.observation import JobSeen, JobState
from codehub.model.suspicion import ARCHIVES, Place
from codehub.model.tick import decide
from codehub.model.wishes import is_ready_to_delete
from codehub.model.workspace import ErrorReason, InstanceBackend, Operation, OpId, Workspace, WorkspaceId

log = structlog.get_logger(__name__)

PAGE = 1000  # rows that are decided on and written at once
_BREATH = 100  # rows between two chances for others to run
_NAMED = 20  # of what belongs to no workspace, in one line of the log
_ROUNDS = 4  # how far one look may carry a workspace, from commit to commit
_WISHED_LOOK_SECONDS = 60.0  # between two looks at an archive that nothing waits for
_TRASH_LOOK_SECONDS = 3600.0  # … of a workspace in the trash: GC says when it has removed one
_RETENTION = GcRules().trash_retention
_NO_LIMITS = JobLimits(in_all=1_000_000, per_node=1_000_000)


class Controller:
    """Moves every workspace one step toward what its user wants, each time it is asked to."""

    def __init__(
        self,
        records: Records,
        archives: Archives,
        backends: Mapping[InstanceBackend, Backend],
        leadership: Leadership,
        *,
        rules: Rules,
        resources: Resources,
        pace: Pace,
        new_op_id: Callable[[], OpId],
        job_limits: JobLimits = _NO_LIMITS,
        trash_retention: timedelta = _RETENTION,
        on_progress: Callable[[Workspace, JobSeen, datetime], None] = lambda _workspace, _job, _now: None,
        on_recorded: Callable[[Sequence[StatusChange], datetime], None] = lambda _changes, _now: None,
    ) -> None:
        self.on_wake: Callable[[], None] = lambda: None
        self._on_recorded, self._on_progress = on_recorded, on_progress
        self._calls = Calls()
        self.unknown: frozenset[WorkspaceId] = frozenset()  # what belongs to no workspace we know: reported, left alone
        self._records, self._archives, self._backends = records, archives, backends
        self._leadership, self._rules, self._resources, self._new_op_id = leadership, rules, resources, new_op_id
        self._lookout = Lookout(backends, on_late=self._wake)
        self._errands = Errands(self._wake, perform.lanes_of(backends) | store.LANES)
        self._store = StoreWatch(archives, ArchiveLosses(archives, records, trash_retention))
        self._deadlines = Deadlines()
        self._repeats = Repeats()
        self._turns = Turns(job_limits, _silence(rules), {name: one.node for name, one in backends.items()})
        self._breakages = Breakages()
        self._eyes = Eyes(self._store, self._deadlines, on_progress=on_progress)
        self._pacer, self._sweep = Pacer(pace), Sweep(pace)
        self._to_read: set[WorkspaceId] = set()  # something about them changed, and no tick has dealt with it yet
        self._archive_suspects: set[WorkspaceId] = set()
        self._wished_looks: dict[WorkspaceId, float] = {}
        self._clock_watch = ClockWatch(JUMP_SECONDS)
        self._clock: tuple[datetime, float] | None = None  # the database's time, and the loop's when it was read

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Where its errands run; leaving it drops everything, as a crash would."""
        async with self._errands.running():
            try:
                yield
            finally:
                await self._lookout.close()

    @property
    def outages(self) -> Mapping[str, str]:
        """What cannot be reached at the moment, and why."""
        out = {str(name): cause for name, cause in self._lookout.outages.items()}
        for name in self._eyes.mass_losses:
            out[str(name)] = (
                "Many homes are missing at once; this is taken for an outage until they are back, or until an "
                f"administrator says that they are lost: codehub accept-losses {name}"
            )
        store_outage = self._store.outage
        return {**out, "archive store": store_outage} if store_outage is not None else out

    @property
    def errands(self) -> int:
        """How many calls are under way or wait for their turn."""
        return len(self._errands.busy())

    @property
    def jobs_running(self) -> int:
        """Storage jobs that get further, whoever started them."""
        return self._turns.running

    @property
    def jobs_waiting(self) -> int:
        """Storage jobs whose turn has not come."""
        return self._turns.waiting

    @property
    def broken(self) -> int:
        """How many looks and decisions have broken so far."""
        return self._breakages.total

    @property
    def is_catching_up(self) -> bool:
        """Whether this leader has not yet looked at every workspace once."""
        return self._sweep.is_first_pass

    def period(self) -> float:
        """Seconds until the next tick if nothing wakes it."""
        return self._pacer.period()

    def woken(self) -> None:
        """Somebody asked for something: ticks are frequent for a while."""
        self._pacer.woken()
        self._wake()

    def hold_homes(self, adoption: AdoptionDue | None) -> None:
        """What a restore has left undone: nobody's home is made before it is, which no leader can do."""
        self._eyes.adoption = adoption

    def hurry(self) -> None:
        """Something may have changed: tick soon."""
        self._wake()

    def suspect_archives(self, ids: Collection[WorkspaceId]) -> None:
        """Somebody doubts that these have their archive: look at it directly."""
        self._archive_suspects.update(ids)
        self._to_read.update(ids)
        for identity in ids:
            self._wished_looks.pop(identity, None)
        self._wake()

    def _wake(self) -> None:
        self.on_wake()

    # -- gather -----------------------------------------------------------------------------------------------------

    async def tick(self) -> bool:
        """Move every workspace that needs it one step. True: there is more to do at once."""
        await self._look()
        operating, more = False, False
        met = set(self._errands.busy())
        async for reading in self._readings():
            rows = {row.id: row for part in (reading.swept, reading.named, reading.needing) for row in part}
            more |= await self._settle(list(rows.values()), reading.now)
            operating |= any(row.status.operation is not Operation.NONE for row in rows.values())
            self._to_read.difference_update(rows)
            met.update(row.id for row in rows.values() if row.instance_backend in self._eyes.listings)
        self._turns.keep(met)  # nobody waits for a place on a backend that is out, nor holds one
        self._pacer.is_operating = operating or self._sweep.is_first_pass or bool(self._errands.busy())
        return more

    async def _look(self) -> None:
        """One listing per backend; results of errands that ended before it."""
        eyes = self._eyes
        eyes.results = self._errands.results()
        eyes.asked.clear()
        eyes.listings = await self._lookout.look(self._errands.busy())
        # A new leader asks too: whoever is back since an earlier one noted the word is no longer meant by it.
        losses = self._store.losses
        doubt = eyes.mass_losses or eyes.accepted_losses or losses.is_mass or losses.word is not None
        if doubt or self._sweep.is_first_pass:
            await self._hear_of_losses()
        for name, listing in eyes.listings.items():
            self._to_read |= self._lookout.changed(name, listing)
            self._lookout.trust(name, listing)
            if listing.after_outage and self._clock is not None:
                self._deadlines.backend_back_at[name] = self._now()
        self._to_read.update(eyes.results)
        if self._store.is_probe_due() and not self._errands.is_busy(store.NOBODY):
            self._errands.start(store.NOBODY, None, ("store", store.LOOK), self._probe_store)

    async def _hear_of_losses(self) -> None:
        """An administrator's word; whom it is about is noted, so that another leader knows it too."""
        words = await self._records.accepted_losses()
        self._store.losses.accept(words.get(ARCHIVES))
        ours = {place: word for place, word in words.items() if isinstance(place, InstanceBackend)}
        self._to_read |= self._eyes.accept_losses(ours)
        known: list[tuple[Place, Word | None]] = [*self._eyes.accepted_losses.items()]
        for place, word in [*known, (ARCHIVES, self._store.losses.word)]:
            if word is not None and word.missing != words[place].missing:
                await self._records.note_losses(self._leadership.epoch, place, word)

    async def _probe_store(self) -> Result:
        was_out = self._store.is_out
        self.suspect_archives(await self._store.probe())
        if was_out and not self._store.is_out:
            self._deadlines.store_back_at = self._now()
        return DONE

    async def _readings(self) -> AsyncIterator[Reading]:
        """Page by page: what needs something with a slice of the rest, then what is left of those that changed."""
        ids = sorted(self._to_read)
        size = self._sweep.size()
        busy = self._errands.busy()
        asked = Asked(limit=PAGE, but=busy, sweep_limit=size, sweep_after=self._sweep.after, ids=ids[:PAGE])
        while True:
            reading = await self._records.read(asked)
            self._note_time(reading.now)
            self._deadlines.began_at = self._deadlines.began_at or reading.now
            self._sweep.stepped(reading.swept, asked.sweep_limit)
            self._report_unknown(asked.ids, reading)
            yield reading
            ids = ids[PAGE:]
            full = asked.limit > 0 and len(reading.needing) == asked.limit
            if not full and not ids:
                return
            after = reading.needing[-1].id if full else None
            asked = Asked(limit=PAGE if full else 0, after=after, but=busy, ids=ids[:PAGE])

    def _report_unknown(self, asked: Collection[WorkspaceId], reading: Reading) -> None:
        found = {row.id for row in reading.named}
        missing = {identity for identity in asked if identity not in found}
        self._to_read -= missing
        for identity in missing:
            self._errands.take(identity)
        if not missing and not self.unknown:
            return
        unknown = frozenset((self.unknown | missing) & self._lookout.listed()) - found
        if news := sorted(unknown - self.unknown):
            log.warning(
                "there are containers or volumes of no workspace; they are left alone",
                count=len(unknown),
                unknown=[str(identity) for identity in news[:_NAMED]],
            )
        self.unknown = unknown

    def _note_time(self, now: datetime) -> None:
        theirs, ours = now.timestamp(), asyncio.get_running_loop().time()
        if jump := self._clock_watch.jump(theirs, ours):
            log.warning("the database's clock jumped; time limits begin anew", seconds=round(jump))
            self._deadlines.restart(now)
        self._clock_watch.note(theirs, ours)
        self._clock = (now, ours)

    def _now(self) -> datetime:
        """The database's clock, as far as we can tell between two readings."""
        assert self._clock is not None
        read, at = self._clock
        return read + timedelta(seconds=asyncio.get_running_loop().time() - at)

    # -- decide -----------------------------------------------------------------------------------------------------

    async def _settle(self, rows: Sequence[Workspace], now: datetime) -> bool:
        """Decide, record and act, again for those that one look carries further."""
        more = False
        for _ in range(_ROUNDS):
            moves = []
            for number, row in enumerate(rows):
                if number % _BREATH == _BREATH - 1:
                    await asyncio.sleep(0)  # whatever else is due in this process
                if self._errands.is_busy(row.id) or self._eyes.is_stale(row) or self._breakages.is_resting(row.id):
                    continue
                if (move := self._moved(row, now)) is not None:
                    moves.append(move)
            written = await self._record([move for move in moves if move.is_change], now)
            done = [move for move in moves if not move.is_change or move.row.id in written]
            more |= self._act(done)
            if await self._finish_deletions(done):
                return True
            rows = [replace(move.row, status=move.status) for move in done if move.is_change and move.got_further]
            if not rows:
                return more
        return True

    def _moved(self, row: Workspace, now: datetime) -> Move | None:
        """Whatever breaks harms this workspace only, which is left to a person after so many times."""
        try:
            move = self._move(row, now)
        except Exception as error:  # noqa: BLE001 - a bug, or a row that nobody expected
            return self._broke(row, error, now)
        if not move.sight.need.is_waited_for:
            self._breakages.mended(row.id)
        return move

    def _broke(self, row: Workspace, error: Exception, now: datetime) -> Move | None:
        self._turns.leave(row.id)
        times, cause = self._breakages.note(row, error)
        if times < self._rules.max_retry:
            return None
        listing = self._eyes.listings.get(row.instance_backend)
        jobs = None if listing is None else listing.jobs_of(row.id)
        decision = given_up(row, jobs, cause, now)
        return Move(row, NOTHING_SEEN, decision.status, decision.action, decision.why)

    def _move(self, row: Workspace, now: datetime) -> Move:
        if self._turns.is_in(row):
            self._deadlines.progressed(row.id, row.status.op_id, now)
        sight = self._eyes.sight(row, now, archive_suspect=row.id in self._archive_suspects)
        if self._turns.is_held(row):  # the store is asked when its turn has come
            sight = replace(sight, need=NOTHING, whole_need=NOTHING)
        result = self._taken(row)
        if isinstance(result, Broke):
            raise LookBroke(result.cause)
        if isinstance(result, Failed) and result.op_id == row.status.op_id:
            self._turns.leave(row.id)
            status = after_failure(row, result.fault, now)
            if (
                row.status.operation is Operation.CREATE_EMPTY_ARCHIVE
                and status.error_reason is ErrorReason.UNREACHABLE
            ):
                self._store.refused(row.id, result.fault.message)
            return Move(row, replace(sight, need=Need(), volume_suspect=False), status, None, result.fault.message)
        if sight.need.is_waited_for:
            return Move(row, sight, row.status, None, "its archive is being looked at")
        decision = decide(row, sight.seen, now=now, fresh_op_id=self._new_op_id(), rules=self._rules)
        return self._queued(Move(row, sight, decision.status, decision.action, decision.why), now)

    def _queued(self, move: Move, now: datetime) -> Move:
        """In the queue is who wants a job, and nothing before it; who is held there wants it until a look says no."""
        row, is_held = move.row, self._turns.is_held(move.row)
        if starts_job(move.action):
            return replace(move, action=None, why=self._turns.why(row.id)) if is_held else move
        same = (move.status.operation, move.status.op_id) == (row.status.operation, row.status.op_id)
        is_idle = move.action is None and not is_waiting(move.status, now)
        if is_held and same and is_idle and move.sight.seen.job(row.status.op_id) is None:
            return replace(move, why=self._turns.why(row.id))
        self._turns.leave(row.id)
        return move

    def _taken(self, row: Workspace) -> Result | None:
        """A result serves one decision: the next one looks anew. One that came after the look is left to the next."""
        result = self._eyes.results.pop(row.id, None)
        if result is not None:
            self._errands.take(row.id)
        key = row.status.archive_key
        if key is None or (isinstance(result, Looked) and key in result.archives):
            self._archive_suspects.discard(row.id)
        return result

    # -- record -----------------------------------------------------------------------------------------------------

    async def _record(self, moves: Sequence[Move], now: datetime) -> set[WorkspaceId]:
        if not moves:
            return set()
        changes = [StatusChange(move.row, move.status) for move in moves]
        entries = [entry_of(change, move.why, now) for change, move in zip(changes, moves, strict=True)]
        written = await self._records.commit(self._leadership.epoch, changes, [e for e in entries if e is not None])
        for move in moves:
            if move.row.id in written and move.status.operation is Operation.NONE:
                self._deadlines.ended(move.row.id)
        self._on_recorded([change for change in changes if change.was.id in written], now)
        return written

    async def _finish_deletions(self, moves: Sequence[Move]) -> bool:
        """Those that stepped down for their deletion have arrived: the service layer marks them deleted."""
        arrived = [m.row.id for m in moves if is_ready_to_delete(replace(m.row, status=m.status)) and m.action is None]
        return bool(arrived) and await self._records.finish_deletions(arrived) > 0

    # -- act --------------------------------------------------------------------------------------------------------

    def _act(self, moves: Sequence[Move]) -> bool:
        """Who asked first has the first turn: lanes are narrow, and a hundred may have asked since the last tick.

        True: the turn of one has come whose job the next tick can start.
        """
        for move in moves:
            if move.action is not None and starts_job(move.action):
                self._turns.enter(move.row, move.status, move.action)
        called = self._turns.call(self._lookout.jobs(), self._is_listed)
        for move in sorted(moves, key=asked_at):
            backend = self._backends.get(move.row.instance_backend)
            if backend is None:
                continue
            if move.action is None:
                self._look_closer(move, backend)
            elif starts_job(move.action) and not self._turns.is_called(move.row.id):
                continue
            elif self._repeats.may_ask(move.row.id, move.action):
                self._start_action(move, move.action, backend)
        return any(self._turns.is_called(each) for each in called)

    def _is_listed(self, workspace_id: WorkspaceId, backend: InstanceBackend) -> bool:
        """Whether what was asked for shows in this tick's listing, if it was done; or there is none to wait for."""
        listing = self._eyes.listings.get(backend)
        in_flight = self._errands.is_busy(workspace_id) or workspace_id in self._eyes.asked
        return not in_flight and (listing is None or workspace_id not in listing.busy)

    def _look_closer(self, move: Move, backend: Backend) -> None:
        """Look at what this sight lacked; at an archive that nothing waits for only now and then."""
        sight = move.sight
        wished = not move.got_further and self._may_wish(move)
        waited = sight.need.is_waited_for
        if not (waited or wished or sight.volume_suspect):
            # What was looked at in vain, such as a home that is gone while the store is out, will be looked at again.
            if move.is_change or not (sight.whole_need.waits or sight.whole_suspect):
                self._repeats.forget(move.row.id)
            return
        asks_store = (sight.whole_need.waits or wished) and not self._store.is_out
        need = sight.whole_need if asks_store else Need()
        if self._repeats.may_ask(move.row.id, (move.status.op_id, need, sight.whole_suspect)):
            job = sight.seen.job(move.status.op_id)
            self._start_look(move.row, backend, need, job, volume=sight.whole_suspect)

    def _start_action(self, move: Move, action: Action, backend: Backend) -> None:
        row, op_id = replace(move.row, status=move.status), move.status.op_id

        async def errand() -> Result:
            self._deadlines.first_attempt(row.id, op_id, self._now())
            if isinstance(action, DESTRUCTIVE) and not self._leadership.is_fresh():
                return SKIPPED  # the next tick decides again, if there is one
            seconds = self._deadlines.call_seconds(row, action, self._now(), self._rules)
            try:
                async with asyncio.timeout(seconds or LONGEST_CALL_SECONDS):
                    with self._calls.around(row, op_id, action):
                        await perform.perform(row.id, action, backend, self._archives, self._resources)
            except TimeoutError:
                if seconds is None or row.wish.deleted_at is not None:
                    raise ActionFailed(f"{type(action).__name__} did not return in time.") from None
                log.warning("a driver call took as long as its operation may", action=type(action).__name__)
            except DriverError as error:
                if not (isinstance(action, MarkWhole) and row.status.operation is Operation.NONE):
                    raise
                log.warning("a home could not be marked as whole", workspace_id=str(row.id), cause=str(error))
                return SKIPPED  # nothing waits for it: no pause keeps anybody from starting or stopping
            return DONE  # the next tick looks at what came of it, and judges

        if starts_job(action):
            self._turns.started(row)
        self._eyes.asked.add(row.id)
        self._errands.start(row.id, op_id, (row.instance_backend, perform.lane_of(action)), errand)

    def _start_look(self, row: Workspace, backend: Backend, need: Need, job: JobSeen | None, *, volume: bool) -> None:
        op_id = row.status.op_id

        def moved(read: int) -> None:
            """Reading an archive back may take long: it counts as the operation's progress, and is shown."""
            self._deadlines.progressed(row.id, op_id, self._now())
            if op_id is not None:
                told = job or JobSeen(op_id, JobState.SUCCEEDED)
                self._on_progress(row, replace(told, bytes_done=read), self._now())

        async def errand() -> Result:
            self._deadlines.first_attempt(row.id, op_id, self._now())
            archives = await self._store.ask(row, need, moved)
            seen = await backend.volumes.look(row.id) if volume else None
            return Looked(archives, seen, wakes=volume or need.waits)

        where = (row.instance_backend, perform.ACT) if need.is_none else ("store", store.lane_of(need))
        self._eyes.asked.add(row.id)
        self._errands.start(row.id, None, where, errand)

    def _may_wish(self, move: Move) -> bool:
        """Whether it is time for a look at an archive that nothing waits for."""
        row, now = move.row, asyncio.get_running_loop().time()
        if move.sight.need.is_none:
            return False
        if now < self._wished_looks.get(row.id, 0.0):
            return False
        if len(self._wished_looks) > PAGE:
            self._wished_looks = {id_: at for id_, at in self._wished_looks.items() if at > now}
        in_trash = row.wish.deleted_at is not None
        self._wished_looks[row.id] = now + (_TRASH_LOOK_SECONDS if in_trash else _WISHED_LOOK_SECONDS)
        return True


def _silence(rules: Rules) -> float:
    """Longer than any operation may take that has a job: as a rule it is that limit which ends one that hangs."""
    return 2 * max(rules.time_limits[each] for each in (Operation.ARCHIVING, Operation.RESTORING)).total_seconds()
