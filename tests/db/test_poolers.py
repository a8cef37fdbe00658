"""A pooler that does not keep sessions is refused by one sentence, at every way of starting; one that keeps them works.

With the real PgBouncer.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from codehub.db import migrate
from codehub.db.connecting import connect
from codehub.db.poolers import require_sessions
from codehub.embedded.accounts import server_account
from codehub.errors import StartError
from tests.cli.codehub import failing, running
from tests.support import eventually, free_port, missing

REFUSED = "does not keep sessions"


@pytest.fixture
def place() -> Iterator[Path]:
    folder = Path("/tmp") / f"ch-pooler-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def pooled(database: str, place: Path, mode: str, **settings: object) -> Iterator[str]:
    """The same database through a PgBouncer; its URL."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        missing("pgbouncer", "apt-get install pgbouncer")
    server, port = conninfo_to_dict(database), free_port()
    target = " ".join(
        f"{name}={server[name]}" for name in ("host", "port", "user", "password", "dbname") if name in server
    )
    lines = {
        "listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "any", "pool_mode": mode,
        "max_client_conn": 200, "default_pool_size": 40, "logfile": place / "log", **settings,
    }  # fmt: skip
    given = place / "pgbouncer.ini"
    text = "\n".join(f"{name} = {value}" for name, value in lines.items())
    given.write_text(f"[databases]\nours = {target}\n[pgbouncer]\n{text}\n")
    command = [program, str(given)]
    if os.geteuid() == 0:  # as the servers themselves, whose socket only they can reach
        account = server_account(None).name
        command = [program, "-u", account, str(given)]
        shutil.chown(place, account)
        shutil.chown(given, account)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = make_conninfo("", host="127.0.0.1", port=port, user="anybody", password="x", dbname="ours")
    try:
        eventually(lambda: _answers(url), "PgBouncer answers")
        yield url
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(10)


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(url, connect_timeout=5):
        return True
    return False


@pytest.mark.parametrize(
    ("mode", "settings"),
    [
        ("transaction", {}),
        ("transaction", {"server_round_robin": 1, "min_pool_size": 2}),
        ("transaction", {"default_pool_size": 1}),
        ("statement", {}),
    ],
    ids=str,
)
def test_one_that_does_not_keep_sessions_is_refused(
    database: str, place: Path, mode: str, settings: dict[str, object]
) -> None:
    with pooled(database, place, mode, **settings) as url:
        for work in (migrate.upgrade, migrate.require_newest):
            with pytest.raises(StartError, match=REFUSED):
                work(url)
    with psycopg.connect(database) as conn:
        assert conn.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)


def test_one_without_a_second_session_is_told_of(database: str, place: Path) -> None:
    with (
        pooled(database, place, "session", default_pool_size=1) as url,
        connect(url, as_program="test") as conn,
        pytest.raises(StartError, match="gave no session"),
    ):
        require_sessions(conn, url, seconds=0.5)


def test_a_command_says_it_in_one_line(database: str, place: Path, server_redis: str) -> None:
    with pooled(database, place, "transaction") as url:
        address = _as_url(url)
        code, (line,) = failing("coordinator", DATABASE_URL=address, REDIS_URL=server_redis)
    assert code == 1
    assert REFUSED in line
    assert "pool_mode = session" in line


def test_one_that_keeps_sessions_works(empty_database: str, place: Path, server_redis: str) -> None:
    with pooled(empty_database, place, "session") as url:
        given = {"DATABASE_URL": _as_url(url), "REDIS_URL": server_redis}
        with running(place / "d", place / "out", **given) as codehub:
            eventually(codehub.is_ready, "it is ready", 60)
            assert "Username   admin" in codehub.printed


def _as_url(conninfo: str) -> str:
    found = conninfo_to_dict(conninfo)
    return f"postgresql://{found['user']}:{found['password']}@{found['host']}:{found['port']}/{found['dbname']}"
