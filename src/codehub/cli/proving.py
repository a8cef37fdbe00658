"""What a token may not do, making administrators and setting others' passwords, a session may: a short one, for the
password of whoever asks. It is asked for, or in CODEHUB_PASSWORD; the session ends with the command.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from codehub.cli import options, output
from codehub.cli.connecting import USER_AGENT, connected

if TYPE_CHECKING:
    from codehub.client import Client


@contextmanager
def in_session(*, from_stdin: bool) -> "Iterator[Client]":
    """A client in a new session of whoever is logged in."""
    with proven(from_stdin=from_stdin) as (session, _):
        yield session


@contextmanager
def proven(*, from_stdin: bool) -> "Iterator[tuple[Client, str]]":
    """… and their password. With --password-stdin that is the first line."""
    from codehub.client import ApiError, Client

    with connected() as client:
        me, url = client.session().user, client.url
    password = os.environ.get("CODEHUB_PASSWORD") or options.known_password(
        f"Your own password ({output.clean(me.username)})",
        from_stdin=from_stdin,
        instead="--password-stdin, or set CODEHUB_PASSWORD",
    )
    with Client(url, user_agent=USER_AGENT) as session:
        session.login(me.username, password)
        try:
            yield session, password
        finally:
            with suppress(ApiError):  # it ends by itself; what was done, or went wrong, is what counts
                session.logout()
