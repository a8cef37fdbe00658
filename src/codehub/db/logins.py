"""Logins of single parts: one that may be its part's role, and nothing else of the database.

`ensure` makes what is missing and leaves alone what works, so any number of processes may call it. The server never
sees a password in clear text. A login is changed only if it is known to be this database's, by the comment on it, and
is nothing else: a typing mistake, or the same name in another installation on that server, must lock nobody out.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Composed, Identifier, Literal

from codehub.db import migrate
from codehub.db.connecting import connect, connect_error
from codehub.db.pool import Role
from codehub.errors import StartError

_STATEMENT = "60s"
_MARK = "login of CodeHub in the database "  # the comment on each, with the name of its database

# What it is a member of, whether it can do or owns anything beyond that, and whose it is.
_LOGIN = """
SELECT array(SELECT DISTINCT pg_roles.rolname::text
             FROM pg_auth_members JOIN pg_roles ON pg_roles.oid = roleid WHERE member = login.oid),
       rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls OR EXISTS (
           SELECT FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = login.oid AND deptype = 'o'),
       shobj_description(login.oid, 'pg_authid')
FROM pg_roles AS login WHERE rolname = %s
"""
_IS_THERE = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = %s)"


@dataclass(frozen=True, slots=True)
class _Login:
    """One that is on the server."""

    member_of: Sequence[str]
    is_more: bool
    comment: str | None

    def is_only(self, role: Role) -> bool:
        return not self.is_more and list(self.member_of) == [role.value]


def require_apart(login_urls: Sequence[str]) -> None:
    """StartError if two parts have the same user: it would get the rights of both."""
    names = [_named(url)[0] for url in login_urls]
    for name in names:
        if names.count(name) > 1:
            raise StartError(f"The database user {name} is the login of two parts.", "Give each URL a user of its own.")


def ensure(database_url: str, login_url: str, role: Role) -> None:
    """Let `login_url` connect and act as `role`; `database_url` is the owner's. StartError when it cannot be done."""
    name, password = _named(login_url)
    found = _entered(login_url, name)
    if found is not None and found.is_more:
        raise _somebody(name, role)
    works = found is not None and found.is_only(role)
    if found is not None and works and found.comment is not None:
        return
    with _connected(database_url) as owner:
        migrate.wait_for_others(owner)
        if works:
            _claim(owner, name)
            return
        with owner.transaction():
            _make(owner, name, password, role)
    with _connected(login_url):
        pass  # else the sentence says why not


def _entered(login_url: str, name: str) -> _Login | None:
    """Who it is, if the URL lets it in."""
    try:
        with _connected(login_url) as conn:
            return _look(conn, name)
    except StartError:
        return None


def _look(conn: psycopg.Connection, name: str) -> _Login | None:
    row = conn.execute(_LOGIN, [name]).fetchone()
    return _Login(*row) if row is not None else None


def _named(login_url: str) -> tuple[str, str]:
    try:
        parts = conninfo_to_dict(login_url)
    except psycopg.ProgrammingError as error:
        raise connect_error(login_url, error) from None
    name, password = parts.get("user"), parts.get("password")
    if not name or not password:
        raise StartError("The URL of a part's login has no user or no password.", "Give it both: they are made so.")
    return str(name), str(password)


def _claim(owner: psycopg.Connection, name: str) -> None:
    """Somebody else made it for us: from now on its password can be changed, if the owner may do that."""
    with suppress(psycopg.errors.InsufficientPrivilege):
        owner.execute(_comment(name, owner.info.dbname))


def _make(owner: psycopg.Connection, name: str, password: str, role: Role) -> None:
    found, database = _look(owner, name), owner.info.dbname
    if name in set(Role) or (found is not None and found.is_more):
        raise _somebody(name, role)
    if found is not None and not (found.is_only(role) and _is_ours(owner, found)):
        raise StartError(
            f"The database user {name} cannot be the login of {role}: it was there before, and is not this database's.",
            f"Choose another user in that URL, or correct its password. {_by_hand(name, role, database)}",
        )
    kept = owner.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    user = Identifier(name)
    verb = SQL("CREATE" if found is None else "ALTER")
    try:
        owner.execute(SQL("{} ROLE {} LOGIN PASSWORD {}").format(verb, user, Literal(kept)))
        owner.execute(_comment(name, database))
        owner.execute(SQL("GRANT {} TO {}").format(Identifier(role), user))
        owner.execute(SQL("GRANT CONNECT ON DATABASE {} TO {}").format(Identifier(database), user))
    except psycopg.errors.InsufficientPrivilege:
        raise StartError(
            f"The owner of the database may not make the login {name}.", _by_hand(name, role, database)
        ) from None


def _is_ours(owner: psycopg.Connection, found: _Login) -> bool:
    """It was made for this database, or for one that is gone."""
    if found.comment is None or not found.comment.startswith(_MARK):
        return False
    database = found.comment.removeprefix(_MARK)
    return database == owner.info.dbname or owner.execute(_IS_THERE, [database]).fetchone() == (False,)


def _comment(name: str, database: str) -> Composed:
    return SQL("COMMENT ON ROLE {} IS {}").format(Identifier(name), Literal(_MARK + database))


def _by_hand(name: str, role: Role, database: str) -> str:
    return (
        f"As an administrator: CREATE ROLE {name} LOGIN PASSWORD '…'; GRANT {role} TO {name}; "
        f"GRANT CONNECT ON DATABASE {database} TO {name};"
    )


def _somebody(name: str, role: Role) -> StartError:
    return StartError(
        f"The database user {name} cannot be the login of {role}: it has rights of its own.",
        "Choose another user in that URL, or correct its password.",
    )


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    try:
        with connect(url, as_program="codehub migrate") as conn:
            conn.execute(SQL("SET statement_timeout = {}").format(_STATEMENT))
            yield conn
    except psycopg.Error as error:
        what = error.diag.message_primary or type(error).__name__
        raise StartError(
            f"The logins of the parts could not be made: {what}.", "Run `codehub migrate` again."
        ) from error
