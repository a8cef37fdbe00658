"""`codehub up` on a data directory that is not where, or not what, it was at its last start.

Moved on one machine, or restored where it was: it goes on, and its processes must have ended. Where it may be a copy of
one that is still in use, a person says which it is: on a terminal by answering, elsewhere by --moved or --copied.
A copy lets go of everything that the original started, and uses nothing outside that the original uses.
"""

import fcntl
import os
import sys
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import typer

from codehub.cli import terminal
from codehub.cli.running import say
from codehub.config import Settings
from codehub.drivers import places
from codehub.drivers.load import workspaces_folder
from codehub.drivers.process import detaching
from codehub.drivers.process.layout import Layout
from codehub.embedded import postgres
from codehub.embedded.datadir import DataDir
from codehub.embedded.directory import Directory, Verdict, shared, verdict
from codehub.errors import StartError
from codehub.model.workspace import InstanceBackend

_MOST_NAMED = 5
_OTHERS_ENGINE = {InstanceBackend.DOCKER, InstanceBackend.K8S}
_CHOICES = "--moved if the original is not used any more, --copied if it is"


class Relocation(StrEnum):
    """What a person says became of the directory."""

    MOVED = "moved"
    COPIED = "copied"


def ask(settings: Settings, path: Path) -> Relocation | None:
    """On a terminal, if it has to be asked. Before anything is started, since an answer may take its time."""
    if not (path / "lock").exists() or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    path = path.resolve()
    noted = Directory.noted(path)
    if noted is None or verdict(noted, Directory.now(path, _outside(settings, path))) is not Verdict.UNSURE:
        return None
    say(_what_was_found(noted, path))
    say(f"  moved   {noted.path} is not used any more: this one takes its place.")
    say("  copied  Both are used: this one becomes an installation of its own.")
    while (answer := typer.prompt(terminal.shown("Was it moved or copied?"))) not in set(Relocation):
        pass
    return Relocation(answer)


def check(settings: Settings, data: DataDir, answer: Relocation | None) -> None:
    """Raises StartError, with nothing changed, where this start could harm an original."""
    noted, now = Directory.noted(data.path), Directory.now(data.path, _outside(settings, data.path))
    if noted is None:
        now.note(data)
        return
    found = verdict(noted, now)
    if found is Verdict.UNSURE and answer is None:
        raise StartError(_what_was_found(noted, data.path), f"Start once with {_CHOICES}.")
    if found is not Verdict.SAME and answer is Relocation.COPIED:
        _become_another(settings, data, noted, now)
        return
    if found is not Verdict.SAME:
        _take_its_place(data, noted)
    if noted != now.called(noted.id):
        now.called(noted.id).note(data)


def _what_was_found(noted: Directory, path: Path) -> str:
    where = "was used on another machine" if noted.path == str(path) else f"was at {noted.path} at its last start"
    return f"The data directory {path} {where}; if it is a copy, starting it could stop the original's workspaces."


def _take_its_place(data: DataDir, noted: Directory) -> None:
    """The original has ended, and so has all that it started."""
    if noted.path != str(data.path) and _is_locked(Path(noted.path)):
        raise StartError(
            f"CodeHub is running on {noted.path}.", "Stop it first; if this is a copy, start with --copied."
        )
    layout = Layout(workspaces_folder(data.path))
    places.check_workspaces(data.path, layout)
    if living := detaching.living(layout):
        pids = " ".join(str(found.pid) for found in living[:_MOST_NAMED])
        raise StartError(
            f"Workspaces that were started from {noted.path} still run on the homes there (pid {pids}).",
            "Stop them there, bring over what they wrote and start again; if this is a copy, start with --copied.",
        )
    detaching.detach(layout)
    postgres.forget_server(data.path)
    say(f"This data directory was at {noted.path}; it is used from {data.path} now.")


def _become_another(settings: Settings, data: DataDir, noted: Directory, now: Directory) -> None:
    """The note comes last: until it is written, the next start does all of this again."""
    if common := shared(noted, now):
        raise StartError(
            f"A copy cannot use what its original uses: {', '.join(common)}.",
            "Give it others, with copies of what is in them, and start again.",
        )
    layout = Layout(workspaces_folder(data.path))
    places.check_workspaces(data.path, layout)
    detaching.detach(layout)
    if os.geteuid() == 0:
        detaching.own_homes_anew(layout, settings.process.user_range)
    places.forget_installation(data.path)
    postgres.forget_server(data.path)
    now.note(data)
    say(f"This data directory is a copy of {noted.path}; it is an installation of its own now.")


def _outside(settings: Settings, path: Path) -> dict[str, str]:
    """By setting: what names the thing, without passwords."""
    found = {}
    for name, url in (("DATABASE_URL", settings.database.url), ("REDIS_URL", settings.redis.url)):
        if url is not None:
            found[name] = _place_of(url.get_secret_value())
    store = settings.store
    if store.url is not None and not _is_inside(store.url, path):
        found["ARCHIVE_URL"] = " ".join((_place_of(store.url), store.endpoint or "", store.prefix))
    if _OTHERS_ENGINE & set(map(InstanceBackend, settings.backends.enabled)):
        # Without the setting the name is in the directory, and a copy draws another.
        found["CODEHUB_INSTALLATION"] = settings.docker.installation or f"drawn in {path}"
    return found


def _place_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_inside(url: str, path: Path) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "file" and Path(parts.path).is_relative_to(path)


def _is_locked(path: Path) -> bool:
    """Whether a CodeHub runs on it; nothing of it is changed."""
    with suppress(OSError):
        descriptor = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False
