"""Instances: IDEs as local processes that outlive us, adopted from their records and killed to the last process.

An instance is reached over a unix socket that we bind, below a folder that only we can enter, under a name that is
never used again: no address of an earlier instance can ever lead to another workspace. The socket `ports` beside it
leads to the ports inside, where they are the workspace's own (network.py).
"""

import asyncio
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import structlog

from codehub.drivers import packages
from codehub.drivers.base import InstanceSpec, InstanceUsage, Resources
from codehub.drivers.ide import AllowList
from codehub.drivers.process import network
from codehub.drivers.process.home_processes import HOME_MARK
from codehub.drivers.process.homes import Home, Homes
from codehub.drivers.process.layout import Layout, is_token, new_token, parse_id, remove_tree, write_json
from codehub.drivers.process.looks import looks
from codehub.drivers.process.lost_subreapers import LostSubreapers
from codehub.drivers.process.machine import INSIDE, Launch, Machine
from codehub.drivers.process.notes import READY, RECORD, Notes, note_ready
from codehub.drivers.process.programs import Program, program_of
from codehub.drivers.process.readiness import answers
from codehub.drivers.process.records import Record, last_words, tail, trim_log
from codehub.drivers.process.sandbox import HOME, PATH, Bind, View
from codehub.drivers.process.threads import Threads
from codehub.drivers.process.tree import Tree
from codehub.drivers.process.usage import usage_of
from codehub.drivers.process.watch import changes
from codehub.errors import ActionFailed, Refused
from codehub.model.names import instance_name
from codehub.model.observation import InstanceSeen, Life
from codehub.model.sentences import log_ends
from codehub.model.workspace import WorkspaceId

log = structlog.get_logger()

_IDE = "ide"
_PORTS = "ports"
_PROBE_SECONDS = 2.0
_GLANCE_SECONDS = 0.3  # a listing does not wait for those that are getting ready
_POLL_SECONDS = 0.02
_SLOWEST_POLL_SECONDS = 0.25
_LOG_LINES = 20  # for the operator; people are told the last one
_NONE = InstanceSeen(None)


class Instances:
    """Implements drivers.base.Instances."""

    def __init__(self, machine: Machine, homes: Homes, allowed: AllowList, ides: Path, threads: Threads) -> None:
        self._machine = machine
        self._layout = machine.layout
        self._homes = homes
        self._allowed = allowed
        self._ides = ides
        self._run = threads.run
        self._notes = Notes(machine.layout)
        self._starting: set[WorkspaceId] = set()
        self._usage: asyncio.Future[Mapping[WorkspaceId, InstanceUsage]] | None = None

    async def observe(self) -> Mapping[WorkspaceId, InstanceSeen]:
        """A listing waits for nobody who is getting ready: whoever starts it does that."""
        found, unsure = await self._run(self._list)
        seen = await asyncio.gather(*(self._seen(record, alive=True) for record in unsure.values()))
        return {**found, **dict(zip(unsure, seen, strict=True))}

    async def look(self, workspace_id: WorkspaceId) -> InstanceSeen:
        record, alive = await self._run(self._look, workspace_id)
        return await self._seen(record, alive=alive) if record else _NONE

    async def start(self, workspace_id: WorkspaceId, spec: InstanceSpec) -> None:
        ide = self._allowed.find(spec.image_ref)
        program = program_of(ide, workspace_id, self._ides, self._machine.python, safe_mode=spec.safe_mode)
        self._starting.add(workspace_id)
        try:
            await self._wait_until_ready(await self._run(self._ensure, workspace_id, spec, program))
        finally:
            self._starting.discard(workspace_id)

    async def remove(self, workspace_id: WorkspaceId) -> None:
        await self._run(self._remove, workspace_id)

    async def logs(self, workspace_id: WorkspaceId, lines: int) -> str:
        self._layout.installation()
        return await self._run(tail, self._layout.instance(workspace_id) / "log", lines)

    async def usage(self) -> Mapping[WorkspaceId, InstanceUsage]:
        """Who asks while a look is under way, also one whose caller has given up, shares it: looks never pile up."""
        if self._usage is None or self._usage.done():
            self._usage = asyncio.ensure_future(self._run(self._measure))
        return await asyncio.shield(self._usage)

    def events(self) -> AsyncIterator[None]:
        return changes(self._layout, self._run, self._watched)

    # -- looking -----------------------------------------------------------------------------------------------------

    def _list(self) -> tuple[dict[WorkspaceId, InstanceSeen], dict[WorkspaceId, Record]]:
        """What is known, and those that live and are to be asked whether they are ready."""
        found, unsure = {}, {}
        for note in self._notes.all():
            record = note.record
            trim_log(record.folder / "log")
            if not note.is_alive():
                found[note.workspace_id] = InstanceSeen(Life.DEAD, record.op_id)
            elif note.is_ready or note.workspace_id in self._starting:
                found[note.workspace_id] = self._living(record, Life.READY if note.is_ready else Life.ALIVE)
            else:
                unsure[note.workspace_id] = record
        return found, unsure

    def _measure(self) -> Mapping[WorkspaceId, InstanceUsage]:
        return usage_of(self._machine, list(self._notes.all()), looks.fresh())

    def _look(self, workspace_id: WorkspaceId) -> tuple[Record | None, bool]:
        self._layout.installation()
        record = Record.read(self._layout.instance(workspace_id), RECORD)
        return record, record is not None and record.tree().is_alive()

    async def _seen(self, record: Record, *, alive: bool) -> InstanceSeen:
        if not alive:
            return InstanceSeen(Life.DEAD, record.op_id)
        return self._living(record, Life.READY if await self._is_ready(record, _GLANCE_SECONDS) else Life.ALIVE)

    def _living(self, record: Record, life: Life) -> InstanceSeen:
        return InstanceSeen(life, record.op_id, f"unix:{_socket_of(self._layout, record)}")

    async def _is_ready(self, record: Record, seconds: float) -> bool:
        """Asked over the socket only until it has answered once; from then on being alive is enough."""
        if (record.folder / READY).exists():
            return True
        ready = await answers(_socket_of(self._layout, record), record.content["ready_path"], seconds)
        if ready:
            with suppress(OSError):  # removed meanwhile
                note_ready(record.folder)
        return ready

    def _watched(self) -> list[int]:
        mains = [note.main for note in self._notes.all()]
        mains += [record.main() for record in job_records(self._layout)]
        return [main.pid for main in mains if main is not None and main.find() is not None]

    # -- starting ----------------------------------------------------------------------------------------------------

    def _ensure(self, workspace_id: WorkspaceId, spec: InstanceSpec, program: Program) -> Record:
        """The record of a living instance: the one that is there, or a new one."""
        with self._layout.locked(str(workspace_id)):
            home = self._homes.named(workspace_id, spec.volume)
            record = Record.read(self._layout.instance(workspace_id), RECORD)
            if record is not None and record.tree().is_alive():
                if not home.is_named(record.volume):
                    raise Refused(f"Workspace {workspace_id} runs on another home than was named.")
                return record
            if is_busy(self._layout, workspace_id):
                raise Refused(f"A storage job is using the home of workspace {workspace_id}.")
            self._machine.reserve.check()
            if self._layout.instance(workspace_id).exists():
                self._clear(workspace_id, record)
            open_to_its_owner(home.path)
            self._homes.limit(home)
            record = self._write_down(workspace_id, spec, home)
            self._launch(workspace_id, record, home, program, spec.resources)
            return record

    def _write_down(self, workspace_id: WorkspaceId, spec: InstanceSpec, home: Home) -> Record:
        folder = self._layout.instance(workspace_id)
        draft = self._layout.draft(folder)
        content = {
            "workspace_id": str(workspace_id),
            "op_id": str(spec.op_id),
            "image_ref": spec.image_ref,
            "incarnation": home.incarnation,
            "uid": home.uid,
            "mark": new_token(),
            "ready_path": self._allowed.find(spec.image_ref).ready_path,
            # Without a sandbox its processes are known by their user, if that is nobody else's.
            "own_user": home.user if self._machine.bwrap is None and self._machine.is_own(home.user) else None,
            "is_subreaper": self._machine.needs_subreaper,
        }
        write_json(draft / RECORD, content, durable=False)  # it speaks of processes, and none survives a power cut
        draft.rename(folder)
        return Record(folder, content)

    def _launch(
        self, workspace_id: WorkspaceId, record: Record, home: Home, program: Program, resources: Resources
    ) -> None:
        environment = {
            "HOME": HOME,
            "USER": "coder",
            "LOGNAME": "coder",
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
            "PATH": PATH,
            "CODEHUB_WORKSPACE_ID": str(workspace_id),
            **packages.certificates(),
            **self._machine.options.environment,
            **(program.environment or {}),
        }
        inside = {"{inside}": INSIDE, "{home}": HOME, "{socket}": "/tmp/ide.sock"}  # noqa: S108 - in the sandbox
        plain = {
            "{inside}": str(self._machine.base_binds()[0].source),
            "{home}": str(home.path),
            "{socket}": str(home.path / ".ide.sock"),
        }
        binds = [Bind(home.path, HOME, writable=True), *self._machine.base_binds(), *program.binds]
        command = [*network.command(self._machine), *_filled(program, inside)]
        sockets = self._layout.sockets_of(record.mark)
        sockets.mkdir(mode=0o700)
        beside = []
        etc = self._machine.etc_files(network=self._machine.options.network == "host")
        if network.has_way_out(self._machine):
            out = sockets / "out"
            beside.append(network.way_out(self._machine, record, home.user, out))
            binds.append(network.bind(out))
            environment |= network.environment()
            etc["ssh/ssh_config"] = network.ssh_config(self._machine)
        view = View(
            binds=binds,
            environment=environment,
            command=command,
            host_network=self._machine.options.network == "host",
            etc=etc,
        )
        self._machine.launch(
            *beside,
            Launch(
                folder=record.folder,
                mark=record.mark,
                view=view,
                user=home.user,
                plain=[*self._machine.subreaper(record.folder), *_filled(program, plain)],
                plain_environment={**environment, "HOME": str(home.path), HOME_MARK: str(home.path)},
                plain_folder=home.path,
                resources=resources,
                listen=[sockets / name for name in (_IDE, *([_PORTS] if network.has_ports(self._machine) else []))],
                cgroup=instance_name(workspace_id),
                file_bytes=self._machine.options.home_quota,
            ),
        )

    async def _wait_until_ready(self, record: Record) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._machine.options.start_seconds
        pause = _POLL_SECONDS
        while not await self._is_ready(record, _PROBE_SECONDS):
            if not await self._run(lambda: record.tree().is_alive()):
                words = await self._run(last_words, record.folder / "log", _LOG_LINES)
                log.warning("a workspace did not start", log=words)
                raise ActionFailed(f"The workspace ended before it was ready. {log_ends(words)}")
            if loop.time() > until:
                raise ActionFailed(f"The workspace was not ready in {self._machine.options.start_seconds:g} seconds.")
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, _SLOWEST_POLL_SECONDS)

    # -- removing ----------------------------------------------------------------------------------------------------

    def _remove(self, workspace_id: WorkspaceId) -> None:
        self._layout.installation()
        with self._layout.locked(str(workspace_id)):
            if self._layout.instance(workspace_id).exists():
                record = Record.read(self._layout.instance(workspace_id), RECORD)
                if record is not None and self._machine.options.stop_grace:
                    spared = _job_marks(self._layout, workspace_id)
                    record.tree(spared=spared).ask_to_end(self._machine.options.stop_grace)
                self._clear(workspace_id, record)

    def _clear(self, workspace_id: WorkspaceId, record: Record | None) -> None:
        """Afterwards nothing of it runs, and it is on record no more."""
        groups, name = self._machine.cgroups, instance_name(workspace_id)
        if groups is not None:
            groups.kill(name)
        if record is not None:
            record.tree(spared=_job_marks(self._layout, workspace_id)).kill()
            LostSubreapers(self._layout).note(record)
            self._layout.discard(self._layout.sockets_of(record.mark), durable=False)
        if groups is not None:
            groups.remove(name)
        self._layout.discard(self._layout.instance(workspace_id))
        self._machine.trash.empty_later()


def open_to_its_owner(home: Path) -> None:
    """After a `chmod 000 ~` nothing could start there, and nobody inside could mend it.

    The home's own folder is in one of ours: nobody can have put a link in its place.
    """
    mode = stat.S_IMODE(home.stat().st_mode)
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        home.chmod(mode | stat.S_IRWXU)


def remove_unnamed_sockets(layout: Layout) -> None:
    """Those that nobody can name any more: a power cut may leave a record empty.

    A start makes its record before its sockets. So what was there before the records are read, and is named by none of
    them, belongs to nobody who starts now; and whoever still runs carries the name as its mark.
    """
    found = [name for name in layout.list(layout.sockets) if is_token(name)]
    records = [Record.read(layout.instances / name, RECORD) for name in layout.list(layout.instances)] if found else []
    named = {record.mark for record in records if record is not None}
    unnamed = [name for name in found if name not in named]
    look = looks.fresh() if unnamed else None
    for name in unnamed:
        if not Tree(mark=name, main=None, first=None).members(look):
            remove_tree(layout.sockets_of(name))


def is_used(layout: Layout, workspace_id: WorkspaceId) -> bool:
    """Whether there is an instance, alive or dead."""
    return Record.read(layout.instance(workspace_id), RECORD) is not None


def is_busy(layout: Layout, workspace_id: WorkspaceId) -> bool:
    """Whether a storage job of this workspace runs."""
    return any(record.tree().is_working() for record in job_records(layout, workspace_id))


def job_records(layout: Layout, workspace_id: WorkspaceId | None = None) -> list[Record]:
    """The jobs on record, of one workspace or of all."""
    found = []
    for name in layout.list(layout.jobs):
        if parse_id(name, "ws-job-") is None:
            continue
        record = Record.read(layout.jobs / name, "job.json")
        if record is not None and (workspace_id is None or UUID(record.content["workspace_id"]) == workspace_id):
            found.append(record)
    return found


def _job_marks(layout: Layout, workspace_id: WorkspaceId) -> tuple[str, ...]:
    return tuple(record.mark for record in job_records(layout, workspace_id))


def _socket_of(layout: Layout, record: Record) -> Path:
    return layout.sockets_of(record.mark) / _IDE


def _filled(program: Program, values: Mapping[str, str]) -> list[str]:
    words = []
    for word in program.command:
        for name, value in values.items():
            word = word.replace(name, value)  # noqa: PLW2901
        words.append(word)
    return words
