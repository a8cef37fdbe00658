"""What both servers are started with, and the folders they own."""

import asyncio
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codehub.embedded import guard
from codehub.embedded.accounts import Account
from codehub.embedded.datadir import DataDir
from codehub.embedded.process import uninterrupted
from codehub.errors import StartError

# sun_path in Linux' sockaddr_un is 108 bytes with its closing zero; other systems have less.
SOCKET_PATH_LIMIT_BYTES = 107 if sys.platform == "linux" else 103
POSTGRES_SOCKET = ".s.PGSQL.5432"
VALKEY_SOCKET = "valkey.sock"
# initdb puts its own path between double quotes and lets a shell read it; in a URL a comma begins another host.
_UNSAFE_SIGNS = frozenset('"$`\\\n\r,')
_SEARCH_SECONDS = 30.0


@dataclass(frozen=True)
class Host:
    data: DataDir
    account: Account
    durable: bool
    progress: Callable[[str], None]
    warn: Callable[[str], None]

    async def prepare(self) -> None:
        """Refuse what cannot work before anything is made; then make the folder for the sockets."""
        if bad := sorted(_UNSAFE_SIGNS & set(str(self.data.path))):
            raise StartError(
                f"The path of the data directory {str(self.data.path)!r} has signs in it that PostgreSQL cannot bear: "
                f"{' '.join(map(repr, bad))}.",
                "Choose another one with CODEHUB_DATA_DIR.",
            )
        longest = len(os.fsencode(self.data.run / POSTGRES_SOCKET))
        if longest > SOCKET_PATH_LIMIT_BYTES:
            raise StartError(
                f"The path of the data directory {self.data.path} is too long: "
                f"its sockets' would have {longest} bytes, and {SOCKET_PATH_LIMIT_BYTES} is the limit.",
                "Choose a shorter one with CODEHUB_DATA_DIR.",
            )
        if not self.account.is_ours:
            await self._check_reachable()
        self._own_sockets_folder()

    def own(self, folder: Path) -> None:
        """Make `folder` for the servers' account alone. One of another account is refused, or taken over as root.

        The caller has the claim to it: no server uses it.
        """
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            owner = folder.stat(follow_symlinks=False).st_uid
            if owner == os.geteuid() != self.account.uid and not any(folder.iterdir()):
                os.chown(folder, self.account.uid, self.account.gid, follow_symlinks=False)
                owner = self.account.uid
            elif self.account.succeeds(owner):
                self.progress(f"Handing {folder} over to the account {self.account.name}")
                take_over(folder, owner, self.account)
                owner = self.account.uid
        except OSError as error:
            raise StartError(
                f"The folder {folder} cannot be made: {(error.strerror or str(error)).lower()}."
            ) from error
        if owner != self.account.uid:
            raise StartError(
                f"{folder} belongs to the user {_name_of(owner)}, but the servers run as {self.account.name}.",
                f"Run them as {_name_of(owner)}, or hand the folder over (chown -R {self.account.name} {folder}).",
            )

    def _own_sockets_folder(self) -> None:
        """Nothing in it lasts, so it may change hands."""
        try:
            self.data.run.mkdir(mode=0o700, exist_ok=True)
            if not self.account.is_ours:
                os.chown(self.data.run, self.account.uid, self.account.gid, follow_symlinks=False)
            self.data.run.chmod(0o700)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(f"The folder {self.data.run} cannot be prepared: {reason}.") from error

    async def _check_reachable(self) -> None:
        """Find out by trying: modes alone do not tell, where there are access lists."""
        who = f"{self.account.uid}:{self.account.gid}"
        command = [sys.executable, "-I", guard.__file__, "search", who, str(self.data.path)]
        search = partial(subprocess.run, command, stdout=subprocess.PIPE, timeout=_SEARCH_SECONDS, check=False)
        barrier = (await uninterrupted(asyncio.to_thread(search))).stdout
        if barrier:
            raise StartError(
                f"The servers run as {self.account.name}, who may not enter {os.fsdecode(barrier)}.",
                "Choose a folder that user can reach with CODEHUB_DATA_DIR, such as /var/lib/codehub.",
            )


def take_over(folder: Path, owner: int, account: Account) -> None:
    """Give the account what is the owner's in there, and nothing else: he may have laid out links to other files.

    The folder itself comes last: a start that is interrupted here leaves it the owner's, and the next one goes on.
    """
    log = folder / "pg_wal"  # often on a disk of its own
    for top in (*([log.resolve()] if log.is_symlink() else []), folder):
        for _, folders, files, descriptor in os.fwalk(top, topdown=False):
            for name in (*folders, *files):
                if os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid == owner:
                    os.chown(name, account.uid, account.gid, dir_fd=descriptor, follow_symlinks=False)
        if top.stat(follow_symlinks=False).st_uid == owner:
            os.chown(top, account.uid, account.gid, follow_symlinks=False)


def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
