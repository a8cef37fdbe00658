"""A migration whose table is in use: nobody is held up behind it for long, and it succeeds once the table is free."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

from codehub.db import migrate
from codehub.errors import StartError
from tests.support import eventually

BEFORE = "0010"  # 0011 changes the table `tokens`
WAITS = """
SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE datname = current_database() AND application_name = 'codehub migrate' AND NOT granted
"""
LOCK_SECONDS = 2.0
BUSY_SECONDS = 3.0  # what a busy machine may add


@pytest.fixture
def older(empty_database: str) -> str:
    migrate.upgrade(empty_database, BEFORE)
    return empty_database


@contextmanager
def reading(database: str) -> Iterator[psycopg.Connection]:
    """As a backup does: it reads, and goes on."""
    with psycopg.connect(database, application_name="some backup") as conn:
        conn.execute("SELECT count(*) FROM tokens")
        yield conn


def waits(conn: psycopg.Connection) -> bool:
    return conn.execute(WAITS).fetchone() != (0,)


@pytest.mark.exhaustive
def test_others_are_not_held_up_and_it_succeeds_once_the_table_is_free(older: str) -> None:
    with (
        ThreadPoolExecutor(1) as thread,
        psycopg.connect(older, autocommit=True) as looking,
        psycopg.connect(older, autocommit=True) as other,
        reading(older) as holder,
    ):
        other.execute("SET statement_timeout = '20s'")
        done: Future[None] = thread.submit(migrate.upgrade, older)
        longest = 0.0
        for _ in range(3):  # attempts
            eventually(lambda: waits(looking), "it waits for the table")
            at = time.monotonic()
            other.execute("SELECT count(*) FROM tokens")  # comes after the migration, and so waits behind it
            longest = max(longest, time.monotonic() - at)
        assert longest < LOCK_SECONDS + BUSY_SECONDS
        assert not done.done()
        assert migrate.schema_version(older) == BEFORE
        holder.rollback()
        done.result(60)
    assert migrate.schema_version(older) == migrate.newest_version()


def test_it_gives_up_in_the_end_and_says_who_is_in_the_way(older: str) -> None:
    with reading(older) as holder:
        pid = holder.info.backend_pid
        with pytest.raises(StartError) as refused:
            migrate.upgrade(older, locked_seconds=1)
    assert "could not be migrated within 1 seconds, because its tables are in use." in refused.value.message
    assert f"that of some backup (pid {pid}, " in refused.value.message
    assert "nothing was changed" in refused.value.hint
    assert migrate.schema_version(older) == BEFORE
    migrate.upgrade(older)


def test_it_can_be_told_to_stop_waiting(older: str) -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as thread, psycopg.connect(older, autocommit=True) as looking, reading(older):
        done = thread.submit(migrate.upgrade, older, stop=stop)
        eventually(lambda: waits(looking), "it waits for the table")
        stop.set()
        done.result(20)
    assert migrate.schema_version(older) == BEFORE


def test_it_tries_again_after_a_deadlock(older: str) -> None:
    """Somebody who has a table that it still needs asks for one that it has already."""
    with ThreadPoolExecutor(1) as thread, psycopg.connect(older, autocommit=True) as looking:
        with psycopg.connect(older) as other:
            other.execute("SET deadlock_timeout = '1h'")  # it is the migration that finds it, and gives way
            other.execute("LOCK TABLE workspaces IN ROW EXCLUSIVE MODE")
            done = thread.submit(migrate.upgrade, older)
            eventually(lambda: waits(looking), "it waits for the workspaces")
            other.execute("SELECT count(*) FROM tokens")
        done.result(60)
    assert migrate.schema_version(older) == migrate.newest_version()
