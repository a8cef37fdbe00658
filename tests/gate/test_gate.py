"""Who gets through, what it costs, and how it ends."""

import asyncio
import tracemalloc
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.config import Settings
from codehub.db.pool import Connection, Pool
from codehub.model.visiting import Destination
from codehub.model.workspace import WorkspaceId
from codehub.services import visits
from codehub.services.actors import Actor, ActorKind, Scope
from codehub.signals.connect import Redis
from codehub.web.proxy.gate import Pace
from codehub.web.proxy.ports import Refusal, Route
from tests.accounts.people import Person, add_person, session_headers, token_headers
from tests.gate.conftest import Scene, gate_over, request, session_id, token_id
from tests.support import eventually_async, until

PATH_HOST, OWN_HOST = "codehub.test", "localhost:8080"


async def visit_headers(
    scene: Scene, person: Person, workspace: WorkspaceId, port: int | None = None
) -> dict[str, str]:
    """What a browser sends at the workspace's own origin, once it has entered."""
    await session_headers(scene.pool, person)
    session = await session_id(scene.owner, person)
    to = Destination(workspace, port)
    secret, _ = await visits.enter(scene.pool, Settings.load().accounts, session, to, "192.0.2.1")
    return {"Cookie": f"codehub_visit={secret}", "Sec-Fetch-Site": "same-origin"}


# -- access ---------------------------------------------------------------------------------------------------------


async def test_the_owner_gets_to_the_workspace_below_its_path(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada, "unix:/run/ws/ide.sock")
    route = await scene.goes_in(request(f"/w/{workspace}/lab?x=1", await session_headers(scene.pool, ada)))
    assert (route.address, route.workspace, route.port) == ("unix:/run/ws/ide.sock", workspace, None)
    assert (route.strip, route.cookie_path) == (f"/w/{workspace}".encode(), f"/w/{workspace}/".encode())


async def test_the_owner_gets_to_the_workspace_at_its_own_origin(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    headers = await visit_headers(scene, ada, workspace)
    route = await scene.goes_in(request("/lab", headers, host=f"{workspace}.localhost:8080"))
    assert (route.address, route.strip, route.cookie_path) == ("10.0.0.1:8080", b"", b"/")


@pytest.mark.parametrize("mode", ["path", "own"])
@pytest.mark.parametrize(
    "who", ["anonymous", "expired", "disabled", "other", "other's token", "read-only token", "admin", "admin's token"]
)
async def test_nobody_else_gets_through(
    scene: Scene, ada: Person, bob: Person, root: Person, mode: str, who: str
) -> None:
    workspace = await scene.running(ada)
    pool = scene.pool
    headers = {
        "anonymous": {},
        "expired": await session_headers(pool, ada, timedelta(seconds=-1)),
        "disabled": await session_headers(pool, ada),
        "other": await session_headers(pool, bob),
        "other's token": await token_headers(pool, bob),
        "read-only token": await token_headers(pool, ada, Scope.READ),
        "admin": await session_headers(pool, root),
        "admin's token": await token_headers(pool, root),
    }[who]
    if who == "disabled":
        await scene.owner.execute("UPDATE users SET disabled_at = now() WHERE id = %s", [ada.id])
    if mode == "own":  # a session's secret is none of a visit's, whatever the cookie is called
        headers = {name: value.replace("codehub_session", "codehub_visit") for name, value in headers.items()}
        asked = request("/", headers, host=f"{workspace}.localhost:8080")
    else:
        asked = request(f"/w/{workspace}/", headers)
    assert await scene.is_sent_to_the_api(asked)
    assert scene.gate.visitors.all() == []


async def test_tokens_that_may_write_get_through_in_both_ways(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    token = await token_headers(scene.pool, ada)
    by_path = await scene.goes_in(request(f"/w/{workspace}/x", token))
    by_host = await scene.goes_in(request("/x", token, host=f"{workspace}.localhost"))
    assert (by_path.strip, by_host.strip) == (f"/w/{workspace}".encode(), b"")


async def test_an_administrator_gets_through_once_it_is_recorded(
    database: str, redis: Redis, owner: Connection, pool: Pool, ada: Person, root: Person
) -> None:
    async with gate_over(database, redis, owner, pool, is_guarded=False) as scene:
        workspace = await scene.running(ada)
        headers = await session_headers(pool, root)
        asked = request(f"/w/{workspace}/", headers)
        assert await scene.is_sent_to_the_api(asked)
        actor = acting(root, ActorKind.USER, await session_id(owner, root))
        assert await visits.let_in(pool, actor, workspace, ada.id)
        assert not await visits.let_in(pool, actor, workspace, ada.id), "once is enough"
        await scene.goes_in(asked)
        other = await scene.running(ada, "10.0.0.2:80")
        assert await scene.is_sent_to_the_api(request(f"/w/{other}/", headers)), "it holds for one workspace"
        seen = await visits.by_others(pool, ada.actor, workspace)
        assert [who for _, who in seen] == ["root"]


def acting(person: Person, kind: ActorKind, credential: UUID) -> Actor:
    return Actor(
        user_id=person.id, username=person.username, role=person.role, kind=kind, credential_id=str(credential)
    )


@pytest.mark.parametrize("field", [{"Service-Worker": "script"}, {"Sec-Fetch-Dest": "serviceworker"}])
async def test_path_mode_has_no_service_workers(scene: Scene, ada: Person, field: dict[str, str]) -> None:
    """It would answer with pages that no policy was added to."""
    workspace = await scene.running(ada)
    headers = await session_headers(scene.pool, ada)
    await scene.goes_in(request(f"/w/{workspace}/worker.js", headers))
    refused = await scene.ask(request(f"/w/{workspace}/worker.js", {**headers, **field}))
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (403, "service_worker")
    own = await visit_headers(scene, ada, workspace)
    await scene.goes_in(request("/worker.js", {**own, **field}, host=f"{workspace}.{OWN_HOST}"))


@pytest.mark.parametrize("field", [{"Sec-Fetch-Dest": "report"}, {"Content-Type": "application/csp-report"}])
async def test_path_mode_takes_no_reports(scene: Scene, ada: Person, field: dict[str, str]) -> None:
    """A page of another workspace may have said where they go."""
    workspace = await scene.running(ada)
    headers = await session_headers(scene.pool, ada)
    await scene.goes_in(request(f"/w/{workspace}/x", headers, method="POST"))
    refused = await scene.ask(request(f"/w/{workspace}/x", {**headers, **field}, method="POST"))
    assert isinstance(refused, Refusal)
    assert (refused.status, refused.code) == (403, "report")
    own = await visit_headers(scene, ada, workspace)
    await scene.goes_in(request("/x", {**own, **field}, host=f"{workspace}.{OWN_HOST}", method="POST"))


async def test_where_path_mode_is_trusted_there_are_service_workers(
    database: str, redis: Redis, owner: Connection, pool: Pool, ada: Person
) -> None:
    async with gate_over(database, redis, owner, pool, is_guarded=False) as scene:
        workspace = await scene.running(ada)
        headers = {**await session_headers(pool, ada), "Service-Worker": "script"}
        assert (await scene.goes_in(request(f"/w/{workspace}/worker.js", headers))).policy == b""


async def test_what_was_opened_while_path_mode_was_trusted_is_shut_when_it_is_guarded(
    database: str, redis: Redis, owner: Connection, pool: Pool, ada: Person, root: Person
) -> None:
    """A session's visit is of the mode it was made in; a program shows no pages."""
    async with gate_over(database, redis, owner, pool, is_guarded=False) as trusted:
        workspace = await trusted.running(ada)
        session, token = await session_headers(pool, root), await token_headers(pool, root)
        by_session = acting(root, ActorKind.USER, await session_id(owner, root))
        by_token = acting(root, ActorKind.TOKEN, await token_id(owner, root))
        assert await visits.let_in(pool, by_session, workspace, ada.id)
        assert await visits.let_in(pool, by_token, workspace, ada.id)
        await trusted.goes_in(request(f"/w/{workspace}/", session))
    async with gate_over(database, redis, owner, pool) as guarded:
        assert await guarded.is_sent_to_the_api(request(f"/w/{workspace}/", session))
        await guarded.goes_in(request(f"/w/{workspace}/", token))


async def test_an_own_origin_opens_one_workspace_and_one_port_only(scene: Scene, ada: Person) -> None:
    one, two = await scene.running(ada, "10.0.0.1:80"), await scene.running(ada, "10.0.0.2:80")
    headers = await visit_headers(scene, ada, one)
    assert (await scene.goes_in(request("/", headers, host=f"{one}.localhost"))).workspace == one
    assert await scene.is_sent_to_the_api(request("/", headers, host=f"{two}.localhost"))
    assert await scene.is_sent_to_the_api(request("/", headers, host=f"3000--{one}.localhost"))
    assert await scene.is_sent_to_the_api(request(f"/w/{one}/", headers)), "nor anything on the main origin"
    ports = await visit_headers(scene, ada, one, 3000)
    route = await scene.goes_in(request("/", ports, host=f"3000--{one}.localhost"))
    assert (route.address, route.port) == ("10.0.0.1:3000", 3000)
    assert await scene.is_sent_to_the_api(request("/", ports, host=f"{one}.localhost"))


@pytest.mark.parametrize("columns", [
    {"phase": "STANDBY", "endpoint": None}, {"desired_state": "DELETED"}, {"endpoint": None},
    {"phase": "ERROR", "endpoint": None},
])  # fmt: skip
async def test_what_does_not_run_is_the_apis_to_answer(scene: Scene, ada: Person, columns: dict[str, Any]) -> None:
    workspace = await scene.running(ada, **columns)
    assert await scene.is_sent_to_the_api(request(f"/w/{workspace}/", await session_headers(scene.pool, ada)))


@pytest.mark.parametrize("target", ["/", "/api/v1/workspaces", "/w/{id}", "/w/{id}?x", "/w/{ID}/", "//w/{id}/", "/w/x/",
                                    "/w/{id}/.codehub/progress"])  # fmt: skip
async def test_what_is_no_workspaces_is_the_apis(scene: Scene, ada: Person, target: str) -> None:
    workspace = await scene.running(ada)
    target = target.replace("{id}", str(workspace)).replace("{ID}", str(workspace).upper())
    assert await scene.is_sent_to_the_api(request(target, await token_headers(scene.pool, ada)))


async def test_the_main_origin_serves_no_workspace_where_it_has_its_own(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    headers = await session_headers(scene.pool, ada)
    assert await scene.is_sent_to_the_api(request(f"/w/{workspace}/", headers, host="localhost:8080"))
    assert await scene.is_sent_to_the_api(request(f"/w/{workspace}/", headers, host="codehub.localhost"))
    await scene.goes_in(request(f"/w/{workspace}/", headers, host="127.0.0.1:8080"))


@pytest.mark.parametrize("sent", [
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, {"Origin": "http://evil.test"}, {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Origin": "http://localhost:8080"}, {"Origin": "http://{other}.localhost:8080"},
    {"Origin": "http://{id}.localhost:9999"}, {"Origin": "https://{id}.localhost:8080"},
])  # fmt: skip
async def test_pages_of_other_origins_cannot_use_the_cookie(scene: Scene, ada: Person, sent: dict[str, str]) -> None:
    workspace = await scene.running(ada)
    host = f"{workspace}.localhost:8080"
    cookie = {"Cookie": (await visit_headers(scene, ada, workspace))["Cookie"]}
    await scene.goes_in(request("/", {**cookie, "Origin": f"http://{host}"}, host=host, is_upgrade=True))
    await scene.goes_in(request("/", {**cookie, "Origin": f"http://3000--{host}"}, host=host, is_upgrade=True))
    crossing = {name: value.format(id=workspace, other=uuid4()) for name, value in sent.items()}
    assert await scene.is_sent_to_the_api(request("/", {**cookie, **crossing}, host=host, is_upgrade=True))
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "GET"):
        await scene.goes_in(request("/", {**cookie, "Origin": f"http://{host}"}, host=host, method=method))
        crossed = request("/", {**cookie, **crossing}, host=host, method=method)
        assert await scene.is_sent_to_the_api(crossed), f"{method}, also after the same visitor was let in"


# -- cost -----------------------------------------------------------------------------------------------------------


async def test_the_steady_state_asks_nobody(database: str, redis: Redis, owner: Connection, pool: Pool) -> None:
    async with gate_over(database, redis, owner, pool, Pace(check_seconds=3600)) as scene:
        ada = await add_person(pool)
        workspace = await scene.running(ada)
        headers = await session_headers(pool, ada)
        first = await scene.goes_in(request(f"/w/{workspace}/", headers))
        await until(lambda: not scene.gate.status.is_deaf, "Redis is heard")
        await scene.goes_in(request(f"/w/{workspace}/", headers))
        asked = scene.doors.asked
        for number in range(1000):
            answer = scene.gate.route(request(f"/w/{workspace}/{number}", headers, method="POST"))
            assert answer is first, "the same object, without waiting"
        assert scene.doors.asked == asked


async def test_large_heads_that_differ_are_not_kept(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    headers = await session_headers(scene.pool, ada)

    async def go(padding: str) -> None:
        await scene.goes_in(request(f"/w/{workspace}/", {**headers, "Cookie": f"{headers['Cookie']}; x={padding}"}))

    await go("")
    tracemalloc.start()
    try:
        for number in range(200):
            await go(f"{number:060000}")
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()


async def test_many_who_come_at_once_are_one_question(scene: Scene, ada: Person) -> None:
    workspaces = [await scene.running(ada, f"10.0.0.{n}:80") for n in range(20)]
    headers = await session_headers(scene.pool, ada)
    before = scene.gate.status.statements
    await asyncio.gather(*(scene.goes_in(request(f"/w/{each}/", headers)) for each in workspaces * 5))
    assert scene.gate.status.statements - before <= 5


# -- the rest -------------------------------------------------------------------------------------------------------


async def test_a_login_that_is_used_in_a_workspace_only_does_not_idle_away(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    headers = await session_headers(scene.pool, ada)
    await scene.owner.execute("UPDATE sessions SET last_seen_at = now() - interval '2 hours'")
    await scene.goes_in(request(f"/w/{workspace}/", headers))

    async def is_noted() -> bool:
        row = await scene.owner.execute("SELECT last_seen_at > now() - interval '1 minute' FROM sessions")
        return await row.fetchone() == (True,)

    await eventually_async(is_noted, "it is noted")


async def test_who_does_nothing_is_forgotten_but_what_they_did_is_not(
    database: str, redis: Redis, owner: Connection, pool: Pool
) -> None:
    async with gate_over(database, redis, owner, pool, Pace(check_seconds=0.05, forget_seconds=0.2)) as scene:
        ada = await add_person(pool)
        workspace = await scene.running(ada)
        route = await scene.goes_in(request(f"/w/{workspace}/", await session_headers(pool, ada)))
        await until(lambda: not scene.gate.visitors.all(), "forgotten")
        assert scene.gate.visitors.uses() == {workspace: route.used_at}
        scene.gate.visitors.forget_uses({workspace: route.used_at})
        assert scene.gate.visitors.uses() == {}


async def test_who_was_confirmed_lately_waits_for_no_database_that_is_known_to_be_away(
    database: str, redis: Redis, owner: Connection, pool: Pool
) -> None:
    async with gate_over(database, redis, owner, pool, Pace(check_seconds=3600)) as scene:
        ada = await add_person(pool)
        workspace = await scene.running(ada)
        asked = request(f"/w/{workspace}/", await session_headers(pool, ada))
        route = await scene.goes_in(asked)
        scene.doors.is_away = True
        scene.gate.failed([route], asked)  # something may have changed: it is asked about
        assert await scene.goes_in(asked) is route
        scene.doors.is_away, scene.doors.silence = False, asyncio.Event()  # from now on nobody is answered
        assert await asyncio.wait_for(scene.goes_in(asked), 4) is route
        await owner.execute("DELETE FROM sessions")
        scene.doors.silence.set()

        async def is_out() -> bool:
            return await scene.is_sent_to_the_api(asked)

        await eventually_async(is_out, "what could not be looked up is, without being asked again")


async def test_what_cannot_be_reached_goes_to_the_api_with_a_mark(scene: Scene, ada: Person) -> None:
    workspace = await scene.running(ada)
    asked = request(f"/w/{workspace}/", await session_headers(scene.pool, ada))
    route = await scene.goes_in(asked)
    answer = scene.gate.failed([route], asked)
    assert isinstance(answer, Route)
    assert answer.headers == ((b"x-codehub-unreachable", b"1"),)
    assert isinstance(scene.gate.failed([route, answer], asked), Refusal)
