"""A run of the tests: its name, its folders, and the end of everything that it has started.

Whatever a test starts can be told by the run's name: it is in its environment, in the path of its program or of its
data, or behind its user id. To be in the run's folder, or to have been, is no sign: people look there, with a shell or
an editor. A run that ends, in whatever way it can notice, ends what is left of it. One that was killed can not: its
folders are locked no more, and the next run ends what it has left.

    python -m tests.lab.runs    do that now
"""

import atexit
import fcntl
import json
import os
import re
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

VARIABLE = "CODEHUB_TEST_RUN"
DISK, MEMORY = Path("/tmp"), Path("/dev/shm")
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_FOLDER = re.compile("ch-([a-z0-9]{4})")
_LOCK, _UNDO = ".lock", ".undo"
# Set by us alone, for programs that we start, and options that we name a program's folder with.
_OUR_VARIABLES = {b"CODEHUB_DATA_DIR", b"HOME", b"PGDATA"}
_OUR_OPTIONS = {b"-D", b"--bind", b"--dir", b"-dir", b"--ro-bind"}
_OF_A_WORKSPACE, _GUARD = b"CODEHUB_MARK", b"/codehub/embedded/guard.py"
_ROOM_BYTES = 4 << 30
_KINDLY_SECONDS, _MOST_SECONDS = 3.0, 20.0
# A test's workspaces run under user ids of its run, its worker, and what it is a test of.
_FIRST_USER, _RUNS, _WORKERS, _USERS_EACH = 1_900_100_000, 10_000, 16, 256

_locks: list[int] = []  # held for as long as this process lives


@dataclass(frozen=True)
class Run:
    """One of them."""

    name: str

    @property
    def folders(self) -> list[Path]:
        return [place / f"ch-{self.name}" for place in (DISK, MEMORY)]

    @property
    def users(self) -> range:
        """The user ids of its workspaces."""
        number = sum(_LETTERS.index(letter) * len(_LETTERS) ** place for place, letter in enumerate(self.name))
        first = _FIRST_USER + number % _RUNS * _WORKERS * _USERS_EACH
        return range(first, first + _WORKERS * _USERS_EACH)

    def users_of(self, worker: int) -> range:
        first = self.users.start + worker % _WORKERS * _USERS_EACH
        return range(first, first + _USERS_EACH)

    def new_folder(self, place: Path = DISK) -> Path:
        """One that everybody may enter, with a path so short that a socket fits in it."""
        while True:
            folder = place / f"ch-{self.name}" / _word(3)
            with suppress(FileExistsError):
                folder.mkdir()
                folder.chmod(0o755)
                return folder

    def in_memory(self) -> Path:
        """The same for servers that nobody cuts the power of; an ordinary one where there is no room for programs."""
        with suppress(OSError):
            room = os.statvfs(MEMORY)
            if not room.f_flag & os.ST_NOEXEC and room.f_bavail * room.f_frsize > _ROOM_BYTES:
                return self.new_folder(MEMORY)
        return self.new_folder()

    def undo(self, command: Sequence[str]) -> None:
        """To be run when it is over and this was not done: for what is neither a process, a mount nor a file."""
        with (self.folders[0] / _UNDO).open("a") as file:
            file.write(json.dumps(list(command)) + "\n")

    def end(self) -> list[str]:
        """End everything that is left of it but for this process, and remove its files: what was ended."""
        folders = self.own_folders()
        found = {pid: _command(pid) for pid in self.processes(folders)}
        _tell(found, signal.SIGTERM, signal.SIGCONT)
        began = time.monotonic()
        while left := list(self.processes(folders)):
            if time.monotonic() > began + _KINDLY_SECONDS:
                _tell(left, signal.SIGKILL)
            if time.monotonic() > began + _MOST_SECONDS:
                break
            time.sleep(0.05)
        for mount in reversed(self.mounts(folders)):
            subprocess.run(["umount", "--lazy", str(mount)], check=False, stderr=subprocess.DEVNULL)
        if self.folders[0] in folders:
            self._undo_all()
            self._remove_cgroups()
        if mounted := self.mounts(folders):  # what is removed there may be anybody's
            sys.stderr.write(f"==> nothing of the test run {self.name} is removed: {mounted[0]} is mounted still\n")
        else:
            _remove_all(folders)
        return [command for command in found.values() if command]

    def own_folders(self) -> list[Path]:
        """Those that we have made. Anybody can make one of such a name, or a link: what is in there is not ours."""
        return [folder for folder in self.folders if _is_own(folder)]

    def processes(self, folders: Sequence[Path] | None = None) -> Iterator[int]:
        """All that live, but for this one and those that it was started by."""
        paths = [bytes(folder) + b"/" for folder in (self.folders if folders is None else folders)]
        spared = _ancestors()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                pid = int(entry.name)
                if pid in spared or _state(entry) in "ZX":
                    continue
                if entry.stat().st_uid in self.users or _is_of(entry, self.name, tuple(paths)):
                    yield pid

    def mounts(self, folders: Sequence[Path] | None = None) -> list[Path]:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
        found = [_path(line.split()[4]) for line in lines]
        return [
            each
            for each in found
            if any(each.is_relative_to(folder) for folder in (self.folders if folders is None else folders))
        ]

    def _remove_cgroups(self) -> None:
        """Of workspaces: `codehub-INSTALLATION/ws-ID`, as their driver would have, had it stopped them."""
        for depth in ("*", "*/*", "*/*/*"):
            for sign in self.folders[0].glob(f"{depth}/codehub-workspaces"):
                with suppress(OSError):
                    for top in _cgroups():
                        group = top / f"codehub-{sign.read_text().strip()}"
                        for each in (*group.glob("*/"), group):
                            each.rmdir()

    def _undo_all(self) -> None:
        with suppress(FileNotFoundError):
            for line in (self.folders[0] / _UNDO).read_text().splitlines():
                subprocess.run(json.loads(line), check=False, capture_output=True, timeout=60)


def current() -> Run:
    """This process's, or that of whoever has started it; a new one if there is none."""
    name = os.environ.get(VARIABLE)
    if name is None:
        name = _word(4)
        while not _claim(Run(name)):
            name = _word(4)
        os.environ[VARIABLE] = name
        atexit.register(_at_exit, Run(name), os.getpid())
    return Run(name)


def _at_exit(run: Run, pid: int) -> None:
    if os.getpid() == pid:  # a copy of this process has neither begun the run nor ends it
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        run.end()


def sweep() -> dict[Run, list[str]]:
    """End what is left of runs that were killed: what still ran of each."""
    ended: dict[Run, list[str]] = {}
    for run in sorted(_there(), key=lambda each: each.name):
        if run.name == os.environ.get(VARIABLE):
            continue
        with suppress(OSError):
            folders = run.own_folders()
            if folders and not any(_lives(folder) for folder in folders):
                ended[run] = run.end()
    return ended


def _there() -> set[Run]:
    """Those that have a folder, dead or alive, whosesoever they are."""
    found = [_FOLDER.fullmatch(each.name) for place in (DISK, MEMORY) for each in place.glob("ch-????")]
    return {Run(each[1]) for each in found if each}


def _claim(run: Run) -> bool:
    """Make its folders; False if somebody has such a name, or the user ids that belong to it."""
    if any(os.path.lexists(folder) for folder in run.folders):
        return False
    made: list[Path] = []
    locks: list[int] = []
    for folder in run.folders:
        with suppress(OSError):  # there may be no such place
            locks.append(_make_locked(folder))
            made.append(folder)
    # Only now: of two that are made at the same time at least one sees the other.
    if run.folders[0] not in made or any(other.users == run.users for other in _there() - {run}):
        for folder, lock in zip(made, locks, strict=True):
            shutil.rmtree(folder)
            os.close(lock)
        return False
    _locks.extend(locks)
    return True


def _make_locked(folder: Path) -> int:
    """Make it, locked from its first moment on: the lock. OSError if it is somebody's."""
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    made.chmod(0o755)
    lock = os.open(made / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        made.rename(folder)
    except OSError:
        os.close(lock)
        shutil.rmtree(made)
        raise
    return lock


def _is_own(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _lives(folder: Path) -> bool:
    with (folder / _LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _cgroups() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [Path(words[1]) for words in mounts if words[2] == "cgroup2"]


def _is_of(process: Path, name: str, paths: tuple[bytes, ...]) -> bool:
    """Whether its mark, its program or its data are the run's; `paths` end with a slash."""
    variables = dict(word.partition(b"=")[::2] for word in _read(process / "environ").split(b"\0"))
    if variables.get(VARIABLE.encode()) == name.encode():
        return True
    if any((variables.get(each, b"") + b"/").startswith(paths) for each in _OUR_VARIABLES):
        return True
    # A server's children have another command line, and the same program.
    words = _read(process / "cmdline").split(b"\0")
    programs, folders = [_link(process / "exe"), words[0]], []
    is_guard = any(word.endswith(_GUARD) for word in words)
    for before, word in pairwise(words):
        option, _, value = word.partition(b"=")
        if is_guard and before == b"--":  # what it is to become
            programs.append(word)
        elif before in _OUR_OPTIONS:
            folders.append(word)
        elif option in _OUR_OPTIONS:
            folders.append(value)
    if _OF_A_WORKSPACE in variables:
        folders.append(_link(process / "cwd"))
    return any((path + b"/").startswith(paths) for path in (*programs, *folders))


def _read(path: Path) -> bytes:
    """Nothing of what is not there any more, or not for us."""
    with suppress(OSError):
        return path.read_bytes()
    return b""


def _link(path: Path) -> bytes:
    with suppress(OSError):
        return bytes(path.readlink())
    return b""


def _ancestors() -> set[int]:
    """This process, and those that it was started by."""
    found, pid = set[int](), os.getpid()
    while pid:
        found.add(pid)
        try:
            pid = int(_stat(Path(f"/proc/{pid}"))[1])
        except OSError:
            break
    return found


def _path(escaped: bytes) -> Path:
    """As mountinfo writes it: a space is \\040."""
    return Path(os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), escaped)))


def _stat(process: Path) -> list[str]:
    """What follows its name: its state, its parent, …"""
    return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()


def _state(process: Path) -> str:
    return _stat(process)[0]


def _command(pid: int) -> str:
    with suppress(OSError):
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).replace("\0", " ").strip()
    return ""


def _tell(pids: Iterator[int] | Sequence[int] | dict[int, str], *numbers: signal.Signals) -> None:
    for pid in pids:
        for number in numbers:
            with suppress(OSError):
                os.kill(pid, number)


def _remove_all(folders: Sequence[Path]) -> None:
    for folder in folders:
        if (folder / _LOCK).exists():  # of whom it was is looked up there, so that goes last
            for each in folder.iterdir():
                if each.name != _LOCK:
                    _remove(each)
            _remove(folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _word(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def say_swept() -> None:
    """A line for each run that had left something."""
    for run, commands in sweep().items():
        sys.stderr.write(f"==> removed what the killed test run {run.name} had left: {len(commands)} processes\n")


if __name__ == "__main__":
    say_swept()
