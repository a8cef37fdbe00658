"""A workspaces' folder that was copied or moved lets go of the processes that its records name.

What the records name may be the original's: adopted, it would be stopped here while people work there. The homes stay.
In a copy they get user ids of their own too, since ending a workspace may end everything under its user id.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from codehub.drivers.process.homes import Homes
from codehub.drivers.process.identity import Proc
from codehub.drivers.process.instances import job_records
from codehub.drivers.process.layout import Layout, new_token, write_durably
from codehub.drivers.process.looks import looks
from codehub.drivers.process.notes import RECORD
from codehub.drivers.process.records import Record

_SPEAK_OF_PROCESSES = ("instances", "jobs", "sockets", "lost", "self-check")


def living(layout: Layout) -> list[Proc]:
    """What the records name and still runs."""
    if not layout.root.is_dir():
        return []
    look = looks.fresh()
    return [found for record in _records(layout) for found in record.tree().members(look)]


def detach(layout: Layout) -> None:
    """Its processes are nobody's here any more, and its control groups have another name than the original's."""
    if not layout.root.is_dir():
        return
    for name in _SPEAK_OF_PROCESSES:
        layout.discard(layout.root / name)
    layout.make_folders()
    write_durably(layout.cgroup_file, new_token())


def own_homes_anew(layout: Layout, users: range) -> None:
    """As root, and nothing runs in them: every home of a user id set aside for workspaces gets another one."""
    if not layout.homes.is_dir():
        return
    homes = Homes(layout, users)
    taken = {home.user for _, home in homes.all()}
    free = iter(user for user in reversed(users) if user not in taken)
    for _, home in list(homes.all()):
        if home.user in users and (user := next(free, None)) is not None:
            _own(home.path, users, user)


def _records(layout: Layout) -> Iterator[Record]:
    for name in layout.list(layout.instances):
        if (record := Record.read(layout.instances / name, RECORD)) is not None:
            yield record
    yield from job_records(layout)


def _own(home: Path, users: range, user: int) -> None:
    """All that is of a workspace's user. One that is interrupted is done again by the next start."""
    for _, folders, files, descriptor in os.fwalk(home, topdown=False, follow_symlinks=False):
        for name in (*folders, *files):
            with suppress(FileNotFoundError):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                owner, group = (user if one in users else one for one in (found.st_uid, found.st_gid))
                os.chown(name, owner, group, dir_fd=descriptor, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_mode & (stat.S_ISUID | stat.S_ISGID):
                    os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=descriptor)  # chown has taken these
    os.chown(home, user, user, follow_symlinks=False)
