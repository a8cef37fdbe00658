"""Open menus cost one look at a time, however many they are."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from codehub.db.pool import Connection, Pool
from codehub.model.workspace import WorkspaceId
from codehub.web.context import Context
from codehub.web.watching import Look, Watch
from tests.accounts.people import add_person
from tests.api.conftest import context
from tests.support import eventually_async
from tests.visit.conftest import running

__all__ = ["context"]


@pytest.fixture
async def watch(context: Context) -> AsyncIterator[Watch]:
    watch = Watch(context.pool, context.settings.accounts, look_seconds=0.02)
    task = asyncio.create_task(watch.run())
    yield watch
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_thousand_menus_are_one_look(watch: Watch, pool: Pool, owner: Connection) -> None:
    person = await add_person(pool)
    workspaces = [await running(owner, person) for _ in range(3)]
    with ExitStack() as menus:
        for number in range(1000):
            menus.enter_context(watch.watching(workspaces[number % 3], uuid4()))
        assert watch.menus == 1000
        before = watch.looks
        looks = await asyncio.gather(*(watch.next(5) for _ in range(1000)))
        assert watch.looks - before == 1
        assert len({id(look) for look in looks}) == 1
        assert looks[0] is not None
        assert set(looks[0].shown) == set(workspaces)
    assert watch.menus == 0


async def test_nothing_is_asked_while_no_menu_is_open(watch: Watch) -> None:
    with watch.watching(WorkspaceId(uuid4()), uuid4()):
        assert await watch.next(5) is not None

    async def rests() -> bool:
        before = watch.looks
        with pytest.raises(TimeoutError):
            await watch.next(0.3)
        return watch.looks == before

    await eventually_async(rests, "it asks nothing", 5)


async def test_a_look_says_whom_it_asked_about(watch: Watch) -> None:
    """Who joins during a look is not taken for one whose login has ended."""
    one, other = (WorkspaceId(uuid4()), uuid4()), (WorkspaceId(uuid4()), uuid4())
    with watch.watching(*one):
        first = await watch.next(5)
        with watch.watching(*other):
            looks: list[Look | None] = [first]

            async def is_asked() -> bool:
                looks.append(await watch.next(5))
                return looks[-1] is not None and other in looks[-1].asked

            await eventually_async(is_asked, "the other is asked about", 5)
    assert first is not None
    assert other not in first.asked


async def test_an_outage_ends_no_menu(watch: Watch, pool: Pool, owner: Connection, database: str) -> None:
    person = await add_person(pool)
    workspace = await running(owner, person)
    with watch.watching(workspace, uuid4()):
        assert await watch.next(5) is not None
        await owner.execute("ALTER TABLE sessions RENAME TO sessions_away")
        before = watch.looks

        async def is_silent() -> bool:
            try:
                await watch.next(0.5)
            except TimeoutError:
                return True
            return False

        await eventually_async(is_silent, "nothing is told", 10)
        await owner.execute("ALTER TABLE sessions_away RENAME TO sessions")
        assert (look := await watch.next(5)) is not None
        assert workspace in look.shown
        assert watch.looks > before


async def test_its_end_is_told(context: Context) -> None:
    watch = Watch(context.pool, context.settings.accounts, look_seconds=60)
    task = asyncio.create_task(watch.run())
    waiting = asyncio.create_task(watch.next(60))
    await asyncio.sleep(0)
    task.cancel()
    assert await waiting is None
    assert await watch.next(60) is None
