"""Our scripts as sandboxes see them: a copy that is compiled already.

Compiling them took a tenth of the start of a tiny workspace, each time: where CodeHub is installed nobody may have
compiled them (PYTHONDONTWRITEBYTECODE, a folder that cannot be written), and a sandbox can keep nothing. A copy is
never changed: another version of them, or of Python, has another name. So a workspace keeps those that it began with.
Those that nobody needs any more are removed (old_scripts.py); whoever may start something with one holds a lock on it.
"""

import fcntl
import hashlib
import os
import py_compile
import sys
import time
from contextlib import suppress
from pathlib import Path

from codehub.drivers.process.layout import Layout, remove_tree, sync_folder

_TRIES, _PAUSE_SECONDS = 5, 0.1


class Scripts:
    """Where they are, and there to stay until `close` or our end."""

    def __init__(self, scripts: Path, layout: Layout) -> None:
        self._lock: int | None = None
        for _ in range(_TRIES):
            self.path = compiled(scripts, layout)
            self._is_copy = self.path != scripts
            if not self._is_copy or self._is_held():
                return
            time.sleep(_PAUSE_SECONDS)  # it is just being removed

    def runnable(self, name: str) -> str:
        """What of them to run as a main program, whose source Python would compile each time."""
        found = _compiled_name(name)
        return found if self._is_copy and (self.path / found).is_file() else name

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _is_held(self) -> bool:
        try:
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(self._lock).st_ino == self.path.stat().st_ino:
                return True
        except OSError:  # it was renamed away; or it cannot be locked here, and then nobody removes it
            pass
        self.close()
        return False


def compiled(scripts: Path, layout: Layout) -> Path:
    """Where the copy is. The scripts themselves, if there is no room for one: then every start compiles them."""
    content = {path.name: path.read_bytes() for path in sorted(scripts.iterdir()) if path.is_file()}
    place = layout.scripts / _name_of(content)
    if not place.exists():
        with suppress(OSError):
            _make(content, place, layout)
    return place if place.exists() else scripts


def _compiled_name(name: str) -> str:
    """As Python itself looks for it there; not as it would here, where -O or PYTHONPYCACHEPREFIX may be given."""
    return f"__pycache__/{Path(name).stem}.{sys.implementation.cache_tag}.pyc"


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
            script.write_bytes(data)
            if script.suffix == ".py":
                # It belongs to this copy, whatever the times of files say.
                mode, to = py_compile.PycInvalidationMode.UNCHECKED_HASH, str(draft / _compiled_name(name))
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
