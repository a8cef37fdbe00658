"""What an installation remembers about its places, as small files in the data directory.

A place that was made once is never silently made again: a disk that is not mounted today must not be mistaken for an
empty one, or everything on it would look lost.
"""

import secrets
from pathlib import Path

from codehub.drivers.process.layout import Layout, write_durably
from codehub.errors import StartError, Unreachable

_STORE = "archive-store"
_WORKSPACES = "workspaces-made"
_INSTALLATION = "installation"
_TOKEN_BYTES = 6


def installation(data_dir: Path) -> str:
    """A name that no other installation has, drawn once."""
    path = data_dir / _INSTALLATION
    if not _is_there(path):
        _write(path, secrets.token_hex(_TOKEN_BYTES))
    return _read(path)


def known_installation(data_dir: Path) -> str | None:
    """The name, if one was drawn already."""
    path = data_dir / _INSTALLATION
    return _read(path) if _is_there(path) else None


def forget_installation(data_dir: Path) -> None:
    """The next one that is asked for is a new one."""
    try:
        (data_dir / _INSTALLATION).unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"{data_dir / _INSTALLATION} cannot be removed: {error.strerror}.") from error


def knows_store(data_dir: Path, url: str) -> bool:
    path = data_dir / _STORE
    return _is_there(path) and _read(path) == url


def remember_store(data_dir: Path, url: str) -> None:
    _write(data_dir / _STORE, url)


def check_workspaces(data_dir: Path, layout: Layout) -> None:
    """Raises StartError if homes were kept in this folder and it is gone, or another one is in its place."""
    mark = data_dir / _WORKSPACES
    if not _is_there(mark):
        return
    try:
        layout.check_homes()
        is_the_same = layout.installation() == _read(mark)
    except Unreachable:
        is_the_same = False
    if not is_the_same:
        raise StartError(
            f"The homes of workspaces were in {layout.root}, and are not there.",
            f"Is its disk mounted? If they are lost for good, remove {mark} and start again.",
        )


def has_workspaces(data_dir: Path) -> bool:
    """Whether processes were ever run from this data directory."""
    return _is_there(data_dir / _WORKSPACES)


def remember_workspaces(data_dir: Path, layout: Layout) -> None:
    mark = data_dir / _WORKSPACES
    if not _is_there(mark):
        _write(mark, layout.installation())


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # a folder that may not be entered, for one: what is in it is not gone
        raise StartError(f"{path} cannot be looked for: {(error.strerror or str(error)).lower()}.") from error


def _write(path: Path, text: str) -> None:
    try:
        write_durably(path, f"{text}\n")
    except OSError as error:
        raise StartError(f"{path} cannot be written: {error.strerror}.") from error


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError) as error:
        raise StartError(f"{path} cannot be read: {error}.", "Restore it from a backup.") from error
