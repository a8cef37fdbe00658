"""The note that a restore is complete: its op_id, as an extended attribute of the volume's root.

Nothing shows up in the home. Where the file system has no user.* attributes (NFS, older tmpfs), the note is a file
outside the home if the request names one; else there is none, and a job that is run again restores again.
"""

import errno
import os
from pathlib import Path

from .closed import READ, WRITE, lent
from .folder import sync_folder

ATTRIBUTE = "user.codehub.restored-by"
_NO_ATTRIBUTES = (errno.ENOTSUP, errno.EPERM)


class Marker:
    """Where one restore notes that it is complete."""

    def __init__(self, root_fd: int, path: str | None) -> None:
        self._root = root_fd
        self._path = Path(path) if path else None

    def read(self) -> str | None:
        try:
            with lent(self._root, READ):  # its owner may have closed it, and attributes are for who may read and write
                return os.getxattr(self._root, ATTRIBUTE).decode(errors="replace")
        except OSError:
            pass
        try:
            return self._path.read_text().strip() if self._path else None
        except FileNotFoundError:
            return None

    def clear(self) -> None:
        """Before anything else changes: from here on the volume is not complete."""
        try:
            with lent(self._root, WRITE):
                os.removexattr(self._root, ATTRIBUTE)
            os.fsync(self._root)
        except OSError as error:
            if error.errno not in (*_NO_ATTRIBUTES, errno.ENODATA):
                raise
        if self._path and self._path.exists():
            self._path.unlink()
            sync_folder(self._path.parent)

    def write(self, op_id: str) -> None:
        """After everything else is on the disk."""
        try:
            with lent(self._root, WRITE):
                os.setxattr(self._root, ATTRIBUTE, op_id.encode())
        except OSError as error:
            if error.errno not in _NO_ATTRIBUTES:
                raise
            self._write_file(op_id)
        os.fsync(self._root)

    def _write_file(self, op_id: str) -> None:
        if self._path is None:
            return
        beside = self._path.with_name(self._path.name + ".new")
        with beside.open("w") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(op_id + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        sync_folder(self._path.parent)
