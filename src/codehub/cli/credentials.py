"""The tokens of this machine, one for each server: `~/.config/codehub/credentials.json`, for its owner only.

It is written as a whole or not at all, and by one command at a time. A password is never in it. CODEHUB_URL and
CODEHUB_TOKEN go before it.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from codehub.cli.exits import CommandError, Exit

if sys.platform != "win32":  # where nothing is locked, and the last one to write wins
    import fcntl

_MODE = 0o600
_LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Login:
    """One server's token; `token_id` is known of those that `codehub login` made."""

    token: str = field(repr=False)
    username: str = ""
    token_id: str | None = None


@dataclass(frozen=True, slots=True)
class Credentials:
    """All servers, and the one that commands speak to."""

    current: str | None = None
    servers: Mapping[str, Login] = field(default_factory=dict)

    def having(self, url: str, login: Login) -> "Credentials":
        return Credentials(url, {**self.servers, url: login})

    def without(self, url: str, token: str) -> "Credentials":
        """Without that token; another one for the same server stays."""
        if url in self.servers and self.servers[url].token != token:
            return self
        left = {name: login for name, login in self.servers.items() if name != url}
        current = self.current if self.current in left else next(reversed(left), None)
        return replace(self, current=current, servers=left)


def path() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    try:
        return Path(config).expanduser() / "codehub" / "credentials.json"
    except RuntimeError:
        raise CommandError(
            "You have no home folder to keep a token in.", "Set CODEHUB_URL and CODEHUB_TOKEN."
        ) from None


def load() -> Credentials:
    """What is stored; nothing when there is no file. One that others could read is closed to them."""
    file = path()
    try:
        stored = json.loads(file.read_text())
        if file.stat().st_mode & 0o077:
            file.chmod(_MODE)
        servers = {url: Login(**login) for url, login in stored["servers"].items()}
        return Credentials(stored["current"], servers)
    except FileNotFoundError:
        return Credentials()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CommandError(
            f"{file} is damaged.", "Remove it and log in again: codehub login URL.", exit_code=Exit.USAGE
        ) from None


def change(how: Callable[[Credentials], Credentials]) -> tuple[Credentials, Credentials]:
    """Before and after. What other commands have stored meanwhile is not lost: it is read anew right before."""
    with _locked():
        before = load()
        after = how(before)
        _save(after)
    return before, after


@contextmanager
def _locked() -> Iterator[None]:
    file = path().with_suffix(".lock")
    until = time.monotonic() + _LOCK_SECONDS
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, _MODE)
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}.") from error
    try:
        while sys.platform != "win32":
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise CommandError(f"Another command is writing {path()}.", "Try again in a moment.") from None
                time.sleep(0.05)
            except OSError as error:
                raise CommandError(f"{file} cannot be locked: {error.strerror}.") from error
        yield
    finally:
        os.close(descriptor)


def _save(credentials: Credentials) -> None:
    file = path()
    servers = {url: asdict(login) for url, login in credentials.servers.items()}
    text = json.dumps({"current": credentials.current, "servers": servers}, indent=2)
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(prefix=".credentials-", dir=file.parent)  # 0600 from the start
        try:
            with os.fdopen(descriptor, "w") as out:
                out.write(text + "\n")
                out.flush()
                os.fsync(out.fileno())
            Path(draft).replace(file)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}.") from error
