"""The user account the servers run under.

PostgreSQL refuses to run as root, so root hands both servers to an unprivileged account; anybody else runs them as
himself. The account always has a passwd entry, because initdb refuses a uid without one.

By default it is `codehub`, made by the first start as root: whatever else runs as `nobody` could read the files.
"""

import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from codehub.errors import StartError

OWN, SHARED = "codehub", "nobody"
DEFAULT_SERVER_USERS = (OWN, SHARED)
NOT_OWN = (
    f"The embedded servers run as {SHARED}: whatever else runs as {SHARED} can read the database's files. "
    f"Make an account for them (useradd --system {OWN}) and start again."
)
_PLACES = "/usr/sbin:/sbin:/usr/bin:/bin"
_SECONDS = 30


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int
    is_ours: bool
    """Whether it is the account CodeHub itself runs under, so that nothing has to be changed to become it."""

    def succeeds(self, owner: int) -> bool:
        """Whether this account takes over what `owner` has: the shared account's, of a version that had no other.

        A data directory that comes from another machine has a number that may be nobody's on this one.
        """
        if self.is_ours or self.name != OWN or owner in (0, self.uid):
            return False
        try:
            return pwd.getpwuid(owner).pw_name == SHARED
        except KeyError:
            return True


def server_account(wanted: str | None) -> Account:
    """Who runs the servers; `wanted` is the user's choice, which only root has."""
    if os.geteuid() != 0:
        return _own_account(wanted)
    for name in (wanted,) if wanted else DEFAULT_SERVER_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise StartError(
                f"The servers cannot run as {name}: PostgreSQL refuses to run as root.",
                "Name an unprivileged user.",
            )
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, is_ours=False)
    missing = wanted or " or ".join(DEFAULT_SERVER_USERS)
    raise StartError(
        f"There is no user {missing} to run the servers as.",
        "Create it (useradd --system codehub) or name another one.",
    )


def provide(wanted: str | None, progress: Callable[[str], None]) -> bool:
    """As root: make the account where it is missing and nobody chose another. False if the shared one must do."""
    if os.geteuid() != 0 or wanted or _is_known(OWN):
        return True
    progress(f"Making the system account {OWN} for the servers")
    return any(_run(command) and _is_known(OWN) for command in _commands())


def _commands() -> Sequence[Sequence[str]]:
    """Debian's and Red Hat's, and BusyBox's."""
    group = ("--no-user-group", "--gid", OWN) if _is_group(OWN) else ("--user-group",)
    shell = shutil.which("nologin", path=_PLACES) or "/bin/false"
    nowhere = "/nonexistent"
    return (
        ("useradd", "--system", *group, "--no-create-home", "--home-dir", nowhere, "--shell", shell, OWN),
        ("adduser", "-S", "-D", "-H", "-h", nowhere, "-s", shell, OWN),
    )


def _run(command: Sequence[str]) -> bool:
    program = shutil.which(command[0], path=_PLACES)
    if program is None:
        return False
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(  # noqa: S603 - ours
            [program, *command[1:]], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False,
            env={"PATH": _PLACES, "LC_ALL": "C"}, start_new_session=True,
        )  # fmt: skip
        # Another first start may just have made it.
        return done.returncode == 0 or _is_known(OWN)
    return False


def _is_known(name: str) -> bool:
    with suppress(KeyError):
        return pwd.getpwnam(name).pw_uid != 0
    return False


def _is_group(name: str) -> bool:
    with suppress(KeyError):
        return bool(grp.getgrnam(name))
    return False


def _own_account(wanted: str | None) -> Account:
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise StartError(
            f"The user id {uid} has no name on this machine, and PostgreSQL refuses to run without one.",
            "Add it to /etc/passwd, or name external servers in DATABASE_URL and REDIS_URL.",
        ) from None
    if wanted and wanted != entry.pw_name:
        raise StartError(
            f"{entry.pw_name} cannot run the servers as {wanted}: only root can.",
            "Leave that setting out.",
        )
    return Account(entry.pw_name, uid, os.getegid(), is_ours=True)
