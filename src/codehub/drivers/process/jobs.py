"""Storage jobs as local processes: they outlive us, and what became of them stays readable until they are removed.

A job runs as the owner of the home, as uid 1000 in its sandbox like the workspace itself, so an archive names the same
owner whichever machine or driver it is unpacked on. It sees the one home and, where the store is a folder, the one
archive's folder; a network only where the store needs one. Its request goes through standard input from memory:
credentials are in no file, command line or environment.
"""

import errno
import json
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit
from uuid import UUID

import structlog

from codehub.drivers.process import archived_homes
from codehub.drivers.process.home_processes import HomeProcesses
from codehub.drivers.process.homes import Home, Homes
from codehub.drivers.process.instances import is_busy, is_used, job_records
from codehub.drivers.process.layout import Layout, new_token, read_report, remove_tree, write_json
from codehub.drivers.process.machine import Launch, Machine
from codehub.drivers.process.records import Record, last_words
from codehub.drivers.process.sandbox import HOME, Bind, View
from codehub.drivers.process.threads import Threads
from codehub.errors import ActionFailed, DriverError, Refused, Unreachable
from codehub.model.names import archive_key, job_name
from codehub.model.observation import JobSeen, JobState
from codehub.model.sentences import log_ends
from codehub.model.workspace import ArchiveKey, ErrorReason, OpId, VolumeRef, WorkspaceId

log = structlog.get_logger()

_RECORD = "job.json"
_OUT = "/run/codehub"
_IN_THE_WAY = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)  # of this archive alone
_REASONS = {reason.value: reason for reason in ErrorReason}


class Urls(Protocol):
    """Where an archive is, as a job is told."""

    @property
    def archive_url(self) -> str: ...
    @property
    def meta_url(self) -> str: ...
    @property
    def store(self) -> Mapping[str, object]: ...


class Jobs:
    """Implements drivers.base.Jobs."""

    def __init__(
        self,
        machine: Machine,
        homes: Homes,
        processes: HomeProcesses,
        urls: Callable[[ArchiveKey], Urls],
        threads: Threads,
    ) -> None:
        self._machine = machine
        self._processes = processes
        self._layout: Layout = machine.layout
        self._homes = homes
        self._urls = urls
        self._run = threads.run
        self._taken_back: set[OpId] = set()

    async def observe(self) -> Mapping[WorkspaceId, Sequence[JobSeen]]:
        return await self._run(self._list)

    async def archive(self, workspace_id: WorkspaceId, op_id: OpId, volume: VolumeRef) -> None:
        key = archive_key(workspace_id, op_id)
        await self._run(self._start, "archive", workspace_id, op_id, key, volume)

    async def restore(self, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef) -> None:
        await self._run(self._start, "restore", workspace_id, op_id, key, volume)

    async def remove(self, workspace_id: WorkspaceId, op_id: OpId) -> None:
        await self._run(self._remove, workspace_id, op_id)

    def _list(self) -> Mapping[WorkspaceId, Sequence[JobSeen]]:
        found: dict[WorkspaceId, list[JobSeen]] = {}
        for record in job_records(self._layout):
            identity = WorkspaceId(UUID(record.content["workspace_id"]))
            seen = _seen(record)
            if seen.state is not JobState.RUNNING and record.op_id not in self._taken_back:
                self._taken_back.add(record.op_id)
                self._take_back(record)  # now: a later change would be one since the archive was read back
            if seen.state is JobState.SUCCEEDED and record.content["verb"] == "archive":
                seen = replace(seen, in_use=self._in_use(identity, record))
            found.setdefault(identity, []).append(seen)
        return found

    def _in_use(self, workspace_id: WorkspaceId, record: Record) -> str:
        """Who else has the home open that the job has read."""
        home = self._homes.find(workspace_id)
        if home is None or home.uid != record.content["uid"]:
            return ""
        others = self._processes.others(home)
        return "" if others is None else others[0]

    def _start(self, verb: str, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, volume: VolumeRef) -> None:
        with self._layout.locked(str(workspace_id)):
            folder = self._layout.job(op_id)
            if Record.read(folder, _RECORD) is not None:
                return
            home = self._homes.named(workspace_id, volume)
            if is_used(self._layout, workspace_id):
                raise Refused(f"The instance of workspace {workspace_id} is using its home.")
            if is_busy(self._layout, workspace_id):
                raise Refused(f"Another storage job is using the home of workspace {workspace_id}.")
            if verb == "restore":  # an archive frees more than it takes
                self._machine.reserve.check()
            self._processes.end(home)
            if verb == "archive":
                if (others := self._processes.others(home)) is not None:
                    raise ActionFailed(others[0])  # what they write after it was read would be in no archive
                archived_homes.begin(home, op_id)
            urls = self._urls(key)
            archives = _folder_of(urls.archive_url)
            if archives is not None:
                self._grant(archives, home.user, verb)
            record = self._write_down(verb, workspace_id, op_id, key, home)
            try:
                self._machine.launch(self._job(record, home, urls, archives))
            except ActionFailed:
                self._clear(record)
                raise

    def _write_down(self, verb: str, workspace_id: WorkspaceId, op_id: OpId, key: ArchiveKey, home: Home) -> Record:
        folder = self._layout.job(op_id)
        draft = self._layout.draft(folder)
        (draft / "out").mkdir(mode=0o700)
        if self._machine.is_root:
            os.chown(draft / "out", home.user, home.user)
        content = {
            "workspace_id": str(workspace_id),
            "op_id": str(op_id),
            "verb": verb,
            "archive_key": key,
            "incarnation": home.incarnation,
            "uid": home.uid,
            "mark": new_token(),
        }
        write_json(draft / _RECORD, content)
        draft.rename(folder)
        return Record(folder, content)

    def _job(self, record: Record, home: Home, urls: Urls, archives: Path | None) -> Launch:
        sandboxed = self._machine.bwrap is not None
        out = _OUT if sandboxed else str(record.folder / "out")
        request = {
            "verb": record.content["verb"],
            "op_id": str(record.op_id),
            "directory": HOME if sandboxed else str(home.path),
            "archive_url": urls.archive_url,
            "meta_url": urls.meta_url,
            "archive_key": record.content["archive_key"],
            "store": dict(urls.store),
            "marker_path": f"{out}/marker",
            "result_path": f"{out}/result",
        }
        binds = [Bind(home.path, HOME, writable=True), Bind(record.folder / "out", _OUT, writable=True)]
        if archives is not None and archives.is_dir():
            binds.append(Bind(archives, str(archives), writable=record.content["verb"] == "archive"))
        code = self._machine.job_code
        environment = {"HOME": HOME, "LANG": "C.UTF-8", "PATH": os.defpath}
        view = View(
            binds=[*binds, *self._machine.base_binds(), *code.binds],
            environment={**environment, "PYTHONPATH": ":".join(code.places)},
            command=[str(self._machine.python), "-B", "-P", "-m", "storage_job"],
            host_network=archives is None,
            etc=self._machine.etc_files(network=archives is None),
        )
        return Launch(
            folder=record.folder,
            mark=record.mark,
            view=view,
            user=home.user,
            plain=[str(self._machine.python), "-B", "-P", "-m", code.plain_module],
            plain_environment={**environment, "PYTHONPATH": ":".join(code.plain_places)},
            plain_folder=Path("/"),
            input=json.dumps(request),
            cgroup=job_name(record.op_id),
        )

    def _grant(self, folder: Path, user: int, verb: str) -> None:
        """As root: the job runs as the home's owner, who must be able to use this one archive's folder."""
        try:
            if verb == "archive":
                folder.mkdir(parents=True, exist_ok=True)
            self._hand_over(folder, user)
        except OSError as error:
            kind = ActionFailed if error.errno in _IN_THE_WAY else Unreachable  # which concerns the whole store
            raise kind(f"The archive's folder {folder} cannot be used: {error.strerror}.") from error

    def _take_back(self, record: Record) -> None:
        """As root: what an archive holds is nobody's but ours, also once another workspace has the same user id."""
        try:
            folder = _folder_of(self._urls(ArchiveKey(record.content["archive_key"])).archive_url)
            if folder is not None:
                self._hand_over(folder, os.geteuid())
        except (OSError, DriverError) as error:
            log.warning("an archive's folder stays its workspace's", job=str(record.op_id), why=str(error))

    def _hand_over(self, folder: Path, user: int) -> None:
        if not self._machine.is_root or not folder.is_dir():
            return
        for entry in (folder, *folder.iterdir()):
            found = entry.lstat()
            # A link to a file that somebody else has elsewhere must not be a way to get it.
            if (found.st_uid, found.st_gid) == (user, user):
                continue  # given again it would count as changed
            if entry == folder or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1):
                os.chown(entry, user, user, follow_symlinks=False)

    def _remove(self, workspace_id: WorkspaceId, op_id: OpId) -> None:
        with self._layout.locked(str(workspace_id)):
            record = Record.read(self._layout.job(op_id), _RECORD)
            if record is not None and UUID(record.content["workspace_id"]) == workspace_id:
                self._clear(record)

    def _clear(self, record: Record) -> None:
        record.tree().kill()
        self._take_back(record)
        self._taken_back.discard(record.op_id)
        if self._machine.cgroups is not None:
            self._machine.cgroups.remove(job_name(record.op_id))
        grave = self._layout.discard(record.folder)
        if grave is not None:
            remove_tree(grave)


def _seen(record: Record) -> JobSeen:
    alive = record.tree().is_working()
    path = record.folder / "out" / "result"  # read after: a job that is seen to have ended has said all
    result = read_report(path)
    state = {"done": JobState.SUCCEEDED, "failed": JobState.FAILED}.get(str(result.get("state")))
    if state is None:
        state = JobState.RUNNING if alive else JobState.FAILED
    elif alive:
        state = JobState.RUNNING  # it has said its last word, and is about to end
    failed = state is JobState.FAILED
    marker = result.get("restore_marker") if state is JobState.SUCCEEDED else None
    died = _end_of(record) if failed and "message" not in result else ""
    return JobSeen(
        op_id=record.op_id,
        state=state,
        volume_uid=str(record.content["uid"]),
        restore_marker=ArchiveKey(marker) if isinstance(marker, str) else None,
        error=_REASONS.get(str(result.get("reason")), ErrorReason.ACTION_FAILED),
        message=str(result.get("message") or died),
        progress_at=_time_of(path),
        bytes_done=_count(result.get("bytes_done")),
        files_done=_count(result.get("files_done")),
    )


def _end_of(record: Record) -> str:
    """Of a job that ended without a report."""
    words = last_words(record.folder / "log", 3)
    return f"The job ended. {log_ends(words)}" if words.strip() else "The job was killed."


def _time_of(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.lstat().st_mtime, UTC)
    except (FileNotFoundError, OverflowError, ValueError):
        return None


def _count(said: object) -> int:
    return said if isinstance(said, int) else 0


def _folder_of(url: str) -> Path | None:
    """The folder of an archive in a folder store; None for any other store."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)).parent if parts.scheme == "file" else None
