"""Where things are below the driver's folder, how they appear there at once and leave at once.

    homes/ws-ID-home/INCARNATION.UID/   a home; its name is its label, so both appear and go in one rename
    homes/ws-ID-home.INCARNATION.UID.*  what is noted of it: .whole, .archiving and .kept (homes.py, archived_homes.py)
    instances/ws-ID/                    instance.json, process.json, sandbox.json, log, ready
    jobs/ws-job-OP/                     job.json, process.json, sandbox.json, log, out/
    sockets/TOKEN/                      what one instance listens on (ide, ports, out); no token is used twice
    scripts/DIGEST/                     what we run as workspaces' users (scripts.py, job_code.py, old_scripts.py)
    trash/                              renamed here first, removed after (trash.py); what is here counts for nothing
    lost/UID                            of a home: its subreaper was killed (lost_subreapers.py)
    locks/                              held for the moment of a change, so that two processes never do the same
    cgroup                              what its control groups are named after, once it was moved (detaching.py)

A folder that is missing or that is not ours (a disk that is not mounted) is an outage, never an empty listing.
"""

import errno
import fcntl
import json
import os
import secrets
import stat
import subprocess
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from codehub.drivers.labels import uuid_of
from codehub.errors import StartError, Unreachable
from codehub.model.names import instance_name, job_name, volume_name
from codehub.model.workspace import OpId, WorkspaceId

_SIGN = "codehub-workspaces"
HOMES_SIGN = "codehub-homes"  # in homes/, which may be a disk of its own
_SIGNED = "homes-signed"  # beside it, where it still is when that disk is not
_STRIPES = 1024  # so that sixteen starts at once rarely wait for one another
_LOCK_SECONDS = 20.0
_POLL_SECONDS = 0.01
_SOCKET_PATH_BYTES = 107
_TOKEN_BYTES = 8
TOKEN_LENGTH = _TOKEN_BYTES * 2
_REPORT_BYTES = 1 << 16
_REMOVED_AT_ONCE = 100
_NO_REPORT = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENXIO}  # … nor one that can be read


class Layout:
    """The folder of one installation. Nothing in it is made or changed except by its driver."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.homes = root / "homes"
        self.instances = root / "instances"
        self.jobs = root / "jobs"
        self.sockets = root / "sockets"
        self.scripts = root / "scripts"
        self.trash = root / "trash"
        self.locks = root / "locks"
        self.cgroup_file = root / "cgroup"

    def prepare(self) -> None:
        """Make what is missing of a new folder; a folder in use is left as it is."""
        if len(os.fsencode(self.sockets_of("x" * TOKEN_LENGTH) / "ports")) > _SOCKET_PATH_BYTES:
            raise StartError(
                f"The path {self.root} is too long for the sockets of workspaces.",
                "Choose a shorter one with CODEHUB_DATA_DIR.",
            )
        self.make_folders()

    def make_folders(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self.root.chmod(0o711)
            self._make_homes()
            for folder in (self.instances, self.jobs, self.sockets, self.trash, self.locks):
                folder.mkdir(exist_ok=True)
                folder.chmod(0o700)
            self.scripts.mkdir(exist_ok=True)
            self.scripts.chmod(0o711)  # read by workspaces' users, where there is no sandbox
            sign = self.root / _SIGN
            if not sign.exists():
                write_durably(sign, secrets.token_hex(_TOKEN_BYTES))
        except OSError as error:
            raise StartError(f"The folder {self.root} cannot be used: {error.strerror}.") from error

    def _make_homes(self) -> None:
        """Once: a disk that is not mounted today must not be mistaken for an empty one."""
        if (self.root / _SIGNED).exists():
            return
        self.homes.mkdir(exist_ok=True)
        self.homes.chmod(0o711)
        is_upgrade = (self.root / _SIGN).exists()
        if is_upgrade and not any(self.homes.iterdir()):
            return  # which of the two it is, a later start knows
        write_durably(self.homes / HOMES_SIGN, "")
        write_durably(self.root / _SIGNED, "")

    def has_homes(self) -> bool:
        """Whether anybody's is there; yes where that cannot be known."""
        try:
            return any(name != HOMES_SIGN for name in os.listdir(self.homes))  # noqa: PTH208 - only the names are wanted
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def check_homes(self) -> None:
        """Raises Unreachable where the folder of the homes is not the one that was made."""
        self.installation()
        try:
            is_there = (self.homes / HOMES_SIGN).exists() or not (self.root / _SIGNED).exists()
        except OSError as error:
            raise Unreachable(f"The workspaces' folder {self.homes} cannot be read: {error.strerror}.") from error
        if not is_there:
            raise Unreachable(
                f"The homes of workspaces were in {self.homes}, and are not there.", "Is its disk mounted?"
            )

    def installation(self) -> str:
        """Names this folder apart from every other one on the machine."""
        try:
            return (self.root / _SIGN).read_text().strip()
        except OSError as error:
            raise Unreachable(f"The workspaces' folder {self.root} cannot be read: {error.strerror}.") from error

    def cgroup(self) -> str:
        """What its control groups are named after."""
        with suppress(FileNotFoundError):
            return self.cgroup_file.read_text().strip()
        return self.installation()

    def list(self, folder: Path) -> list[str]:
        """The names in one of our folders."""
        try:
            self.installation()
            return sorted(os.listdir(folder))  # noqa: PTH208 - only the names are wanted
        except OSError as error:
            raise Unreachable(f"The workspaces' folder {folder} cannot be read: {error.strerror}.") from error

    def home(self, workspace_id: WorkspaceId) -> Path:
        return self.homes / volume_name(workspace_id)

    def instance(self, workspace_id: WorkspaceId) -> Path:
        return self.instances / instance_name(workspace_id)

    def job(self, op_id: OpId) -> Path:
        return self.jobs / job_name(op_id)

    def sockets_of(self, token: str) -> Path:
        return self.sockets / token

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Nobody else changes this workspace meanwhile, in whatever process."""
        self.installation()
        stripe = f"{zlib.crc32(name.encode()) % _STRIPES:04}"
        # A coordinator of the version before, which may run beside ours during an upgrade, takes one of 64 for itself.
        coarse = f"{int.from_bytes(name.encode()[-4:], 'big') % 64:02}"
        with file_lock(self.locks / coarse, fcntl.LOCK_SH), file_lock(self.locks / stripe):
            yield

    @contextmanager
    def locked_users(self) -> Iterator[None]:
        with file_lock(self.locks / "users"):
            yield

    def draft(self, beside: Path) -> Path:
        """A folder that does not count yet; renamed to where it does when it is complete."""
        folder = self.trash / f"new-{beside.name}-{new_token()}"
        folder.mkdir(mode=0o700)
        return folder

    def discard(self, path: Path, *, durable: bool = True) -> Path | None:
        """Rename it away: from this moment there is none. Returns where it is to be removed from."""
        grave = self.trash / f"{path.name}-{new_token()}"
        try:
            path.rename(grave)
        except FileNotFoundError:
            return None
        if durable:
            sync_folder(path.parent)
        return grave

    def empty_trash(self) -> None:
        """Remove what was renamed away; what somebody is just making is younger than this and stays."""
        oldest = time.time() - _LOCK_SECONDS * 10
        found = []
        for path in list(self.trash.iterdir()):
            with suppress(FileNotFoundError):
                if not path.name.startswith("new-") or path.lstat().st_mtime < oldest:
                    found.append(path)
        for first in range(0, len(found), _REMOVED_AT_ONCE):
            remove_tree(*found[first : first + _REMOVED_AT_ONCE])


def new_token() -> str:
    return secrets.token_hex(_TOKEN_BYTES)


def is_token(name: str) -> bool:
    """Whether it has the form of one."""
    return len(name) == TOKEN_LENGTH and set(name) <= set("0123456789abcdef")


def parse_id(name: str, prefix: str, suffix: str = "") -> UUID | None:
    """The id in a name of exactly our form; None for anything else, which is not ours."""
    if not (name.startswith(prefix) and name.endswith(suffix)):
        return None
    return uuid_of(name[len(prefix) : len(name) - len(suffix)])


def remove_tree(*paths: Path) -> None:
    """Remove whatever is there; names and depths that Python's own remover cannot do included."""
    words = [str(path) for path in paths]
    command = ("rm", "-rf", "--one-file-system", "--", *words)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
    if done.returncode != 0 and os.geteuid() != 0:
        # A folder without permissions cannot be emptied, even by its owner.
        subprocess.run(("chmod", "-R", "u+rwX", "--", *words), capture_output=True, check=False)  # noqa: S603, S607
        subprocess.run(command, capture_output=True, check=False)  # noqa: S603


def write_durably(path: Path, text: str, mode: int = 0o600) -> None:
    """All of it or nothing, also after a power cut."""
    write_at_once(path, text, mode, durable=True)


def write_at_once(path: Path, text: str, mode: int = 0o600, *, durable: bool) -> None:
    """All of it or nothing for whoever reads it; also after a power cut, if it is to be durable."""
    draft = path.with_name(f".{path.name}-{new_token()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fchmod(file.fileno(), mode)
        if durable:
            os.fsync(file.fileno())
    draft.replace(path)
    if durable:
        sync_folder(path.parent)


def write_json(path: Path, content: Mapping[str, Any], *, durable: bool = True) -> None:
    write_at_once(path, json.dumps(dict(content)), durable=durable)


def read_json(path: Path) -> dict[str, Any] | None:
    """None if it is not there, or (a file that somebody else writes) not complete yet."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise Unreachable(f"{path} cannot be read: {error.strerror}.") from error
    return content if isinstance(content, dict) else None


def read_report(path: Path) -> dict[str, Any]:
    """What a job wrote, in a folder that is its own: no link is followed, nothing waited for, nothing huge read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _NO_REPORT:
            return {}
        raise Unreachable(f"{path} cannot be read: {error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return {}
        content = json.loads(os.read(descriptor, _REPORT_BYTES))
    except (ValueError, RecursionError):
        return {}
    except OSError as error:
        raise Unreachable(f"{path} cannot be read: {error.strerror}.") from error
    finally:
        os.close(descriptor)
    return content if isinstance(content, dict) else {}


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def file_lock(path: Path, kind: int = fcntl.LOCK_EX, seconds: float = _LOCK_SECONDS) -> Iterator[None]:
    """Unreachable if somebody else holds it for that long."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise Unreachable(f"The lock {path} cannot be opened: {error.strerror}.") from error
    try:
        until = time.monotonic() + seconds
        while not _taken(descriptor, kind):
            if time.monotonic() > until:
                # A frozen leader's, for example: it is waited for like any outage, not counted against the workspace.
                raise Unreachable(f"Another process has been holding the lock {path} for too long.")
            time.sleep(_POLL_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
