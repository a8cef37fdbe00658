"""A command's own session with PostgreSQL; and why there is none, in one line with a next step.

libpq says it only as text, and its text can hold parts of a URL that it misread, such as the end of a password with an
unescaped `@`. So the text is only looked at, never shown.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from codehub.errors import StartError

CONNECT_SECONDS = 10

Connection = psycopg.AsyncConnection[TupleRow]

# What an unescaped password spills into does not look like this, or is not a host that exists.
_HOST = re.compile(r"[\w.,:/ \[\]-]{1,120}")
_PORT = re.compile(r"[\d,]*")
_NAME = re.compile(r"[\w.() -]{1,63}")

# What libpq or the server said → what we say, with {server}, {user} and {database}; the first match wins.
_CAUSES = (
    (
        r"password authentication failed|no password supplied",
        "PostgreSQL at {server} refused the password of user {user}.",
        "Correct the user or the password in the database URL.",
    ),
    (
        r"no pg_hba.conf entry",
        "PostgreSQL at {server} does not accept user {user} from this machine.",
        "Add an entry to its pg_hba.conf.",
    ),
    (
        r"database .* does not exist",
        "PostgreSQL at {server} has no database {database}.",
        "Create it (createdb {database}) or correct the database URL.",
    ),
    (r"role .* does not exist", "PostgreSQL at {server} has no user {user}.", "Correct the user in the database URL."),
    (
        r"too many (clients|connections)|remaining connection slots",
        "PostgreSQL at {server} has no connection left.",
        "Close other programs' connections or raise its max_connections.",
    ),
    (
        r"starting up|shutting down|recovery mode",
        "PostgreSQL at {server} is starting or stopping.",
        "Try again in a moment.",
    ),
    (
        r"SSL|certificate",
        "PostgreSQL at {server} and this machine do not agree on TLS.",
        "Check sslmode and sslrootcert.",
    ),
    (
        r"resolve|translate host name|Name or service not known|nodename",
        "The host of PostgreSQL, {server}, is not known.",
        "Correct the host in the database URL.",
    ),
    (r"timeout|timed out", "PostgreSQL at {server} did not answer in time.", "Check the network and the firewall."),
    (
        r"refused|No such file|unreachable|No route",
        "PostgreSQL at {server} cannot be reached.",
        "Start it, or correct the host and the port in the database URL.",
    ),
)


def connect(database_url: str, *, as_program: str) -> psycopg.Connection:
    """A session in which each statement commits by itself; StartError where there is none."""
    try:
        return psycopg.connect(
            database_url, connect_timeout=CONNECT_SECONDS, application_name=as_program, autocommit=True
        )
    except psycopg.Error as error:
        # Not chained: what libpq says stays here.
        raise connect_error(database_url, error) from None


@asynccontextmanager
async def session(database_url: str) -> AsyncIterator[Connection]:
    """A backup's or a restore's: each statement commits by itself, and it may be silent for long."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS * 2):
            conn: Connection = await psycopg.AsyncConnection.connect(
                database_url, autocommit=True, connect_timeout=CONNECT_SECONDS, application_name="codehub_backup"
            )
            # The dump may take long, and this session does nothing meanwhile.
            await conn.execute("SET idle_in_transaction_session_timeout = 0")
            await conn.execute("SET idle_session_timeout = 0")
            await conn.execute("SET timezone = 'UTC'")
    except TimeoutError:
        raise StartError("PostgreSQL did not answer in time.", "Check the network and the firewall.") from None
    except psycopg.Error as error:
        raise connect_error(database_url, error) from None
    async with conn:
        yield conn


def apart(database_url: str) -> tuple[str, str | None]:
    """The connection without its password, and the password: for programs, whose arguments everybody can read."""
    try:
        parts = conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:
        raise _not_a_url() from None
    password = parts.pop("password", None)
    if parts.pop("sslpassword", None):
        raise StartError("A TLS key with a password of its own cannot be used for this.", "Use one without.")
    return make_conninfo("", **parts), None if password is None else str(password)


def connect_error(database_url: str, error: psycopg.Error) -> StartError:
    """The sentence for a failed attempt to connect."""
    try:
        parts = conninfo_to_dict(database_url)
    except psycopg.ProgrammingError:
        return _not_a_url()
    host = str(parts.get("host") or parts.get("hostaddr") or "the default socket")
    port = str(parts.get("port") or "")
    user = str(parts.get("user") or "(default)")
    database = str(parts.get("dbname") or user)
    if not (_HOST.fullmatch(host) and _PORT.fullmatch(port) and _NAME.fullmatch(user) and _NAME.fullmatch(database)):
        return _not_a_url()
    server = f"{host}:{port}" if port else host
    said = str(error)
    for pattern, message, hint in _CAUSES:
        if re.search(pattern, said):
            names = {"server": server, "user": user, "database": database}
            return StartError(message.format(**names), hint.format(**names))
    if "invalid" in said:
        return _not_a_url()
    return StartError(f"PostgreSQL at {server} did not accept the connection.", "Its log says why.")


def _not_a_url() -> StartError:
    return StartError(
        "The database URL is not one that PostgreSQL understands.",
        "It looks like postgresql://user:password@host:5432/database; write special characters in the password as %XX.",
    )
