"""A pooler between us and PostgreSQL must keep sessions: one connection of ours is one session of the server's.

The leader's lock, LISTEN and settings of a session are lost, or become somebody else's, where a pooler such as
PgBouncer lends a session for a transaction only (`pool_mode = transaction`). So that is refused before anything is set.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from codehub.db.connecting import connect
from codehub.errors import StartError

_OTHERS = 2  # each keeps one session busy, should the pooler lend them in turn
_ANSWER_SECONDS = 10.0
_HINT = "Set pool_mode = session for this database, or connect to PostgreSQL directly."


def require_sessions(conn: psycopg.Connection, database_url: str, seconds: float = _ANSWER_SECONDS) -> None:
    """Raises StartError. `conn` is fresh, and commits each statement by itself; `seconds` for each answer."""
    mine = _session_of(conn, seconds)
    if mine == conn.info.backend_pid:
        return  # PostgreSQL itself: a pooler tells clients a number of its own
    with ExitStack() as stack:
        for _ in range(_OTHERS):
            other = stack.enter_context(_other(database_url))
            if _session_of(other, seconds) == mine:
                raise _refusal()
        if _session_of(conn, seconds) != mine:
            raise _refusal()


@contextmanager
def _other(database_url: str) -> Iterator[psycopg.Connection]:
    """In a transaction, so that it keeps what it was lent."""
    conn = connect(database_url, as_program="codehub migrate")
    try:
        conn.autocommit = False
        yield conn
    finally:
        conn.close()


def _session_of(conn: psycopg.Connection, seconds: float) -> int:
    with _limited(conn, seconds):
        try:
            row = conn.execute("SELECT pg_backend_pid()").fetchone()
        except psycopg.Error as error:
            if "statement pooling" in str(error):
                raise _refusal() from None
            raise StartError(
                f"The connection pooler gave no session within {seconds:.0f} s.",
                "Raise its pool_size: every process of CodeHub needs up to DATABASE_POOL_SIZE sessions, and a few.",
            ) from None
    assert row is not None
    return int(row[0])


@contextmanager
def _limited(conn: psycopg.Connection, seconds: float) -> Iterator[None]:
    """A pooler that has no session left lets us wait for ever."""
    timer = threading.Timer(seconds, _hang_up, [conn.fileno()])
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _hang_up(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as end:
        end.shutdown(socket.SHUT_RDWR)


def _refusal() -> StartError:
    return StartError(
        "The connection pooler in front of PostgreSQL does not keep sessions (pool_mode transaction or statement),"
        " which CodeHub's locks and LISTEN need.",
        _HINT,
    )
