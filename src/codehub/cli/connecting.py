"""Which server a command speaks to, and as whom: CODEHUB_URL and CODEHUB_TOKEN, else what `codehub login` stored.

A token goes to its own server and to no other: CODEHUB_TOKEN to the one that CODEHUB_URL names, a stored one to the one
that made it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from codehub import __version__
from codehub.cli import credentials
from codehub.cli.exits import CommandError, Exit

if TYPE_CHECKING:
    from codehub.client import Client

USER_AGENT = f"codehub/{__version__}"


def current_url() -> str | None:
    """The server's address, if one is known."""
    given = os.environ.get("CODEHUB_URL")
    return valid_url(given, "CODEHUB_URL: ") if given else credentials.load().current


def valid_url(text: str, where: str = "") -> str:
    from codehub.client.http import tidy_url

    try:
        return tidy_url(text)
    except ValueError as error:
        raise CommandError(f"{where}{error}", exit_code=Exit.USAGE) from None


def current_token(url: str) -> str | None:
    """The token for this server, if there is one."""
    named, given = os.environ.get("CODEHUB_URL"), os.environ.get("CODEHUB_TOKEN")
    if named and given and valid_url(named, "CODEHUB_URL: ") == url:
        return given
    login = credentials.load().servers.get(url)
    return login.token if login else None


def current_login() -> tuple[str, str]:
    """The server's address and the token for it. Raises CommandError when nobody is logged in."""
    if os.environ.get("CODEHUB_TOKEN") and not os.environ.get("CODEHUB_URL"):
        raise CommandError(
            "CODEHUB_TOKEN is set, but not the server that it is for.", "Set CODEHUB_URL, too.", exit_code=Exit.USAGE
        )
    url = current_url()
    if url is None:
        raise CommandError("You are not logged in.", "Log in with: codehub login URL", exit_code=Exit.NOT_ALLOWED)
    token = current_token(url)
    if token is None:
        raise CommandError(
            f"You are not logged in to {url}.", f"Log in with: codehub login {url}", exit_code=Exit.NOT_ALLOWED
        )
    return url, token


@contextmanager
def connected(*, timeout: float | None = None) -> "Iterator[Client]":
    """A client of the current server. Raises CommandError when nobody is logged in."""
    from codehub.client import Client
    from codehub.client.http import TIMEOUT

    url, token = current_login()
    try:
        client = Client(url, token, user_agent=USER_AGENT, timeout=timeout or TIMEOUT)
    except ValueError as error:
        raise CommandError(str(error), exit_code=Exit.USAGE) from None
    with client:
        yield client
