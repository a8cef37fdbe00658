"""Proves on this very machine that a workspace can live here: what it runs starts as its own user and writes its home,
and the home can be archived to the configured store and restored from it.

It has a driver on a folder of its own, on the disk of the homes, so it meets no workspace and leaves nothing; what an
earlier check that was killed has left is removed first. About a second, most of it two storage jobs.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4, uuid5

from codehub.drivers.archives import ArchiveStore
from codehub.drivers.ide import AllowList
from codehub.drivers.process import Options, ProcessDriver
from codehub.drivers.process.homes import Homes
from codehub.drivers.process.layout import Layout, new_token, remove_tree
from codehub.drivers.process.machine import Launch, Machine
from codehub.drivers.process.programs import Program, is_installed, program_of
from codehub.drivers.process.records import last_words
from codehub.drivers.process.sandbox import HOME, PATH, Bind, View
from codehub.errors import ActionFailed, DriverError, StartError, Unreachable
from codehub.model.names import archive_key
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import Incarnation, OpId, VolumeRef, WorkspaceId

JOB_SECONDS = 30.0
_POLL_SECONDS = 0.02
_FILE = "self-check"
_NAMESPACE = UUID("0f4d1c52-6f3b-4f7e-9a57-2a1b8c5d9e30")
_SHELL = "/bin/sh"
# Whatever an IDE is run with knows this option; then the home is written, as its owner would.
_SCRIPT = f'"$1" --version >/dev/null && printf %s "$2" >{_FILE}'
_HINT = "Mend that and start CodeHub again if it does not run; `codehub doctor` makes the same check."


async def self_check(options: Options, allowed: AllowList, ides: Path, store: ArchiveStore) -> None:
    """Return if everything works. `options.root` is made for it, and removed.

    Raises StartError with what does not work, Unreachable if only the store is out or the disk is short of room.
    """
    folder = options.root
    await asyncio.to_thread(remove_tree, folder)
    layout = Layout(folder)
    machine = Machine(options, layout)
    try:
        layout.make_folders()  # it listens on no socket, so a path may be a little longer than others
        await asyncio.to_thread(machine.find_out)
        driver = ProcessDriver(machine, allowed, ides, store.job_urls)
        try:
            programs = _programs(allowed, ides, machine.python)
            await _Check(driver, machine, store).run(programs)
        finally:
            driver.close()
    finally:
        await asyncio.to_thread(remove_tree, folder)


def _programs(allowed: AllowList, ides: Path, python: Path) -> Sequence[Program]:
    """What workspaces can run here now; Python alone, if no IDE is installed yet."""
    nobody = WorkspaceId(UUID(int=0))
    installed = [ide for ide in allowed.ides.values() if is_installed(ide, ides)]
    return [program_of(ide, nobody, ides, python) for ide in installed] or [Program([str(python)])]


class _Check:
    """One workspace that is nobody's. Its archive has the same key in every check here, so none is left for ever."""

    def __init__(self, driver: ProcessDriver, machine: Machine, store: ArchiveStore) -> None:
        self._driver = driver
        self._machine = machine
        self._store = store
        self._homes = Homes(machine.layout, machine.users)
        root = str(machine.layout.root)
        self._id = WorkspaceId(uuid5(_NAMESPACE, root))
        self._archiving = OpId(uuid5(_NAMESPACE, f"{root} archive"))
        self._key = archive_key(self._id, self._archiving)
        self._text = secrets.token_hex(16)

    async def run(self, programs: Sequence[Program]) -> None:
        home = await self._new_home()
        for program in programs:
            await _step("A workspace cannot run here", asyncio.to_thread(self._write, program, home))
        await self._store.ping()
        try:
            await self._store.delete(self._key)
            await _step("A home cannot be archived here", self._archive(home))
            await _step("A home cannot be restored here", self._restore())
        finally:
            with suppress(DriverError):  # the next check removes it
                await self._store.delete(self._key)

    async def _new_home(self) -> VolumeRef:
        await _step("A home cannot be made here", self._driver.volumes.create(self._id, Incarnation(str(uuid4()))))
        return (await self._driver.volumes.look(self._id)).ref

    def _write(self, program: Program, home: VolumeRef) -> None:
        """Run what an IDE is run with as its workspace would, and have it write the home."""
        found = self._homes.named(self._id, home)
        command = [_SHELL, "-c", _SCRIPT, _SHELL, program.command[0], self._text]
        environment = {"HOME": HOME, "LANG": "C.UTF-8", "PATH": PATH}
        record = self._machine.layout.draft(Path(_FILE))
        try:
            self._machine.launch(
                Launch(
                    folder=record,
                    mark=new_token(),
                    view=View(
                        binds=[Bind(found.path, HOME, writable=True), *self._machine.base_binds(), *program.binds],
                        environment=environment,
                        command=command,
                        etc=self._machine.etc_files(network=False),
                    ),
                    user=found.user,
                    plain=command,
                    plain_environment={**environment, "HOME": str(found.path)},
                    plain_folder=found.path,
                    wait=True,
                )
            )
        except ActionFailed as error:
            words = " ".join(last_words(record / "log", 3).split())
            raise ActionFailed(words or error.message) from error
        self._check_home()

    async def _archive(self, home: VolumeRef) -> None:
        await self._driver.jobs.archive(self._id, self._archiving, home)
        await self._ended(self._archiving)
        await self._driver.volumes.delete(self._id, home)

    async def _restore(self) -> None:
        restoring = OpId(uuid4())
        await self._driver.jobs.restore(self._id, restoring, self._key, await self._new_home())
        await self._ended(restoring)
        await asyncio.to_thread(self._check_home)

    async def _ended(self, op_id: OpId) -> None:
        try:
            async with asyncio.timeout(JOB_SECONDS):
                while (job := await self._job(op_id)).state is JobState.RUNNING:  # noqa: ASYNC110 - of a process
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise ActionFailed(f"it took longer than {JOB_SECONDS:g} s") from None
        finally:
            await self._driver.jobs.remove(self._id, op_id)
        if job.state is not JobState.SUCCEEDED:
            raise ActionFailed(job.message)

    async def _job(self, op_id: OpId) -> JobSeen:
        return next(job for job in (await self._driver.jobs.observe())[self._id] if job.op_id == op_id)

    def _check_home(self) -> None:
        found = self._homes.find(self._id)
        if found is None or (found.path / _FILE).read_text() != self._text:
            raise ActionFailed("what was written is not there")


async def _step(what: str, work: Awaitable[None]) -> None:
    try:
        await work
    except Unreachable:
        raise
    except (DriverError, OSError) as error:
        raise StartError(f"{what}: {str(error).rstrip('.')}.", _HINT) from error
