"""The first administrator is made once, by whoever starts first."""

import asyncio
import re
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import psycopg
import pytest

from codehub.cli import first_admin
from codehub.config import AccountConfig
from codehub.db.pool import Pool, Role, Timeouts, connection, open_pool
from codehub.services import accounts, passwords
from codehub.services.actors import UserRole
from codehub.web.context import Context
from tests.accounts.people import add_person, blocks_somebody
from tests.cli.codehub import running
from tests.cli.conftest import place
from tests.lab.wire import Wire, wire_to_database
from tests.support import eventually_async

__all__ = ["place"]

PASSWORD = "correct horse battery"


def config(**given: object) -> AccountConfig:
    return AccountConfig.model_validate(given)


async def users(pool: Pool) -> list[tuple[object, ...]]:
    async with connection(pool) as conn:
        return await (await conn.execute("SELECT username, role::text FROM users ORDER BY username")).fetchall()


async def test_it_is_made_with_a_generated_password(pool: Pool) -> None:
    made = await accounts.first_admin(pool, config())
    assert made is not None
    assert made.password is not None
    assert made.username == "admin"
    async with connection(pool) as conn:
        ((stored,),) = await (await conn.execute("SELECT password_hash FROM users")).fetchall()
    assert await passwords.is_right(made.password, stored)
    assert await accounts.first_admin(pool, config()) is None, "once"


async def test_it_is_made_with_the_password_that_was_given(pool: Pool) -> None:
    made = await accounts.first_admin(pool, config(admin_password=PASSWORD))
    assert made == accounts.FirstAdmin("admin", None), "what was given is not shown"
    async with connection(pool) as conn:
        ((stored,),) = await (await conn.execute("SELECT password_hash FROM users")).fetchall()
    assert await passwords.is_right(PASSWORD, stored)


async def test_one_start_of_many_makes_it(pool: Pool) -> None:
    made = await asyncio.gather(*(accounts.first_admin(pool, config()) for _ in range(4)))
    assert len([each for each in made if each is not None]) == 1
    assert await users(pool) == [("admin", "admin")]


async def test_a_start_waits_for_one_that_is_making_it(pool: Pool, database: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(database, autocommit=True) as watcher,
        await psycopg.AsyncConnection.connect(database) as other,
    ):
        await other.execute("INSERT INTO users (id, username, role) VALUES (gen_random_uuid(), 'root', 'admin')")
        starting = asyncio.create_task(accounts.first_admin(pool, config()))

        async def is_waiting() -> bool:
            assert not starting.done(), "it did not wait"
            return await blocks_somebody(watcher, other)

        await eventually_async(is_waiting, "the second start waits")
        await other.commit()
        assert await starting is None
    assert await users(pool) == [("root", "admin")]


async def test_an_installation_of_the_earlier_product_gets_one_too(pool: Pool) -> None:
    """Its users have no roles; and one of them may be called admin, who is not made administrator by that."""
    await add_person(pool, "Admin")
    made = await accounts.first_admin(pool, config())
    assert made is not None
    assert await users(pool) == [("Admin", "user"), ("admin-2", "admin")]


async def test_where_there_is_one_none_is_made(pool: Pool) -> None:
    await add_person(pool, "root", UserRole.ADMIN)
    assert await accounts.first_admin(pool, config(admin_password=PASSWORD)) is None


@asynccontextmanager
async def making_while_nothing_answers(
    database: str, context: Context
) -> AsyncIterator[tuple[Wire, asyncio.Task[accounts.FirstAdmin | None]]]:
    async with (
        wire_to_database(database) as (wire, url),
        open_pool(url, Role.API, timeouts=Timeouts(answer=0.3, commit=0.1)) as slow,
    ):
        await slow.wait()
        wire.silence()
        yield wire, asyncio.create_task(first_admin.make(replace(context, pool=slow), Path("/nowhere")))


async def test_a_database_that_is_slow_is_waited_for(
    database: str, context: Context, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with making_while_nothing_answers(database, context) as (wire, making):
        await eventually_async(lambda: _has_said(capsys, "Trying again"), "it says that it waits")
        assert not making.done()
        wire.speak()
        async with asyncio.timeout(30):
            made = await making
    assert made is not None
    assert await users(context.pool) == [("admin", "admin")]


async def test_a_password_whose_commit_was_not_answered_is_shown_all_the_same(database: str, context: Context) -> None:
    """Nobody could learn it later."""
    async with (
        wire_to_database(database) as (wire, url),
        open_pool(url, Role.API, timeouts=Timeouts(answer=1, commit=0.2)) as slow,
    ):
        await slow.wait()
        told: list[bytes] = []

        async def hear(data: bytes) -> None:
            told.append(data)
            wire.delay = 3600.0 if b"COMMIT" in data and any(b"INSERT INTO users" in each for each in told) else 0.0

        async def is_made() -> bool:
            return bool(await users(context.pool))

        wire.hear = hear
        making = asyncio.create_task(first_admin.make(replace(context, pool=slow), Path("/nowhere")))
        await eventually_async(is_made, "it is made, and the answer is on its way for ever")
        wire.hear, wire.delay = None, 0.0
        async with asyncio.timeout(30):
            made = await making
    assert made is not None
    assert made.password is not None
    async with connection(context.pool) as conn:
        ((stored,),) = await (await conn.execute("SELECT password_hash FROM users")).fetchall()
    assert await passwords.is_right(made.password, stored)


async def test_a_stop_while_it_waits_ends_it(database: str, context: Context) -> None:
    async with making_while_nothing_answers(database, context) as (wire, making):
        await asyncio.sleep(0)  # it has begun
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(10):
                await making
        wire.speak()


async def test_a_password_that_is_made_during_a_stop_is_shown_however_often_it_is_told_to_stop(
    database: str, context: Context, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    async with (
        await psycopg.AsyncConnection.connect(database, autocommit=True) as watcher,
        await psycopg.AsyncConnection.connect(database) as other,
    ):
        await other.execute("LOCK TABLE users")
        making = asyncio.create_task(first_admin.make(context, tmp_path))
        await eventually_async(lambda: blocks_somebody(watcher, other), "it is under way")
        for _ in range(3):
            making.cancel()
            await asyncio.wait({making}, timeout=0.05)
        await other.rollback()
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(30):
                await making
    assert "Username   admin" in capsys.readouterr().out
    assert (tmp_path / first_admin.KEPT_IN).exists()


def test_a_password_that_cannot_be_written_is_said_to_be_nowhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "a-file"
    folder.touch()
    first_admin.introduce(accounts.FirstAdmin("admin", "secret-words"), folder)
    said = capsys.readouterr().out
    assert "cannot be written" in said
    assert "codehub user reset-password admin" in said
    assert f"in {folder}" not in said
    assert "secret-words" not in said, "this is a log"


def test_a_password_that_was_written_is_where_it_is_said_to_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first_admin.introduce(accounts.FirstAdmin("admin", "secret-words"), tmp_path)
    said = capsys.readouterr().out
    assert f"in {tmp_path / first_admin.KEPT_IN}" in said
    assert "secret-words" not in said
    assert (tmp_path / first_admin.KEPT_IN).read_text() == "secret-words\n"


async def _has_said(capsys: pytest.CaptureFixture[str], words: str) -> bool:
    return words in capsys.readouterr().out


def test_generated_passwords_differ_and_are_long_enough() -> None:
    made = {passwords.generate() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"([a-z2-9]{4}-){3}[a-z2-9]{4}", each) for each in made)


@pytest.mark.usefixtures("place")
def test_codehub_up_keeps_it_in_a_file_where_output_is_kept(place: Path) -> None:
    """A journal, a container's log: others read these. At a terminal it is shown, once."""
    with running(place / "d", place / "out") as codehub:
        url = codehub.url
        found = re.search(r"Username +(\S+)\n +Password +in (\S+)\n", codehub.printed)
        assert found, codehub.printed
        kept = Path(found[2])
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        body = {"username": found[1], "password": kept.read_text().strip()}
        assert httpx.post(f"{url}api/v1/login", json=body).status_code == 200
        assert codehub.stop() == 0
        logs = "".join(each.read_text() for each in (place / "d" / "logs").iterdir())
        assert body["password"] not in codehub.printed + logs
    with running(place / "d", place / "again") as codehub:
        assert httpx.post(f"{codehub.url}api/v1/login", json=body).status_code == 200
        assert "Password" not in codehub.printed
