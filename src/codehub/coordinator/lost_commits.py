"""Notices that the database has lost commits, before a new leader decides anything by its rows (ADR 24).

What is known of the newest commit is in this process's memory, if it has led before, in Redis, and, rarely written, in
the archive store (store_owner.py). It is compared with what the database had when this leadership began, and only then
is Redis told of newer ones: at most once a second, and nothing while nothing is committed. While one of them is out
the leader works on, and the comparison is made when it is back.
"""

from typing import Protocol

import structlog

from codehub.db.lost_commits import CommitCount, LostCommits
from codehub.errors import Unavailable
from codehub.model.store_owner import StoreMarker

log = structlog.get_logger(__name__)

PERIOD_SECONDS = 1.0
COMMANDS = "codehub backup FILE, then codehub restore FILE --force"


class CommitRecords(Protocol):
    """The counter in the database, and what this process has seen of it."""

    @property
    def newest_commit(self) -> int:
        """Of those that the database has confirmed to this process; 0 before the first."""
        ...

    async def commit_count(self) -> CommitCount:
        """As the database has it. If it is another one than before, `newest_commit` is 0."""
        ...

    def go_on_from(self, commit: int) -> None:
        """What came after this one is known to be lost: the database no longer has to have it."""
        ...

    async def note_lost_commits(self, epoch: int, count: int) -> LostCommits | None: ...


class CommitNotes(Protocol):
    """A place outside of the database; Unavailable when it does not answer."""

    async def leave(self, database: str, commits: int) -> None: ...

    async def read(self, database: str) -> int | None: ...


class CommitWatch:
    """Of one leadership."""

    def __init__(self, records: CommitRecords, notes: CommitNotes, epoch: int) -> None:
        self._records = records
        self._notes = notes
        self._epoch = epoch
        self._count: CommitCount | None = None  # when this leadership began
        self._is_compared = False
        self._noted = 0
        self._has_heard = False
        self.lost: LostCommits | None = None

    @property
    def trouble(self) -> str | None:
        """For /readyz."""
        if self.lost is None:
            return None
        return f"The database has lost {self.lost.count} commits or more. Stop every CodeHub, then: {COMMANDS}."

    async def begin(self) -> None:
        """Before anything is decided. Raises Unavailable when the database does not answer."""
        count = self._count = await self._records.commit_count()
        self.lost = count.lost
        await self._compare(self._records.newest_commit)
        try:
            await self._compare_note(count)
        except Unavailable as error:
            log.warning("whether commits were lost could not be looked up; it will be", cause=str(error))
        self._records.go_on_from(count.commits)
        if count.lost is not None:
            log.error("the database has lost commits, and was not settled since", todo=COMMANDS)

    async def run_once(self) -> None:
        count = self._count
        if count is None or count.database is None:
            return
        await self._compare_note(count)
        newest = self._records.newest_commit
        if newest > self._noted:
            await self._notes.leave(count.database, newest)
            self._noted = newest

    async def hear(self, marker: StoreMarker | None) -> None:
        """The note in the archive store, which outlives this process, Redis and a snapshot of both servers.

        The first answer alone, also that there is none: what lies there later is our own, and no news.
        """
        count = self._count
        if self._has_heard or count is None or count.database is None:
            return
        if marker is not None and marker.database == count.database:
            await self._compare(marker.commits)
        self._has_heard = True

    async def _compare_note(self, count: CommitCount) -> None:
        """Once in a leadership; its own notes are no news."""
        if self._is_compared or count.database is None:
            return
        noted = await self._notes.read(count.database)
        await self._compare(noted or 0)
        self._is_compared = True

    async def _compare(self, known: int) -> None:
        assert self._count is not None
        lost = known - self._count.commits
        if lost <= 0:
            return
        self.lost = await self._records.note_lost_commits(self._epoch, lost) or self.lost
        log.error("the database has lost commits: it is older than what was done", lost=lost, todo=COMMANDS)
