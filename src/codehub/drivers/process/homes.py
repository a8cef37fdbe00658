"""Homes: one folder per making of a volume, named for its incarnation and its uid.

Making one is a rename that the kernel refuses if a home is there already; removing one is a rename of exactly the
folder that was named. So neither a paused ex-leader nor a crash can replace, mix up or half delete a home.

As root every home has a user id of its own, which its workspace runs under: nothing of one workspace may touch another
one's files or processes, even where there is no sandbox.
"""

import os
import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from codehub.drivers.process.layout import Layout, new_token, parse_id, remove_tree, sync_folder
from codehub.drivers.process.quotas import Quotas, has_project
from codehub.errors import ActionFailed, Refused, Unreachable
from codehub.model.observation import VolumeSeen
from codehub.model.workspace import Incarnation, VolumeRef, WorkspaceId

_LABEL = re.compile(r"([0-9A-Za-z_-]{1,64})\.([0-9a-f]{16})")
# Files that are named for the home: no file system is too simple for them.
_WHOLE = ".whole"
_ARCHIVING = ".archiving"  # archived_homes.py
_KEPT = ".kept"
_ABSENT = VolumeSeen(exists=False, confirmed=True)


@dataclass(frozen=True, slots=True)
class Home:
    """A home that is there."""

    path: Path
    incarnation: Incarnation
    uid: str
    user: int  # the user id that owns it
    whole: bool  # a file beside it says so

    def is_named(self, volume: VolumeRef) -> bool:
        return self.incarnation == volume.incarnation and volume.uid in (None, self.uid)

    @property
    def seen(self) -> VolumeSeen:
        return VolumeSeen(
            exists=True, incarnation=self.incarnation, uid=self.uid, whole=self.whole, kept=_text_of(self.kept)
        )

    @property
    def mark(self) -> Path:
        return _beside(self.path, _WHOLE)

    @property
    def archiving(self) -> Path:
        """When the job of which operation began to read it."""
        return _beside(self.path, _ARCHIVING)

    @property
    def kept(self) -> Path:
        """Why it was not removed once it was archived."""
        return _beside(self.path, _KEPT)


class Homes:
    """The folders below homes/."""

    def __init__(self, layout: Layout, users: range | None, quotas: Quotas | None = None) -> None:
        self._layout = layout
        self._users = users
        self._quotas = quotas

    def list(self) -> Mapping[WorkspaceId, VolumeSeen]:
        return {workspace_id: home.seen for workspace_id, home in self.all()}

    def look(self, workspace_id: WorkspaceId) -> VolumeSeen:
        home = self.find(workspace_id)
        return home.seen if home else _ABSENT

    def find(self, workspace_id: WorkspaceId) -> Home | None:
        self._layout.check_homes()
        return _home_in(self._layout.home(workspace_id))

    def named(self, workspace_id: WorkspaceId, volume: VolumeRef) -> Home:
        """Exactly the home that was named."""
        home = self.find(workspace_id)
        if home is None:
            raise Refused(f"The home of workspace {workspace_id} is not there.")
        if not home.is_named(volume):
            raise Refused(f"The home of workspace {workspace_id} is another one than was named.")
        return home

    def create(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> None:
        target = self._layout.home(workspace_id)
        label = f"{incarnation}.{new_token()}"
        if _LABEL.fullmatch(label) is None:
            raise Refused(f"{incarnation!r} cannot be written on a home.")
        if self._is_made(workspace_id, incarnation):
            return
        with self._layout.locked_users():
            user = self._free_user()
            draft = self._layout.draft(target)
            try:
                home = draft / label
                home.mkdir(mode=0o700)
                if user is not None:
                    os.chown(home, user, user)
                    if self._quotas is not None:
                        self._quotas.adopt(home, user)
                draft.chmod(0o711)
                sync_folder(draft)
                draft.rename(target)  # fails if there is a home; an empty leftover is replaced
                sync_folder(target.parent)
            except OSError as error:
                remove_tree(draft)
                if not self._is_made(workspace_id, incarnation):
                    raise ActionFailed(f"A home cannot be made in {target}: {error.strerror}.") from error

    def limit(self, home: Home) -> None:
        """Have it the size that the setting names now; one that was made without a limit stays so."""
        if self._quotas is None or not has_project(home.path, home.user):
            return
        try:
            self._quotas.limit(home.path, home.user)
        except OSError as error:
            raise Unreachable(f"The size of {home.path} cannot be limited: {error.strerror}.") from error

    def mark_whole(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        """The caller holds the workspace's lock."""
        home = self.named(workspace_id, volume)
        try:
            home.mark.touch(mode=0o600)
            sync_folder(home.mark.parent)
        except OSError as error:  # a full disk, for example: no fault of this workspace's
            raise Unreachable(f"{home.mark} cannot be written: {error.strerror}.") from error

    def delete(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        """The caller holds the workspace's lock and has seen that nothing uses it."""
        home = self.find(workspace_id)
        if home is None:
            return
        if not home.is_named(volume):
            raise Refused(f"The home of workspace {workspace_id} is another one than was named.")
        try:
            for note in (home.mark, home.kept, home.archiving):  # first: what is half removed is not whole
                note.unlink(missing_ok=True)
            grave = self._layout.discard(home.path)
        except OSError as error:
            raise ActionFailed(f"The home {home.path} cannot be removed: {error.strerror}.") from error
        with suppress(OSError):  # another home has taken the place meanwhile
            home.path.parent.rmdir()
        if grave is not None:
            threading.Thread(target=remove_tree, args=(grave,), name=f"remove {grave.name}", daemon=True).start()

    def _is_made(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> bool:
        home = self.find(workspace_id)
        if home is not None and home.incarnation != incarnation:
            raise Refused(f"Workspace {workspace_id} has a home of another incarnation.")
        return home is not None

    def all(self) -> Iterator[tuple[WorkspaceId, Home]]:
        self._layout.check_homes()
        for name in self._layout.list(self._layout.homes):
            found = parse_id(name, "ws-", "-home")
            home = _home_in(self._layout.homes / name) if found else None
            if found is not None and home is not None:
                yield WorkspaceId(found), home
            elif found is not None:  # whoever removed the home was killed before its folder went
                with suppress(OSError):
                    (self._layout.homes / name).rmdir()

    def _free_user(self) -> int | None:
        if self._users is None:
            return None
        taken = {home.user for _, home in self.all()}
        free = [user for user in self._users if user not in taken]
        if not free:
            raise ActionFailed("All user ids set aside for workspaces are taken.")
        return secrets.choice(free)  # rarely one that was just given back: files of its last user may lie somewhere


def _beside(home: Path, suffix: str) -> Path:
    return home.parent.with_name(f"{home.parent.name}.{home.name}{suffix}")


def _text_of(note: Path) -> str:
    try:
        return note.read_text()
    except FileNotFoundError:
        return ""


def _home_in(folder: Path) -> Home | None:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                match = _LABEL.fullmatch(entry.name)
                if match is not None and entry.is_dir(follow_symlinks=False):
                    user = entry.stat(follow_symlinks=False).st_uid
                    path = Path(entry.path)
                    return Home(path, Incarnation(match[1]), match[2], user, _beside(path, _WHOLE).exists())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreachable(f"The home {folder} cannot be read: {error.strerror}.") from error
    return None
