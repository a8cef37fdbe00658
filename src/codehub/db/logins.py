"""Logins of single parts: one that may be its part's role, and nothing else of the database.

`ensure` makes what is missing and leaves alone what works, so any number of processes may call it. The server never
sees a password in clear text. A login that has rights of its own is never changed: a typing mistake must not lock its
owner out.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier, Literal

from codehub.db.connecting import connect_error
from codehub.db.locks import AdvisoryLock
from codehub.db.pool import Role
from codehub.errors import StartError

_CONNECT_SECONDS = 10
_STATEMENT = "60s"  # other processes that do the same are waited for, too

_IS_MEMBER = "SELECT pg_has_role(current_user, %s, 'MEMBER')"
_IS_SOMEBODY = "SELECT rolsuper OR rolcreaterole OR rolname = session_user FROM pg_roles WHERE rolname = %s"


def ensure(database_url: str, login_url: str, role: Role) -> None:
    """Let `login_url` connect and act as `role`; `database_url` is the owner's. StartError when it cannot be done."""
    if _works(login_url, role):
        return
    name, password = _named(login_url)
    with _connected(database_url) as owner, owner.transaction():
        owner.execute("SELECT pg_advisory_xact_lock(%s)", [int(AdvisoryLock.MIGRATION)])
        _make(owner, name, password, role)
    with _connected(login_url):
        pass  # else the sentence says why not


def _works(login_url: str, role: Role) -> bool:
    try:
        with _connected(login_url) as conn:
            return conn.execute(_IS_MEMBER, [role.value]).fetchone() == (True,)
    except StartError:
        return False


def _named(login_url: str) -> tuple[str, str]:
    try:
        parts = conninfo_to_dict(login_url)
    except psycopg.ProgrammingError as error:
        raise connect_error(login_url, error) from None
    name, password = parts.get("user"), parts.get("password")
    if not name or not password:
        raise StartError("The URL of a part's login has no user or no password.", "Give it both: they are made so.")
    return str(name), str(password)


def _make(owner: psycopg.Connection, name: str, password: str, role: Role) -> None:
    found = owner.execute(_IS_SOMEBODY, [name]).fetchone()
    if found == (True,) or name in set(Role):
        raise StartError(
            f"The database user {name} cannot be the login of {role}: it has rights of its own.",
            "Choose another user in that URL, or correct its password.",
        )
    kept = owner.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    user = Identifier(name)
    verb = SQL("CREATE" if found is None else "ALTER")
    row = owner.execute("SELECT current_database()").fetchone()
    assert row is not None
    try:
        owner.execute(SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, user, Literal(kept)))
        owner.execute(SQL("GRANT {} TO {}").format(Identifier(role), user))
        owner.execute(SQL("GRANT CONNECT ON DATABASE {} TO {}").format(Identifier(row[0]), user))
    except psycopg.errors.InsufficientPrivilege:
        raise StartError(
            f"The owner of the database may not make the login {name}.",
            f"As an administrator: CREATE ROLE {name} LOGIN PASSWORD '…'; GRANT {role} TO {name}; "
            f"GRANT CONNECT ON DATABASE {row[0]} TO {name};",
        ) from None


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    try:
        conn = psycopg.connect(
            url, connect_timeout=_CONNECT_SECONDS, application_name="codehub migrate", autocommit=True
        )
    except psycopg.Error as error:
        # Not chained: libpq's own text can hold parts of a URL that it misread.
        raise connect_error(url, error) from None
    with conn:
        conn.execute(SQL("SET statement_timeout = {}").format(_STATEMENT))
        yield conn
