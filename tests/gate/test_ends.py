"""How what is open ends, and what becomes of it while the servers are away."""

import asyncio
import json
import time
from uuid import uuid4

import pytest

from codehub.db.pool import Connection, Pool
from codehub.signals.connect import Redis
from codehub.web.proxy.gate import Pace
from codehub.web.proxy.ports import Route
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.db.support import change
from tests.gate.conftest import SSE, Scene, Something, gate_over, request
from tests.gate.test_gate import visit_headers
from tests.support import eventually_async, until

# -- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["logout", "disable", "delete", "stop", "hand over"])
async def test_what_is_open_ends_within_moments(scene: Scene, ada: Person, bob: Person, how: str) -> None:
    workspace = await scene.running(ada)
    asked = request(f"/w/{workspace}/", await session_headers(scene.pool, ada))
    route, socket = await scene.goes_in(asked), Something()
    route.open.add(socket)
    if how == "logout":
        await scene.owner.execute("DELETE FROM sessions")
    elif how == "disable":
        await scene.owner.execute("UPDATE users SET disabled_at = now()")
    elif how == "delete":
        await change(scene.owner, workspace, desired_state="DELETED")
    elif how == "stop":
        await change(scene.owner, workspace, phase="STANDBY", endpoint=None)
    else:
        await change(scene.owner, workspace, owner_user_id=bob.id)
    await until(lambda: socket.ended == 1, how, 5)
    assert await scene.is_sent_to_the_api(asked)


async def test_an_own_origins_visit_ends_with_its_session(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    asked = request("/", await visit_headers(scene, ada, workspace), host=f"{workspace}.localhost")
    route, socket = await scene.goes_in(asked), Something()
    route.open.add(socket)
    await scene.owner.execute("DELETE FROM sessions")
    await until(lambda: socket.ended == 1, "it ends", 5)


async def test_an_event_is_enough(database: str, redis: Redis, owner: Connection, pool: Pool) -> None:
    async with gate_over(database, redis, owner, pool, Pace(check_seconds=3600)) as scene:
        ada = await add_person(pool)
        workspace = await scene.running(ada)
        asked = request(f"/w/{workspace}/", await session_headers(pool, ada))
        route, socket = await scene.goes_in(asked), Something()
        route.open.add(socket)
        await until(lambda: not scene.gate.status.is_deaf, "Redis is heard")
        await redis.publish(f"{SSE}{ada.id}", json.dumps({"id": str(workspace)}))
        await until(lambda: scene.doors.asked >= 2, "it looks again")
        assert await scene.goes_in(asked) is route, "nothing changed"
        assert socket.ended == 0
        await change(owner, workspace, phase="STANDBY", endpoint=None)
        await redis.publish(f"{SSE}{ada.id}", json.dumps({"id": str(workspace)}))
        await until(lambda: socket.ended == 1, "it ends")


async def test_what_is_heard_while_somebody_new_is_looked_up_is_not_missed(
    database: str, redis: Redis, owner: Connection, pool: Pool
) -> None:
    async with gate_over(database, redis, owner, pool, Pace(check_seconds=3600)) as scene:
        ada = await add_person(pool)
        workspace, other = await scene.running(ada, "10.0.0.1:80"), await scene.running(ada, "10.0.0.2:80")
        headers = await session_headers(pool, ada)
        await until(lambda: not scene.gate.status.is_deaf, "Redis is heard")
        known = await scene.goes_in(request(f"/w/{other}/", headers))
        asked = request(f"/w/{workspace}/", headers)
        seen = scene.doors.seen_and_kept = asyncio.Event()
        coming = asyncio.create_task(scene.goes_in(asked))
        await until(lambda: scene.doors.kept == 1, "the database has answered")
        await change(owner, workspace, phase="STANDBY", endpoint=None)
        for each in (workspace, other):
            await redis.publish(f"{SSE}{ada.id}", json.dumps({"id": str(each)}))
        await until(lambda: known.good_until < 0, "both are heard")
        scene.doors.seen_and_kept = None
        seen.set()
        await coming
        await until(lambda: not scene.gate.visitors.of(workspace), "it is looked at again")


async def test_a_restart_is_another_instance(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    asked = request(f"/w/{workspace}/", await session_headers(scene.pool, ada))
    before, socket = await scene.goes_in(asked), Something()
    before.open.add(socket)
    await change(scene.owner, workspace, op_id=uuid4())
    await until(lambda: socket.ended == 1, "the old instance's sockets end")
    after = await scene.goes_in(asked)
    assert after.address == before.address
    assert after.key != before.key, "no connection to the old one may be used again"


async def test_an_address_that_is_anothers_now_leads_nobody_there(
    database: str, redis: Redis, owner: Connection, pool: Pool
) -> None:
    """The worst case: nothing is heard, nothing was checked yet, and a driver gave the address out again at once."""
    async with gate_over(database, redis, owner, pool, Pace(check_seconds=3600)) as scene:
        ada, bob = await add_person(pool), await add_person(pool, "bob")
        one = await scene.running(ada, "10.0.0.1:80")
        mine = request(f"/w/{one}/", await session_headers(pool, ada))
        route, socket = await scene.goes_in(mine), Something()
        route.open.add(socket)
        await change(owner, one, phase="STANDBY", endpoint=None)
        two = await scene.running(bob, "10.0.0.1:80")
        theirs = await scene.goes_in(request(f"/w/{two}/", await session_headers(pool, bob)))
        assert theirs.key != route.key
        assert socket.ended == 1
        assert await scene.is_sent_to_the_api(mine)


async def test_an_answer_is_good_for_as_long_as_it_is_trusted(
    database: str, redis: Redis, owner: Connection, pool: Pool
) -> None:
    """The engine does not ask again before, so whatever ends a visit must end this."""
    async with gate_over(database, redis, owner, pool, Pace(check_seconds=3600, trust_seconds=30)) as scene:
        ada = await add_person(pool)
        workspace = await scene.running(ada)
        asked = request(f"/w/{workspace}/", await session_headers(pool, ada))
        before = time.monotonic()
        route = await scene.goes_in(asked)
        assert before + 30 <= route.good_until <= time.monotonic() + 30
        scene.gate.failed([route], asked)  # it cannot be reached: something may have changed
        assert route.good_until < before
        assert await scene.goes_in(asked) is route
        await until(lambda: route.good_until > before, "confirmed anew")
        await owner.execute("DELETE FROM sessions")
        scene.gate.failed([route], asked)
        assert await scene.is_sent_to_the_api(asked)
        assert route.good_until < before


# -- outages --------------------------------------------------------------------------------------------------------


async def test_without_the_database_who_is_inside_stays_and_nobody_new_comes(
    database: str, redis: Redis, owner: Connection, pool: Pool
) -> None:
    pace = Pace(check_seconds=0.05, trust_seconds=1.5, open_seconds=2.5)
    async with gate_over(database, redis, owner, pool, pace) as scene:
        ada = await add_person(pool)
        one, two = await scene.running(ada, "10.0.0.1:80"), await scene.running(ada, "10.0.0.2:80")
        headers = await session_headers(pool, ada)
        route, socket = await scene.goes_in(request(f"/w/{one}/", headers)), Something()
        route.open.add(socket)
        scene.doors.is_away = True
        assert await scene.goes_in(request(f"/w/{one}/again", headers)) is route
        assert await scene.is_sent_to_the_api(request(f"/w/{two}/", headers))
        await eventually_async(lambda: scene.is_sent_to_the_api(request(f"/w/{one}/", headers)), "trust ends", 5)
        assert socket.ended == 0, "what is open stays a little longer"
        await until(lambda: socket.ended == 1, "then it ends, too", 5)
        scene.doors.is_away = False
        await scene.goes_in(request(f"/w/{one}/", headers))


async def test_who_comes_when_too_many_wait_is_answered_at_once(
    database: str, redis: Redis, owner: Connection, pool: Pool
) -> None:
    async with gate_over(database, redis, owner, pool) as scene:
        scene.doors.silence = asyncio.Event()  # the database hangs
        knocking = [
            asyncio.ensure_future(scene.ask(request(f"/w/{uuid4()}/", {"Cookie": f"codehub_session={number}"})))
            for number in range(10_000)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(2):
            assert await scene.is_sent_to_the_api(request(f"/w/{uuid4()}/", {"Cookie": "codehub_session=one-more"}))
        assert not any(each.done() for each in knocking)
        scene.doors.silence.set()
        assert all(isinstance(each, Route) and each.workspace is None for each in await asyncio.gather(*knocking))


async def test_without_redis_looking_again_is_enough(scene: Scene, ada: Person) -> None:
    await until(lambda: not scene.gate.status.is_deaf, "Redis is heard")
    workspace = await scene.running(ada)
    route, socket = await scene.goes_in(request(f"/w/{workspace}/", await token_headers(scene.pool, ada))), Something()
    route.open.add(socket)
    await scene.owner.execute("UPDATE tokens SET revoked_at = now()")
    await until(lambda: socket.ended == 1, "it ends", 5)
