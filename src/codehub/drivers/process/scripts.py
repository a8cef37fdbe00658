"""Our scripts as sandboxes see them: a copy that is compiled already, and that every user can read.

Compiling them took a tenth of the start of a tiny workspace, each time: where CodeHub is installed nobody may have
compiled them (PYTHONDONTWRITEBYTECODE, a folder that cannot be written), and a sandbox can keep nothing. A copy is
never changed: another version of them, or of Python, has another name. So a workspace keeps those that it began with.
Those that nobody needs any more are removed (old_scripts.py); whoever may start something with one holds a lock on it.
"""

import fcntl
import hashlib
import os
import py_compile
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from codehub.drivers.process.layout import Layout, remove_tree, sync_folder

_TRIES, _PAUSE_SECONDS = 5, 0.1
_CACHE = "__pycache__"


class Copy:
    """Of the given files, by their names in it: readable for every user, and there to stay until `close` or our end."""

    def __init__(self, files: Mapping[str, Path], layout: Layout) -> None:
        self._lock: int | None = None
        self.path: Path | None = None
        for _ in range(_TRIES):
            self.path = _copied(files, layout)  # None: there is no room for one
            if self.path is None or self._is_held(self.path):
                return
            time.sleep(_PAUSE_SECONDS)  # it is just being removed

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _is_held(self, path: Path) -> bool:
        try:
            self._lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(self._lock).st_ino == path.stat().st_ino:
                return True
        except OSError:  # it was renamed away; or it cannot be locked here, and then nobody removes it
            pass
        self.close()
        return False


class Scripts:
    """Where they are."""

    def __init__(self, scripts: Path, layout: Layout) -> None:
        self._copy = Copy(_scripts_in(scripts), layout)
        self.path = self._copy.path or scripts
        self.close = self._copy.close

    def runnable(self, name: str) -> str:
        """What of them to run as a main program, whose source Python would compile each time."""
        found = _compiled_name(name)
        return found if self.path == self._copy.path and (self.path / found).is_file() else name


def compiled(scripts: Path, layout: Layout) -> Path:
    """Where the copy is. The scripts themselves, if there is no room for one: then every start compiles them."""
    return _copied(_scripts_in(scripts), layout) or scripts


def is_closed(*packages: Path) -> bool:
    """Whether others than its owner cannot read all of one, as where it was installed with a strict umask."""
    return any(map(is_closed_alone, chain.from_iterable(map(paths_in, packages))))


def is_closed_alone(path: Path) -> bool:
    """… or this one file or folder, whatever is in it."""
    mode = path.stat().st_mode
    needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return mode & needed != needed


def paths_in(folder: Path) -> Iterator[Path]:
    """It, and whatever is in it but what Python compiled."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != _CACHE]
        yield Path(place)
        # An editor's link may lead nowhere.
        yield from (path for name in names if (path := Path(place) / name).exists())


def _scripts_in(folder: Path) -> Mapping[str, Path]:
    return {path.name: path for path in folder.iterdir() if path.is_file()}


def _copied(files: Mapping[str, Path], layout: Layout) -> Path | None:
    content = {name: files[name].read_bytes() for name in sorted(files)}
    place = layout.scripts / _name_of(content)
    if not place.exists():
        with suppress(OSError):
            _make(content, place, layout)
    return place if place.exists() else None


def _compiled_name(name: str) -> str:
    """As Python itself looks for it there; not as it would here, where -O or PYTHONPYCACHEPREFIX may be given."""
    script = Path(name)
    return str(script.with_name(_CACHE) / f"{script.stem}.{sys.implementation.cache_tag}.pyc")


def _name_of(content: dict[str, bytes]) -> str:
    digest = hashlib.sha256(f"{sys.version} {sys.implementation.cache_tag}".encode())
    for name, data in content.items():
        digest.update(f"{name} {len(data)}\n".encode() + data)
    return digest.hexdigest()[:16]


def _make(content: dict[str, bytes], place: Path, layout: Layout) -> None:
    draft = layout.draft(place)
    try:
        for name, data in content.items():
            script = draft / name
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_bytes(data)
            if script.suffix == ".py":
                # It belongs to this copy, whatever the times of files say.
                mode, to = py_compile.PycInvalidationMode.UNCHECKED_HASH, str(draft / _compiled_name(name))
                with suppress(py_compile.PyCompileError):  # of a library, for another version of Python
                    py_compile.compile(str(script), to, doraise=True, optimize=0, invalidation_mode=mode)
        for folder, _, names in os.walk(draft):
            Path(folder).chmod(0o755)
            for name in names:
                with (Path(folder) / name).open("rb") as file:
                    os.fchmod(file.fileno(), 0o644)  # readable there, whatever the umask is here
                    os.fsync(file.fileno())
            sync_folder(Path(folder))
        draft.rename(place)  # fails if somebody else has just made it
        sync_folder(place.parent)
    except OSError:
        remove_tree(draft)
        raise
