"""The user account the servers run under.

PostgreSQL refuses to run as root, so root hands both servers to an unprivileged account; anybody else runs them as
himself. The account always has a passwd entry, because initdb refuses a uid without one.
"""

import os
import pwd
from dataclasses import dataclass

from codehub.errors import StartError

# A dedicated account first: what runs as `nobody` may be shared with other services of the machine.
DEFAULT_SERVER_USERS = ("codehub", "nobody")


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int
    is_ours: bool
    """Whether it is the account CodeHub itself runs under, so that nothing has to be changed to become it."""


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
