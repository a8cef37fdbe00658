"""The data directory: everything `codehub up` keeps, and the lock that lets one process at a time use it.

    lock      held for the life of the process; says who holds it     secrets/  one 0600 file each, never leaves us
    runtime/  the servers' programs, one folder per version           logs/     one file per server
    postgres/ valkey/  the servers' data, theirs to own               run/      their sockets
    web/      the socket between the public port and the API

As root the folder is made 0711, because servers under another account must pass through it; otherwise 0700. An existing
folder keeps its mode: it may be the wrong one. Every folder inside has a mode of its own.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from codehub.errors import StartError

OTHER_FOLDER = "Choose a folder of your own with CODEHUB_DATA_DIR."
NEEDED_BYTES = 32 << 20  # PostgreSQL begins a new file of 16 MB whenever one is full
_SECRET_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Any of these shows that a folder which is not empty is ours; a restored backup need not have the lock.
_OURS = ("lock", "secrets", "postgres")


class InUse(StartError):
    """Another CodeHub runs on the data directory."""


def default_data_dir() -> Path:
    """`~/.codehub`; for root a place that the servers' account can reach, since no one else may enter root's home."""
    if os.geteuid() == 0:
        return Path("/var/lib/codehub")
    try:
        return Path.home() / ".codehub"
    except RuntimeError:
        raise StartError("You have no home folder to keep data in.", OTHER_FOLDER) from None


def _generate() -> str:
    return secrets.token_urlsafe(32)


class DataDir:
    """An open data directory: no other process has it while this one does."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self.runtime = path / "runtime"
        self.logs = path / "logs"
        self.run = path / "run"
        self.web = path / "web"
        self._secrets = path / "secrets"
        self._lock = lock
        self._creating = threading.Lock()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Create the folder if need be and lock it, or say in one line why that is impossible."""
        try:
            path = path.expanduser()
        except RuntimeError:
            raise StartError(f"{path} names the home of a user who does not exist.", OTHER_FOLDER) from None
        path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() below needs a folder that exists
        try:
            _make(path, 0o711 if os.geteuid() == 0 else 0o700)
            path = path.resolve()
            _check_is_ours(path)
            lock = _take_lock(path)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(f"The data directory {path} cannot be used: {reason}.", OTHER_FOLDER) from error
        opened = cls(path, lock)
        try:
            opened._prepare()
        except BaseException:
            opened.close()
            raise
        return opened

    def close(self) -> None:
        """Let the next process have it."""
        if self._lock >= 0:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def publish_url(self, url: str, login_base: str | None = None) -> None:
        """Tell whoever tries to start a second CodeHub here where the first one is; where login links lead to, too."""
        _describe_holder(self._lock, url, login_base)

    def secret(self, name: str, generate: Callable[[], str] = _generate) -> str:
        """The secret of that name, made on first use and the same ever after."""
        if not _SECRET_NAME.fullmatch(name):
            raise ValueError(f"not a secret's name: {name!r}")
        path = self._secrets / name
        try:
            with self._creating:
                if not path.exists():
                    write_durably(path, generate())
            path.chmod(0o600)
            value = path.read_text().strip()
        except (OSError, ValueError) as error:
            raise StartError(f"The secret {path} cannot be read: {error}.", "Restore it from a backup.") from error
        if not value:
            raise StartError(f"The secret {path} is empty.", "Restore it from a backup.")
        return value

    def is_full(self) -> bool:
        """Whether a server that is started now would run out of room on its way."""
        try:
            return self.free_bytes() < NEEDED_BYTES
        except OSError:  # a disk that has gone is not full
            return False

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free

    def no_room(self, needed: int = NEEDED_BYTES) -> str:
        """A clause."""
        free = self.free_bytes() >> 20
        return f"only {free} MB are free on the disk of {self.path}, and CodeHub needs {needed >> 20} MB to start"

    def _prepare(self) -> None:
        try:
            _describe_holder(self._lock, None)
            for folder, mode in ((self._secrets, 0o700), (self.logs, 0o700), (self.runtime, 0o755)):
                _make(folder, mode)
                folder.chmod(mode)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(f"The data directory {self.path} cannot be written: {reason}.", OTHER_FOLDER) from error


def _make(folder: Path, mode: int) -> None:
    """What is above it and not there is made, too, passable: the servers' account goes through."""
    if not folder.parent.exists():
        _make(folder.parent, 0o755)
    try:
        folder.mkdir()
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(0, "a file of that name is in the way") from None
    else:
        folder.chmod(mode)  # whatever the umask says


def _check_is_ours(path: Path) -> None:
    """A folder chosen by mistake (a home, a checkout) must not be filled with our files."""
    found = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")} - {"lost+found"}
    if found and not found.intersection(_OURS):
        raise StartError(f"{path} holds other files and is not a CodeHub data directory.", OTHER_FOLDER)


def _take_lock(path: Path) -> int:
    lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder_of(lock)
        os.close(lock)
        raise InUse(
            f"Another CodeHub is already running on {path}{holder}.",
            "Use that one, stop it first, or choose another folder with CODEHUB_DATA_DIR.",
        ) from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def _holder_of(lock: int) -> str:
    try:
        holder = json.loads(os.pread(lock, 4096, 0))
        parts = [f"pid {int(holder['pid'])}"]
        if holder.get("url"):
            parts.append(str(holder["url"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return ""  # it has the lock, but has not written its name yet
    return f" ({', '.join(parts)})"


def _describe_holder(lock: int, url: str | None, login_base: str | None = None) -> None:
    text = json.dumps({"pid": os.getpid(), "url": url, "login_base": login_base}).encode()
    os.ftruncate(lock, 0)
    os.pwrite(lock, text, 0)


def write_durably(path: Path, text: str) -> None:
    """All of it or nothing, also after a power cut: a half-written password would lock us out for good."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename inside `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
