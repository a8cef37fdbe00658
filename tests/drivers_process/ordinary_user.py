"""A driver without a sandbox for an ordinary user, in a process of its own that does what it is told, line by line.

Run as a script by processes that may be another user's: it imports nothing of the tests.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO
from uuid import UUID, uuid4

from codehub.drivers.base import InstanceSpec
from codehub.drivers.ide import AllowList
from codehub.drivers.process import Options, ProcessDriver
from codehub.errors import DriverError
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import ArchiveKey, Incarnation, OpId, WorkspaceId


class Player:
    def __init__(self, folder: Path, seccomp: Any) -> None:
        self.archives = folder / "archives"
        options = Options(root=folder / "w", sandbox="off", seccomp=seccomp)
        self.driver = ProcessDriver.open(options, AllowList.of(["test"]), folder / "ide", self.urls)

    def urls(self, key: ArchiveKey) -> Any:
        url = (self.archives / key).as_uri()
        return SimpleNamespace(archive_url=url, meta_url=f"{url}.meta", store={})

    async def start(self, id_: WorkspaceId) -> str:
        if not (await self.driver.volumes.look(id_)).exists:
            await self.driver.volumes.create(id_, Incarnation(str(uuid4())))
        volume = (await self.driver.volumes.look(id_)).ref
        await self.driver.instances.start(id_, InstanceSpec(op_id=OpId(uuid4()), image_ref="test", volume=volume))
        return str((await self.driver.instances.look(id_)).endpoint)

    async def life(self, id_: WorkspaceId) -> str:
        life = (await self.driver.instances.look(id_)).life
        return life.name if life else "NONE"

    async def remove(self, id_: WorkspaceId) -> None:
        await self.driver.instances.remove(id_)

    async def archive(self, id_: WorkspaceId) -> str:
        return await self.finish(id_, await self.begin_archive(id_, str(uuid4())))

    async def begin_archive(self, id_: WorkspaceId, op_id: str) -> str:
        """Archived, and the job is still to be removed."""
        await self.driver.jobs.archive(id_, OpId(UUID(op_id)), (await self.driver.volumes.look(id_)).ref)
        await self._ended(id_)
        return op_id

    async def in_use(self, id_: WorkspaceId) -> str:
        return (await self._ended(id_)).in_use

    async def finish(self, id_: WorkspaceId, op_id: str) -> str:
        await self.driver.jobs.remove(id_, OpId(UUID(op_id)))
        return f"{id_}/{op_id}/home.tar.zst"

    async def kept(self, id_: WorkspaceId) -> str:
        return (await self.driver.volumes.look(id_)).kept

    async def restore(self, id_: WorkspaceId, key: str) -> str:
        await self.driver.volumes.create(id_, Incarnation(str(uuid4())))
        op_id = OpId(uuid4())
        volume = (await self.driver.volumes.look(id_)).ref
        await self.driver.jobs.restore(id_, op_id, ArchiveKey(key), volume)
        await self._ended(id_)
        return await self.finish(id_, str(op_id))

    async def delete(self, id_: WorkspaceId, archived: str | None = None) -> None:
        by = None if archived is None else OpId(UUID(archived))
        await self.driver.volumes.delete(id_, (await self.driver.volumes.look(id_)).ref, archived=by)

    async def _ended(self, id_: WorkspaceId) -> JobSeen:
        async with asyncio.timeout(60):
            while True:
                (job,) = (await self.driver.jobs.observe())[id_]
                if job.state is not JobState.RUNNING:
                    break
                await asyncio.sleep(0.02)
        assert job.state is JobState.SUCCEEDED, job.message
        return job


async def play(player: Player, answers: TextIO) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        verb, id_, *more = json.loads(line)
        try:
            said = {"said": await getattr(player, verb)(WorkspaceId(UUID(id_)), *more)}
        except DriverError as error:
            said = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(said), file=answers, flush=True)
    player.driver.close()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is logged is no answer
    asyncio.run(play(Player(Path(sys.argv[1]), sys.argv[2]), answers))
