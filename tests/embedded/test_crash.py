import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest
import redis
from tests.embedded.support import eventually, holding, postgres_pids, server_pids, valkey_pids

from codehub.embedded import DataDir, EmbeddedServers


def write(report: dict[str, str]) -> None:
    with psycopg.connect(report["database_url"]) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    with redis.from_url(report["redis_url"]) as client:
        client.set("kept", "7")


def check(database_url: str | None, redis_url: str | None) -> None:
    assert database_url
    assert redis_url
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (7,)
    with redis.from_url(redis_url) as client:
        assert client.get("kept") == b"7"


def test_killed_outright_its_servers_stop_properly(used: Path) -> None:
    with holding(used) as other:
        write(other.report())
        assert server_pids(used)
        other.kill()
        eventually(lambda: not server_pids(used), "both servers have gone")
    assert (used / "logs" / "postgres.log").read_text().rstrip().endswith("database system is shut down")
    assert "bye bye" in (used / "logs" / "valkey.log").read_text()
    with holding(used) as again:
        report = again.report()
        check(report["database_url"], report["redis_url"])
        again.finish()


async def test_killed_and_started_again_at_once(used: Path) -> None:
    with holding(used) as other:
        write(other.report())
        other.kill()
    with DataDir.open(used) as data:
        async with EmbeddedServers(data).running() as servers:
            check(servers.database_url, servers.redis_url)
    log = (used / "logs" / "postgres.log").read_text()
    assert "was not properly shut down" not in log


async def test_orphans_that_nobody_told_to_stop_are_stopped(used: Path) -> None:
    """As on a system without a parent-death signal: the servers outlive their CodeHub."""
    with holding(used) as other:
        write(other.report())
        frozen = {"PostgreSQL": postgres_pids(used), "Valkey": valkey_pids(used)}
        for pid in server_pids(used):
            os.kill(pid, signal.SIGSTOP)  # they cannot act on the signal that the kill below sends
        other.kill()
    earlier = set(server_pids(used))

    def progress(line: str) -> None:
        if waiting := re.fullmatch("Waiting for an earlier (.+) to stop", line):
            for pid in frozen.pop(waiting[1]):
                os.kill(pid, signal.SIGCONT)

    with DataDir.open(used) as data:
        async with EmbeddedServers(data, progress=progress).running() as servers:
            assert not earlier & set(server_pids(used))
            check(servers.database_url, servers.redis_url)
    assert not frozen


@pytest.fixture
def stranger(used: Path) -> "subprocess.Popen[bytes]":
    """A living process of the servers' own account that has nothing to do with them."""
    owner = (used / "postgres").stat()
    credentials = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.Popen(["sleep", "600"], cwd="/", **credentials)  # type: ignore[call-overload,no-any-return]


async def test_a_stale_pid_file_that_names_a_stranger(used: Path, stranger: "subprocess.Popen[bytes]") -> None:
    owner = (used / "postgres").stat()
    (used / "run").mkdir(exist_ok=True)
    text = f"{stranger.pid}\n{used / 'postgres'}\n1700000000\n5432\n{used / 'run'}\n\n\nready   \n"
    for path in (used / "postgres" / "postmaster.pid", used / "run" / ".s.PGSQL.5432.lock"):
        path.write_text(text)
        os.chown(path, owner.st_uid, owner.st_gid)
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(used / "run" / "valkey.sock"))
    try:
        with DataDir.open(used) as data:
            async with EmbeddedServers(data, durable=False).running() as servers:
                assert servers.database_url
                psycopg.connect(servers.database_url).close()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_an_empty_pid_file(used: Path) -> None:
    (used / "postgres" / "postmaster.pid").touch()
    with DataDir.open(used) as data:
        async with EmbeddedServers(data, durable=False, valkey=False).running():
            pass


async def test_an_interrupted_initdb_is_begun_anew(place: Path) -> None:
    with holding(place / "d") as other:
        eventually(lambda: bool(list((place / "d").glob(".initdb-*/cluster/PG_VERSION"))), "initdb is at work")
        other.kill()
    assert not (place / "d" / "postgres").exists()
    with DataDir.open(place / "d") as data:
        async with EmbeddedServers(data, durable=False).running() as servers:
            assert servers.database_url
            psycopg.connect(servers.database_url).close()
    assert not list((place / "d").glob(".initdb-*"))
