"""The queue of storage jobs, as one leader keeps it (the rules are model/job_queue.py).

What runs is counted from the listings, so jobs of an earlier leader count too; those that were asked for and are not
listed yet, and those whose turn it is, hold their place meanwhile. A job that has shown nothing new for long holds
none: whatever it waits for, the queue does not. Forgetting all of this costs a place in the queue, nothing else.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from codehub.model.actions import Action, StartArchiveJob, StartRestoreJob
from codehub.model.job_queue import ANYWHERE, JobLimits, Waiting, admitted, in_order
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import InstanceBackend, OpId, Status, UserId, Workspace, WorkspaceId

Jobs = Mapping[InstanceBackend, Mapping[WorkspaceId, Sequence[JobSeen]]]

_MOST_OWNERS = 10_000  # whose last turns are remembered


def starts_job(action: Action | None) -> bool:
    return isinstance(action, StartArchiveJob | StartRestoreJob)


@dataclass
class Turns:
    """Who waits, and whose turn it is."""

    limits: JobLimits
    silence: float  # seconds after which a job that shows nothing new no longer counts
    nodes: Mapping[InstanceBackend, str] = field(default_factory=dict)  # of backends that are one machine
    running: int = 0  # at the last look
    _waiting: dict[WorkspaceId, tuple[OpId | None, Waiting]] = field(default_factory=dict)
    _before: dict[WorkspaceId, int] = field(default_factory=dict)  # how many go first
    _called: dict[WorkspaceId, Waiting] = field(default_factory=dict)  # their turn has come
    _asked_for: dict[WorkspaceId, InstanceBackend] = field(default_factory=dict)  # no listing tells of them yet
    _last_turns: dict[UserId, int] = field(default_factory=dict)
    _turn: int = 0
    _marks: dict[OpId, tuple[object, float]] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        return len(self._waiting) - len(self._called)

    def is_in(self, row: Workspace) -> bool:
        """Whether this operation's job is in the queue: its deadline does not run."""
        found = self._waiting.get(row.id)
        return found is not None and found[0] == row.status.op_id

    def is_held(self, row: Workspace) -> bool:
        """Whether it is not its turn yet: nothing is looked at for it."""
        return self.is_in(row) and row.id not in self._called

    def is_called(self, workspace_id: WorkspaceId) -> bool:
        return workspace_id in self._called

    def why(self, workspace_id: WorkspaceId) -> str:
        return f"it waits for its turn: {self._before.get(workspace_id, 0)} before it"

    def enter(self, row: Workspace, status: Status, action: Action) -> None:
        """Its job could start now. Whoever is in the queue already keeps the place."""
        if row.id in self._waiting and self._waiting[row.id][0] == status.op_id:
            return
        self.leave(row.id)
        one = Waiting(
            workspace_id=row.id,
            owner=row.owner_user_id,
            since=status.op_started_at or row.created_at,
            is_restore=isinstance(action, StartRestoreJob),
            node=self.nodes.get(row.instance_backend, ANYWHERE),
        )
        self._waiting[row.id] = (status.op_id, one)

    def leave(self, workspace_id: WorkspaceId) -> None:
        """It wants no job any more, or something else first."""
        self._waiting.pop(workspace_id, None)
        self._called.pop(workspace_id, None)

    def keep(self, ids: Collection[WorkspaceId]) -> None:
        """Nobody else is there any more."""
        for gone in self._waiting.keys() - ids:
            self.leave(gone)

    def started(self, row: Workspace) -> None:
        """Its job was asked for."""
        self.leave(row.id)
        self._asked_for[row.id] = row.instance_backend

    def call(self, jobs: Jobs, is_listed: Callable[[WorkspaceId, InstanceBackend], bool]) -> Collection[WorkspaceId]:
        """Give free places away, to whom. `is_listed`: there is a listing that was made after it was asked for."""
        self._asked_for = {each: backend for each, backend in self._asked_for.items() if not is_listed(each, backend)}
        on = self._nodes_in_use(jobs)
        self.running = len(on)
        on |= {each: self.nodes.get(backend, ANYWHERE) for each, backend in self._asked_for.items()}
        on |= {each: one.node for each, one in self._called.items()}
        left = [one for each, (_, one) in self._waiting.items() if each not in self._called]
        queue = in_order(left, self._last_turns)
        news = admitted(queue, Counter(on.values()), self.limits)
        for one in news:
            self._called[one.workspace_id] = one
            self._turn += 1
            self._last_turns[one.owner] = self._turn
        self._before = {one.workspace_id: place for place, one in enumerate(queue)}
        if len(self._last_turns) > _MOST_OWNERS:
            owners = {one.owner for one in left}
            self._last_turns = {owner: turn for owner, turn in self._last_turns.items() if owner in owners}
        return [one.workspace_id for one in news]

    def _nodes_in_use(self, jobs: Jobs) -> dict[WorkspaceId, str]:
        """Where a job runs that gets further."""
        now = asyncio.get_running_loop().time()
        marks: dict[OpId, tuple[object, float]] = {}
        found: dict[WorkspaceId, str] = {}
        for backend, of_backend in jobs.items():
            node = self.nodes.get(backend, ANYWHERE)
            for workspace_id, its in of_backend.items():
                for job in its:
                    if job.state is not JobState.RUNNING:
                        continue
                    mark = (job.progress_at, job.bytes_done, job.files_done)
                    before, since = self._marks.get(job.op_id, (None, now))
                    marks[job.op_id] = (mark, since if before == mark else now)
                    if now - marks[job.op_id][1] <= self.silence:
                        found[workspace_id] = node
        self._marks = marks
        return found
