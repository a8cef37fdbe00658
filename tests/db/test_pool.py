"""The pool: connections with a role and limits, and healing after PostgreSQL was away."""

from uuid import uuid4

import psycopg
import pytest

from codehub.db.pool import Connection, Pool, Role, Timeouts, connection, open_pool, ping
from codehub.errors import Unavailable
from codehub.model.workspace import UserId
from tests.db.support import add_user
from tests.lab.wire import Wire, wire_to_database
from tests.support import eventually_async


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
        await eventually_async(lambda: _answers(pool), "the next one is answered")


async def test_what_was_decided_in_time_has_time_to_be_committed(database: str, owner: Connection) -> None:
    """Cut off in the middle of its commit it may be written, and whoever asked is told that it was not."""
    await owner.execute(
        """CREATE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql
           AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END'"""
    )
    await owner.execute(
        """CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON users DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION take_time()"""
    )
    async with open_pool(database, Role.API, timeouts=Timeouts(answer=0.8, commit=30)) as pool:
        await pool.wait()
        async with connection(pool) as conn:
            await add_user(conn)
        assert await (await owner.execute("SELECT FROM users")).fetchall()
    async with open_pool(database, Role.API, timeouts=Timeouts(answer=0.4, commit=0.1)) as pool:
        with pytest.raises(Unavailable):
            async with connection(pool) as conn:
                await add_user(conn, UserId(uuid4()))


async def test_waiting_for_a_connection_ends(database: str) -> None:
    async with open_pool(database, Role.API, max_size=1, timeouts=Timeouts(checkout=0.1)) as pool:
        await pool.wait()  # to connect may take longer than there is for a connection that is there
        async with connection(pool):
            with pytest.raises(Unavailable):
                await ping(pool)


async def test_a_process_paused_in_a_transaction_loses_its_locks(database: str, owner: Connection) -> None:
    async with open_pool(database, Role.CONTROLLER, timeouts=Timeouts(idle_in_transaction=0.1)) as pool:
        with pytest.raises(Unavailable):
            await _pause_in_a_transaction(pool, owner)
        await eventually_async(lambda: _answers(pool), "others go on")


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
    async with (
        wire_to_database(database) as (wire, url),
        open_pool(url, Role.API, min_size=2, timeouts=timeouts) as pool,
    ):
        await eventually_async(lambda: _answers(pool), "it answers at first")
        await wire.cut()
        assert not await _answers(pool)
        assert not await _answers(pool)
        await wire.mend()
        await eventually_async(lambda: _answers(pool), "it answers again")


async def test_the_pool_may_be_opened_before_the_server_is_there(database: str) -> None:
    async with wire_to_database(database) as (wire, url):
        await wire.cut()
        async with open_pool(url, Role.CONTROLLER, timeouts=Timeouts(checkout=0.2)) as pool:
            assert not await _answers(pool)
            await wire.mend()
            await eventually_async(lambda: _answers(pool), "it answers once the server is there")


async def test_an_outage_in_the_middle_of_a_transaction_is_unavailable(database: str) -> None:
    async with wire_to_database(database) as (wire, url), open_pool(url, Role.API) as pool:
        with pytest.raises(Unavailable) as raised:
            await _lose_the_line(pool, wire)
        assert isinstance(raised.value.__cause__, psycopg.OperationalError)
        await wire.mend()
        await eventually_async(lambda: _answers(pool), "it answers again")


async def _lose_the_line(pool: Pool, wire: Wire) -> None:
    async with connection(pool) as conn:
        await conn.execute("SELECT 1")
        await wire.cut()
        await conn.execute("SELECT 1")


async def test_mistakes_are_not_called_outages(database: str) -> None:
    async with open_pool(database, Role.CONTROLLER) as pool:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            async with connection(pool) as conn:
                await conn.execute("SELECT * FROM tokens")
