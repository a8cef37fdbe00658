"""What is printed when CodeHub runs: where it is, how to log in, where the log is, how to stop it.

Lines above and below, none at the sides: an address can be copied as it stands, however wide the terminal is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from codehub import __version__
from codehub.cli import terminal
from codehub.services.accounts import FirstAdmin

_WIDTH = 78


class Kept(Enum):
    """Where a generated password is, if it is in no file."""

    SHOWN = "at a terminal that a person watches"
    NOWHERE = "it could not be written"


@dataclass(frozen=True, slots=True)
class Welcome:
    """`admin` is the administrator that this start has made; `login_url` is a one-time link, where there can be one."""

    url: str
    data_dir: Path
    log: Path
    admin: FirstAdmin | None = None
    password: Path | Kept = Kept.NOWHERE
    login_url: str | None = None
    has_links: bool = False  # whether `codehub login-link` can print one
    public_url: str | None = None

    def lines(self) -> Sequence[str]:
        rule = "─" * _WIDTH
        title = terminal.bold(f"CodeHub {__version__} is running.")
        return [rule, f" {title}", "", *(f"   {name:<11}{value}".rstrip() for name, value in self._facts()), rule]

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "URL", self.url
        if self.public_url is not None:
            yield "Public", self.public_url
        if self.login_url is not None:
            yield "Log in", self.login_url
            yield "", "(one click, works once, for 10 minutes, on this machine only)"
        elif self.has_links:
            yield "Log in", "with your password, or by the link that `codehub login-link` prints"
        if self.admin is not None:
            yield from credentials(self.admin, self.password)
        yield "Data", str(self.data_dir)
        yield "Log", str(self.log)
        yield "Stop", "Ctrl-C"


def credentials(admin: FirstAdmin, kept: Path | Kept) -> Iterator[tuple[str, str]]:
    """Of the administrator who was just made; the password is never shown again, and never logged."""
    yield "Username", admin.username
    if admin.password is None:
        yield "Password", "as in CODEHUB_ADMIN_PASSWORD"
    elif isinstance(kept, Path):
        yield "Password", f"in {kept}"
        yield "", "(delete that file once you have logged in)"
    elif kept is Kept.SHOWN:
        yield "Password", admin.password
        yield "", "(shown only now)"
    else:
        yield "Password", f"not kept; set one: codehub user reset-password {admin.username}"
