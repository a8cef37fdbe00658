"""Creating what an archive names, and nothing outside the volume.

Everything is made relative to an open folder that was itself reached one component at a time, without following
symbolic links, and must not exist before: a second entry of the same name, or one below something that is no folder
of this archive, is Corrupted.
"""

import errno
import os
import stat

from .home import FOLDER_FLAGS, KEPT_XATTRS, OURS, shown
from .protocol import Corrupted, JobFailed, TryAgain
from .tarformat import Entry
from .tarparse import parse_name

OPEN_FOLDERS = 128
KEPT_ON_THE_WAY = 64
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_HOSTILE = {
    errno.EEXIST: "is there twice",
    errno.ENOENT: "is in no folder of the archive",
    errno.ENOTDIR: "is below something that is no folder",
    errno.ELOOP: "leads through a symbolic link",
    errno.ENAMETOOLONG: "has a name that is too long",
    errno.EINVAL: "has an impossible name or value",
    errno.EFBIG: "is impossibly large",
    errno.EOVERFLOW: "has an impossible value",
    errno.ERANGE: "has an attribute whose name is too long",
    errno.E2BIG: "has an attribute that is too long",
}
_ACCESS_LIST = b"system.posix_acl_access"
_MISSING_XATTR = (errno.ENOTSUP, errno.EPERM, errno.EACCES)


def refusal(error: OSError, name: bytes) -> JobFailed:
    """What an error means that a hostile archive could have caused; all else may pass by itself."""
    if error.errno in _HOSTILE:
        return Corrupted(f"an entry {_HOSTILE[error.errno]}: {shown(name)}")
    return TryAgain(f"could not be restored: {shown(name)} ({error.strerror})")


class Folders:
    """The folders of a volume, opened when needed and kept open while they are in use."""

    def __init__(self, root_fd: int) -> None:
        self._root = root_fd
        self._open: dict[bytes, int] = {}
        self._last = b""
        self._last_fd = root_fd

    def fd(self, path: bytes) -> int:
        if path == self._last:
            return self._last_fd
        if not path:
            return self._root
        fd = self._open.pop(path, -1)
        if fd < 0:
            fd = self._reach(path)
        self._keep(path, fd)  # the last is the most recently used
        self._last, self._last_fd = path, fd
        return fd

    def _keep(self, path: bytes, fd: int) -> None:
        if len(self._open) >= OPEN_FOLDERS:
            os.close(self._open.pop(next(iter(self._open))))
        self._open[path] = fd

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])
        self._last, self._last_fd = b"", self._root

    def _reach(self, path: bytes) -> int:
        """From the nearest folder that is open, one component at a time."""
        above, _, rest = path.rpartition(b"/")
        names = [rest]
        while above and above not in self._open:
            above, _, rest = above.rpartition(b"/")
            names.append(rest)
        here, mine = (self._open[above], False) if above else (self._root, False)
        for number, name in enumerate(reversed(names), 1):
            try:
                below = os.open(name, FOLDER_FLAGS, dir_fd=here)
            finally:
                if mine:
                    os.close(here)
            here, mine = below, True
            above = above + b"/" + name if above else name
            if 0 < len(names) - number < KEPT_ON_THE_WAY:
                # Of a long way its end is kept, or leaving a very deep home folder by folder would take for ever.
                self._keep(above, here)
                mine = False
        return here


class Creator:
    """Makes entries; each thread has its own."""

    def __init__(self, root_fd: int) -> None:
        self.dropped = 0
        self._root = root_fd
        self._folders = Folders(root_fd)
        self._is_root = os.geteuid() == 0
        # What we make belongs to us by itself, unless the volume hands its own group down.
        self._ours = (0, os.getegid()) if os.fstat(root_fd).st_gid == os.getegid() else None

    def close(self) -> None:
        self._folders.close()

    def new_file(self, entry: Entry) -> int:
        folder, _, name = entry.name.rpartition(b"/")
        mode = 0o600 if entry.xattrs else entry.mode & 0o777  # who may not write may not set attributes
        return os.open(name, _NEW_FILE, mode, dir_fd=self._folders.fd(folder))

    def finish_file(self, fd: int, entry: Entry) -> None:
        """The owner first, because changing it takes setuid and capabilities away; the time last."""
        if self._is_root and (entry.uid, entry.gid) != self._ours:
            set_owner(fd, entry)
        if entry.xattrs:
            self._set_xattrs(fd, entry)
        if entry.xattrs or entry.mode & 0o7000:
            os.fchmod(fd, entry.mode)
        os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))

    def symlink(self, entry: Entry) -> None:
        if not entry.link:
            raise Corrupted(f"a symbolic link without a target: {shown(entry.name)}")
        folder, _, name = entry.name.rpartition(b"/")
        fd = self._folders.fd(folder)
        os.symlink(entry.link, name, dir_fd=fd)
        self._finish_name(fd, name, entry)

    def fifo(self, entry: Entry) -> None:
        folder, _, name = entry.name.rpartition(b"/")
        fd = self._folders.fd(folder)
        os.mkfifo(name, entry.mode & 0o777, dir_fd=fd)
        self._finish_name(fd, name, entry)

    def folder(self, entry: Entry) -> None:
        """Open to us alone until `finish_folder`."""
        folder, _, name = entry.name.rpartition(b"/")
        os.mkdir(name, 0o700, dir_fd=self._folders.fd(folder))

    def finish_folder(self, entry: Entry) -> None:
        fd = self._folders.fd(entry.name)
        if self._is_root:
            set_owner(fd, entry)
        self._set_xattrs(fd, entry)
        os.fchmod(fd, entry.mode)
        os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))

    def hard_link(self, entry: Entry) -> None:
        """To a regular file of this archive only: a link to a symbolic link could lead anywhere."""
        try:
            target = parse_name(entry.link)
        except Corrupted:
            raise Corrupted(f"a hard link leads out of the home: {shown(entry.name)}") from None
        folder, _, name = target.rpartition(b"/")
        from_fd = self._folders.fd(folder)
        if not name or not stat.S_ISREG(os.stat(name, dir_fd=from_fd, follow_symlinks=False).st_mode):
            raise Corrupted(f"a hard link to something that is no file: {shown(entry.name)}")
        to_folder, _, to_name = entry.name.rpartition(b"/")
        to_fd = self._folders.fd(to_folder)
        os.link(name, to_name, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)

    def _finish_name(self, fd: int, name: bytes, entry: Entry) -> None:
        if self._is_root:
            set_owner(name, entry, dir_fd=fd, follow_symlinks=False)
        os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=fd, follow_symlinks=False)

    def _set_xattrs(self, fd: int, entry: Entry) -> None:
        # An access list last: it may close the file to its owner, who then may set nothing else.
        for key, value in sorted(entry.xattrs.items(), key=lambda one: one[0] == _ACCESS_LIST):
            name = os.fsdecode(key)
            if not name.startswith(KEPT_XATTRS):
                raise Corrupted(f"an entry has an extended attribute that is never archived: {shown(entry.name)}")
            if not entry.name and key.startswith(OURS):
                continue
            try:
                os.setxattr(fd, name, value)
            except OSError as error:
                if error.errno not in _MISSING_XATTR:
                    raise
                self.dropped += 1


def set_owner(what: int | bytes, entry: Entry, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> None:
    try:
        os.chown(what, entry.uid, entry.gid, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
    except OSError as error:
        if error.errno == errno.EINVAL:  # nothing is wrong with the archive: this user namespace does not have them
            owner = f"{entry.uid}:{entry.gid}"
            raise TryAgain(f"its owner {owner} does not exist on this machine: {shown(entry.name)}") from error
        raise
