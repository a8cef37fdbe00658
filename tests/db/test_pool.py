"""The pool: connections with a role and limits, and healing after PostgreSQL was away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from codehub.db.pool import Connection, Pool, Role, Timeouts, connection, open_pool, ping
from codehub.errors import Unavailable
from tests.db.support import add_user
from tests.support import eventually_async


class Line:
    """The wire between a pool and the server, which the test can cut and mend."""

    def __init__(self, url: str) -> None:
        self.target = conninfo_to_dict(url)
        self.port = 0
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for end in self._ends:
            end.transport.abort()
        await self._server.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = str(self.target["host"]), int(self.target.get("port") or 5432)
        if host.startswith("/"):
            far_reader, far_writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        self._ends |= {writer, far_writer}
        await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
        sink.transport.abort()


@asynccontextmanager
async def line_to(url: str) -> AsyncIterator[tuple[Line, str]]:
    line = Line(url)
    await line.mend()
    try:
        yield line, make_conninfo(url, host="127.0.0.1", port=line.port, sslmode="disable")
    finally:
        await line.cut()


async def _answers(pool: Pool) -> bool:
    try:
        await ping(pool)
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("role", Role)
async def test_a_connection_has_its_role_and_its_limits(database: str, role: Role) -> None:
    timeouts = Timeouts(statement=7, idle_in_transaction=8)
    async with open_pool(database, role, timeouts=timeouts) as pool, connection(pool) as conn:
        row = await (
            await conn.execute(
                """SELECT current_user::text, current_setting('TimeZone'), current_setting('statement_timeout'),
                       current_setting('idle_in_transaction_session_timeout'), current_setting('application_name')"""
            )
        ).fetchone()
    assert row == (role.value, "UTC", "7s", "8s", role.value)


async def test_a_block_is_a_transaction(database: str, owner: Connection) -> None:
    async with open_pool(database, Role.API) as pool:
        async with connection(pool) as conn:
            await add_user(conn)
        with pytest.raises(ZeroDivisionError):
            await _delete_and_fail(pool)
        row = await (await owner.execute("SELECT count(*) FROM users")).fetchone()
        assert row == (1,)


async def _delete_and_fail(pool: Pool) -> None:
    async with connection(pool) as conn:
        await conn.execute("DELETE FROM users")
        raise ZeroDivisionError


async def test_a_slow_statement_ends(database: str) -> None:
    async with open_pool(database, Role.API, timeouts=Timeouts(statement=0.1)) as pool:
        with pytest.raises(Unavailable):
            async with connection(pool) as conn:
                await conn.execute("SELECT pg_sleep(60)")
        await ping(pool)


async def test_waiting_for_a_connection_ends(database: str) -> None:
    async with (
        open_pool(database, Role.API, max_size=1, timeouts=Timeouts(checkout=0.1)) as pool,
        connection(pool),
    ):
        with pytest.raises(Unavailable):
            await ping(pool)


async def test_a_process_paused_in_a_transaction_loses_its_locks(database: str, owner: Connection) -> None:
    async with open_pool(database, Role.CONTROLLER, timeouts=Timeouts(idle_in_transaction=0.1)) as pool:
        with pytest.raises(Unavailable):
            await _pause_in_a_transaction(pool, owner)
        await ping(pool)


async def _pause_in_a_transaction(pool: Pool, watcher: Connection) -> None:
    async with connection(pool) as conn:
        await conn.execute("SELECT FROM leadership FOR SHARE")
        pid = conn.info.backend_pid

        async def is_gone() -> bool:
            found = await watcher.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid])
            return await found.fetchone() is None

        await eventually_async(is_gone, "the server ended the session")
        await conn.execute("SELECT 1")


async def test_connections_that_the_server_ended_are_replaced(database: str, owner: Connection) -> None:
    async with open_pool(database, Role.API, min_size=8) as pool:
        await pool.wait()
        ended = await owner.execute(
            """SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = %s""",
            [Role.API.value],
        )
        assert len(await ended.fetchall()) == 8
        await ping(pool)  # not even one request fails


async def test_the_pool_survives_an_outage(database: str) -> None:
    timeouts = Timeouts(checkout=0.2)
    async with line_to(database) as (line, url), open_pool(url, Role.API, min_size=2, timeouts=timeouts) as pool:
        await eventually_async(lambda: _answers(pool), "it answers at first")
        await line.cut()
        assert not await _answers(pool)
        assert not await _answers(pool)
        await line.mend()
        await eventually_async(lambda: _answers(pool), "it answers again")


async def test_the_pool_may_be_opened_before_the_server_is_there(database: str) -> None:
    async with line_to(database) as (line, url):
        await line.cut()
        async with open_pool(url, Role.CONTROLLER, timeouts=Timeouts(checkout=0.2)) as pool:
            assert not await _answers(pool)
            await line.mend()
            await eventually_async(lambda: _answers(pool), "it answers once the server is there")


async def test_an_outage_in_the_middle_of_a_transaction_is_unavailable(database: str) -> None:
    async with line_to(database) as (line, url), open_pool(url, Role.API) as pool:
        with pytest.raises(Unavailable) as raised:
            await _lose_the_line(pool, line)
        assert isinstance(raised.value.__cause__, psycopg.OperationalError)
        await line.mend()
        await eventually_async(lambda: _answers(pool), "it answers again")


async def _lose_the_line(pool: Pool, line: Line) -> None:
    async with connection(pool) as conn:
        await conn.execute("SELECT 1")
        await line.cut()
        await conn.execute("SELECT 1")


async def test_mistakes_are_not_called_outages(database: str) -> None:
    async with open_pool(database, Role.CONTROLLER) as pool:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with connection(pool) as conn:
                await conn.execute("SELECT * FROM tokens")
