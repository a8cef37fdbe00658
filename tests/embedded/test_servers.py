import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from codehub.embedded import DataDir, EmbeddedServers, RunningServers
from codehub.embedded.host import VALKEY_SOCKET
from codehub.embedded.process import Child
from codehub.errors import StartError, Unavailable
from tests.embedded.support import (
    holding,
    is_root,
    needs_root,
    of_each,
    postgres_pids,
    processes_at,
    server_pids,
    valkey_pids,
)
from tests.lab.skips import reason
from tests.support import AS_ROOT, eventually_async


def data_of(servers: RunningServers) -> Path:
    return servers.children[0].log.parents[1]


def status_of(process: Path) -> str:
    return (process / "status").read_text()


def told_by(process: Path) -> bytes:
    return (process / "cmdline").read_bytes() + (process / "environ").read_bytes()


def links_of(process: Path) -> list[str]:
    """What it has open."""
    found = []
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found.append(str(descriptor.readlink()))
    return found


def setting(servers: RunningServers, name: str) -> str:
    assert servers.database_url
    with psycopg.connect(servers.database_url) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    assert row
    return str(row[0])


async def ask_valkey(servers: RunningServers, *command: str) -> object:
    assert servers.redis_url
    async with redis.asyncio.from_url(servers.redis_url, decode_responses=True) as client:
        return await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py's


class TestPostgres:
    def test_is_a_whole_database_of_ours(self, servers: RunningServers) -> None:
        assert servers.database_url
        with psycopg.connect(servers.database_url) as connection:
            row = connection.execute(
                "SELECT current_database(), current_user, pg_encoding_to_char(encoding), datlocale,"
                " current_setting('data_checksums') FROM pg_database WHERE datname = current_database()"
            ).fetchone()
        assert row == ("codehub", "codehub", "UTF8", "C.UTF-8", "on")

    @pytest.mark.parametrize("name", ["fsync", "synchronous_commit", "full_page_writes"])
    def test_keeps_what_it_confirmed(self, servers: RunningServers, name: str) -> None:
        assert setting(servers, name) == "on"

    @pytest.mark.parametrize("password", ["", "wrong"])
    def test_refuses_whoever_lacks_the_password(self, servers: RunningServers, password: str) -> None:
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host=str(data_of(servers) / "run"), user="codehub", dbname="codehub", password=password)

    def test_asks_everybody_for_a_password(self, servers: RunningServers) -> None:
        assert servers.database_url
        with psycopg.connect(servers.database_url) as connection:
            methods = connection.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
        assert methods == [("scram-sha-256",)]


class TestValkey:
    async def test_keeps_its_log(self, servers: RunningServers) -> None:
        assert await ask_valkey(servers, "CONFIG", "GET", "appendonly") == {"appendonly": "yes"}
        assert await ask_valkey(servers, "CONFIG", "GET", "appendfsync") == {"appendfsync": "everysec"}

    @pytest.mark.parametrize("password", [None, "wrong"])
    async def test_refuses_whoever_lacks_the_password(self, servers: RunningServers, password: str | None) -> None:
        socket = str(data_of(servers) / "run" / "valkey.sock")
        once = Retry(NoBackoff(), 0)
        async with redis.asyncio.Redis(unix_socket_path=socket, password=password, retry=once) as client:
            with pytest.raises(RedisError, match=r"already authenticated|invalid username-password"):
                await client.ping()


def test_nothing_listens_on_a_network(servers: RunningServers) -> None:
    pids = server_pids(data_of(servers))
    assert len(pids) > 2
    opened = [each for links in of_each(pids, links_of) for each in links]
    sockets = {each.removeprefix("socket:[").removesuffix("]") for each in opened if each.startswith("socket:")}
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6", "udp", "udp6")]
    inodes = {line.split()[9] for table in tables if table.exists() for line in table.read_text().splitlines()[1:]}
    assert sockets
    assert not sockets & inodes


def test_sockets_are_for_us_alone(servers: RunningServers) -> None:
    assert (data_of(servers) / "run").stat().st_mode & 0o077 == 0
    for name in (".s.PGSQL.5432", "valkey.sock"):
        assert (data_of(servers) / "run" / name).stat().st_mode & 0o077 == 0


def test_no_secret_is_shown(servers: RunningServers) -> None:
    passwords = [str(urlsplit(url).password) for url in (servers.database_url, servers.redis_url) if url]
    assert len(passwords) == 2
    shown = repr(servers).encode()
    shown += b"".join(of_each(server_pids(data_of(servers)), told_by))
    shown += b"".join(log.read_bytes() for log in (data_of(servers) / "logs").iterdir())
    for password in passwords:
        assert password.encode() not in shown


@pytest.mark.skipif(not is_root, reason=reason("root, whose servers run under an account of their own", AS_ROOT))
def test_servers_have_no_privileges(servers: RunningServers) -> None:
    for text in of_each(server_pids(data_of(servers)), status_of):
        status = dict(line.split(":", 1) for line in text.splitlines())
        assert "0" not in status["Uid"].split() + status["Gid"].split() + status["Groups"].split()
        assert int(status["CapEff"], 16) == 0


@needs_root
def test_servers_keep_none_of_roots_groups(used: Path) -> None:
    with holding(used, groups=[0, 4]) as other:
        other.report()
        for status in of_each(server_pids(used), status_of):
            assert "\nGroups:\t" in status
            assert not re.search(r"^Groups:.*\d", status, re.MULTILINE)


def test_ctrl_c_in_the_terminal_does_not_reach_them(servers: RunningServers) -> None:
    groups = of_each(server_pids(data_of(servers)), lambda process: os.getpgid(int(process.name)))
    assert os.getpgid(0) not in groups


async def test_data_survives_a_restart_and_all_processes_end(place: Path) -> None:
    lines: list[str] = []
    with DataDir.open(place / "d") as data:
        embedded = EmbeddedServers(data, progress=lines.append)
        async with embedded.running() as first:
            assert first.database_url
            with psycopg.connect(first.database_url) as connection:
                connection.execute("CREATE TABLE kept AS SELECT 1 AS number")
            await ask_valkey(first, "SET", "kept", "yes")
        assert not server_pids(data.path)
        assert "Preparing PostgreSQL 18.6 (first start only)" in lines
        lines.clear()
        async with embedded.running() as second:
            assert second.database_url == first.database_url
            with psycopg.connect(first.database_url) as connection:
                assert connection.execute("SELECT number FROM kept").fetchone() == (1,)
            assert await ask_valkey(second, "GET", "kept") == "yes"
        assert not any("first start" in line for line in lines)
    assert "database system was not properly shut down" not in (place / "d" / "logs" / "postgres.log").read_text()


async def test_a_server_that_is_not_wanted_is_not_started(used: Path) -> None:
    with DataDir.open(used) as data:
        async with EmbeddedServers(data, postgres=False).running() as servers:
            assert servers.database_url is None
            assert [child.name for child in servers.children] == ["Valkey"]
        async with EmbeddedServers(data, postgres=False, valkey=False).running() as servers:
            assert (servers.database_url, servers.redis_url) == (None, None)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(servers.keep(), 0.05)


@asynccontextmanager
async def kept(servers: RunningServers) -> AsyncIterator["asyncio.Task[None]"]:
    keeping = asyncio.create_task(servers.keep())
    try:
        yield keeping
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def newest(servers: RunningServers, name: str) -> Child:
    return next(child for child in reversed(servers.children) if child.name == name)


async def test_a_server_that_dies_is_started_again_with_what_it_held(used: Path) -> None:
    lines: list[str] = []
    with DataDir.open(used) as data:
        async with (
            EmbeddedServers(data, progress=lines.append).running() as servers,
            kept(servers) as keeping,
        ):
            assert servers.database_url
            with psycopg.connect(servers.database_url) as connection:
                connection.execute("CREATE TABLE survives ()")
            for name in ("PostgreSQL", "Valkey"):
                victim = newest(servers, name)
                os.kill(victim.process.pid, signal.SIGKILL)

                async def is_back(name: str = name, victim: Child = victim) -> bool:
                    return newest(servers, name) is not victim and await answers(servers, name)

                await eventually_async(is_back, f"{name} answers again")
                assert f"{name} stopped unexpectedly (killed by SIGKILL); starting it again" in lines
            with psycopg.connect(servers.database_url) as connection:
                connection.execute("SELECT FROM survives")
            assert not keeping.done()
    assert server_pids(used) == [], "those that were started again are stopped, too"


async def answers(servers: RunningServers, name: str) -> bool:
    try:
        if name == "Valkey":
            return bool(await ask_valkey(servers, "PING"))
        assert servers.database_url
        with psycopg.connect(servers.database_url) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except (OSError, RedisError, psycopg.OperationalError):
        return False


async def killed_often(servers: RunningServers, name: str, times: int) -> None:
    """Each time as soon as it answers again."""
    for _ in range(times):
        victim = newest(servers, name)
        os.kill(victim.process.pid, signal.SIGKILL)

        async def is_back(victim: Child = victim) -> bool:
            return newest(servers, name) is not victim and await answers(servers, name)

        await eventually_async(is_back, f"{name} answers again", 30)


@pytest.mark.parametrize("name", ["Valkey", "PostgreSQL"])
async def test_a_server_that_answers_between_its_deaths_is_never_given_up(used: Path, name: str) -> None:
    with DataDir.open(used) as data:
        embedded = EmbeddedServers(data, durable=False, postgres=name != "Valkey", valkey=name == "Valkey")
        async with embedded.running() as servers, kept(servers) as keeping:
            await killed_often(servers, name, 5)
            assert not keeping.done()


async def test_valkey_that_cannot_start_takes_nothing_down(used: Path) -> None:
    with DataDir.open(used) as data:
        embedded = EmbeddedServers(data, durable=False, pauses=(0.0, 0.01))
        async with embedded.running() as servers, kept(servers) as keeping:
            socket = data.run / VALKEY_SOCKET  # where it cannot listen, with or without its data
            socket.unlink()
            socket.mkdir()
            os.kill(newest(servers, "Valkey").process.pid, signal.SIGKILL)

            async def was_tried_often() -> bool:
                return len([child for child in servers.children if child.name == "Valkey"]) > 6

            await eventually_async(was_tried_often, "it is tried again and again", 60)
            assert not keeping.done()
            with pytest.raises(Unavailable, match=r"Valkey stopped .* cannot be started again: Valkey cannot start on"):
                servers.check("Valkey")
            assert await answers(servers, "PostgreSQL")
            socket.rmdir()
            await eventually_async(lambda: answers(servers, "Valkey"), "it is back", 60)


async def test_postgresql_that_never_answers_again_is_given_up_with_a_line(used: Path) -> None:
    with DataDir.open(used) as data:
        embedded = EmbeddedServers(data, durable=False, valkey=False, pauses=(0.0, 0.01))
        async with embedded.running() as servers, kept(servers) as keeping:
            control = used / "postgres" / "global" / "pg_control"
            whole = control.read_bytes()
            control.write_bytes(b"garbage")
            os.kill(newest(servers, "PostgreSQL").process.pid, signal.SIGKILL)
            await asyncio.wait({keeping}, timeout=60)
            with pytest.raises(Unavailable) as caught:
                await keeping
            control.write_bytes(whole)
    assert caught.value.message.startswith("PostgreSQL stopped unexpectedly (killed by SIGKILL) and cannot be started")
    assert str(used / "logs" / "postgres.log") in caught.value.message
    assert "start CodeHub again" in caught.value.hint


async def cancel_start(data: DataDir, is_moment: Callable[[str], bool]) -> None:
    """Begin to start, and cancel when the moment has come; it is asked with each line of progress until now.

    Both servers are started at once: the last line alone may never be the one that is waited for.
    """
    lines = [""]

    async def run() -> None:
        async with EmbeddedServers(data, durable=False, progress=lines.append).running():
            await asyncio.Event().wait()

    starting = asyncio.create_task(run())
    while not any(map(is_moment, lines)):
        assert not starting.done(), "the moment has passed"
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_cancelled_in_the_midst_of_initdb_it_leaves_no_trace(place: Path) -> None:
    with DataDir.open(place / "d") as data:
        await cancel_start(data, lambda _: bool(list(data.path.glob(".initdb-*/cluster/PG_VERSION"))))
        assert not processes_at(data.path)
        assert not list(data.path.glob(".initdb-*"))
        assert not (data.path / "postgres").exists()


@pytest.mark.parametrize("moment", ["Starting Valkey", "Starting PostgreSQL", "valkey runs", "postgres runs"])
async def test_a_cancelled_start_leaves_no_process(used: Path, moment: str) -> None:
    def is_moment(line: str) -> bool:
        if moment == "valkey runs":
            return bool(valkey_pids(used))
        if moment == "postgres runs":
            return bool(postgres_pids(used))
        return line.startswith(moment)

    with DataDir.open(used) as data:
        await cancel_start(data, is_moment)
        assert not processes_at(used)
        async with EmbeddedServers(data, durable=False).running():
            pass


async def test_a_path_too_long_for_a_socket(place: Path) -> None:
    with DataDir.open(place / ("x" * 80)) as data:
        with pytest.raises(StartError, match="107 is the limit") as caught:
            async with EmbeddedServers(data).running():
                pass
        assert "CODEHUB_DATA_DIR" in caught.value.hint
        assert not (data.path / "run").exists()


@pytest.mark.parametrize("name", ['a"b', "a$(id)b", "a`id`b", "a\\b", "a\nb", "a,b"])
async def test_signs_that_a_shell_would_read(place: Path, name: str) -> None:
    with DataDir.open(place / name) as data:
        with pytest.raises(StartError, match="signs in it") as caught:
            async with EmbeddedServers(data).running():
                pass
        assert "\n" not in str(caught.value)


async def test_the_longest_path_works_with_signs_that_need_quoting(place: Path) -> None:
    start = place / "a 'b' c%20;&é "
    room = 107 - len(os.fsencode(start / "run" / ".s.PGSQL.5432"))
    with DataDir.open(start.with_name(start.name + "x" * room)) as data:
        async with EmbeddedServers(data, durable=False).running() as servers:
            assert setting(servers, "listen_addresses") == ""
            assert await ask_valkey(servers, "PING") is True
