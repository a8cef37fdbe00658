"""Emptying a volume of whatever an interrupted restore left in it. What is mounted inside is never entered."""

import os
import stat

from .closed import CHANGE
from .home import KEPT_XATTRS, OURS, Folder, shown, walk
from .mounts import mount_id
from .protocol import TryAgain, Unarchivable


def empty_volume(root_fd: int) -> None:
    """Everything below the root goes, and the root's own extended attributes but for the driver's."""
    mount = mount_id(root_fd)
    try:
        _make_writable(root_fd)
        for folder in walk(root_fd, leave=lambda parent, name: os.rmdir(name, dir_fd=parent.fd)):
            if folder.path and mount_id(folder.fd) != mount:
                raise TryAgain(f"something is mounted inside the volume: {shown(folder.path)}")
            _empty_folder(folder)
    except Unarchivable as error:
        raise TryAgain(f"the volume cannot be emptied: {error}") from error
    except OSError as error:
        raise TryAgain(f"the volume cannot be emptied: {error}") from error
    for name in os.listxattr(root_fd) if _has_xattrs(root_fd) else []:
        if name.startswith(KEPT_XATTRS) and not name.startswith(OURS.decode()):
            os.removexattr(root_fd, name)


def _empty_folder(folder: Folder) -> None:
    folder.unlock(CHANGE)
    with os.scandir(folder.fd) as found:
        names = [(item.name, item.is_dir(follow_symlinks=False)) for item in found]
    for name, is_folder in names:
        if is_folder:
            folder.below.append(name)
        else:
            os.unlink(name, dir_fd=folder.fd)


def _make_writable(root_fd: int) -> None:
    status = os.fstat(root_fd)
    if os.geteuid() == status.st_uid and status.st_mode & 0o700 != 0o700:
        os.fchmod(root_fd, stat.S_IMODE(status.st_mode) | 0o700)


def _has_xattrs(fd: int) -> bool:
    try:
        os.listxattr(fd)
    except OSError:
        return False
    return True
