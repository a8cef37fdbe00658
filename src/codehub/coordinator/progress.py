"""How far storage jobs have got, told to whoever shows it, at most once a second; what cannot be told is dropped."""

import asyncio
from datetime import datetime

import structlog

from codehub.model.observation import JobSeen
from codehub.model.workspace import Workspace, WorkspaceId
from codehub.signals.events import Event, RedisEvents
from codehub.signals.progress import Progress, RedisProgress

log = structlog.get_logger(__name__)


class ProgressTeller:
    """Takes notes at any time, and tells the newest of each workspace in one go."""

    def __init__(self, progress: RedisProgress, events: RedisEvents, *, every_seconds: float = 1.0) -> None:
        self._progress = progress
        self._events = events
        self._every_seconds = every_seconds
        self._news: dict[WorkspaceId, Progress] = {}
        self._owners: dict[WorkspaceId, Event] = {}
        self._something = asyncio.Event()
        self._is_mute = False

    def note(self, workspace: Workspace, job: JobSeen, now: datetime) -> None:
        """The job of the workspace's operation has got further."""
        news = Progress(job.op_id, workspace.status.operation, job.bytes_done, job.files_done, now)
        self._news[workspace.id] = news
        self._owners[workspace.id] = Event(str(workspace.id), str(workspace.owner_user_id))
        self._something.set()

    async def run(self) -> None:
        """For ever; ends only by being cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            news, self._news = self._news, {}
            owners, self._owners = self._owners, {}
            try:
                await self._progress.leave(news)
                await self._events.publish(list(owners.values()))
            except Exception as error:  # noqa: BLE001 - whatever it is, the coordinator goes on without it
                if not self._is_mute:
                    log.warning("progress cannot be told", cause=str(error))
                self._is_mute = True
            else:
                self._is_mute = False
            await asyncio.sleep(self._every_seconds)
