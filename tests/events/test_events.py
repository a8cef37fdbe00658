"""GET /events on real servers: everything at first, then every change, to its owner alone, until it ends."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest

from codehub.db.pool import Connection
from codehub.model.workspace import Operation, OpId, UserId, WorkspaceId
from codehub.services.live import LiveWorkspaces
from codehub.signals.connect import Redis
from codehub.signals.progress import Progress, RedisProgress
from codehub.web.live import Pace
from tests.accounts.people import session_headers, token_headers
from tests.db.support import add_workspace, change
from tests.events.dashboards import Server, publishing, serving
from tests.support import eventually_async


@pytest.fixture
async def server(database: str, server_redis: str, redis: Redis) -> AsyncIterator[Server]:
    async with serving(database, server_redis) as server, publishing(database, server_redis):
        yield server


async def add(owner: Connection, user: UserId, name: str = "w", **columns: Any) -> WorkspaceId:
    return await add_workspace(owner, owner_user_id=user, name=name, **columns)


async def heard(server: Server) -> None:
    async def hears() -> bool:
        return not server.hub.status.is_deaf

    await eventually_async(hears, "Redis is heard")


async def test_everything_at_first_then_every_change(server: Server, owner: Connection) -> None:
    ada = await server.person()
    first, second = await add(owner, ada.id, "one"), await add(owner, ada.id, "two")
    await add(owner, ada.id, "trash", deleted_at="2026-01-02T00:00:00Z")
    async with server.dashboard(ada) as dashboard:
        assert [(name, data.get("name")) for name, data in dashboard.heard] == [
            ("workspace_updated", "one"),
            ("workspace_updated", "two"),
            ("heartbeat", None),
        ]
        await change(owner, first, name="uno")
        await dashboard.until(lambda it: it.names(first) == ["one", "uno"], "the change")
        await change(owner, second, deleted_at="2026-01-02T00:00:00Z")
        await dashboard.until(lambda it: it.heard[-1] == ("workspace_deleted", {"id": str(second)}), "the deletion")
        third = await add(owner, ada.id, "three")
        await dashboard.until(lambda it: it.names(third) == ["three"], "a new one")
        await change(owner, second, deleted_at=None)
        await dashboard.until(lambda it: it.names(second)[-1] == "two", "one that is back from the trash")


async def test_it_is_the_object_of_the_api(server: Server, owner: Connection) -> None:
    ada = await server.person()
    identity = await add(owner, ada.id, "one\nline", memo="data: x\n\nevent: y", endpoint=None)
    async with server.dashboard(ada) as dashboard:
        ((_, shown),) = dashboard.of(identity)
    assert (shown["name"], shown["memo"]) == ("one\nline", "data: x\n\nevent: y")
    assert shown["owner"] == {"id": str(ada.id), "username": "ada"}
    assert shown["url"] == f"/w/{identity}/"
    assert {"archive_key", "op_id", "observed_at", "error_reason", "instance_backend", "owner_user_id"} <= set(shown)
    assert not {"endpoint", "home_ctx"} & set(shown)


async def test_the_answer_is_not_kept_or_held_back_by_anybody(server: Server) -> None:
    async with server.dashboard(await server.person()) as dashboard:
        assert dashboard.status == 200
        assert dashboard.headers["content-type"].startswith("text/event-stream")
        assert dashboard.headers["cache-control"] == "no-store"
        assert dashboard.headers["x-accel-buffering"] == "no"
        assert "content-length" not in dashboard.headers


async def test_nobody_sees_anything_of_others(server: Server, owner: Connection, redis: Redis) -> None:
    ada, bob = await server.person("ada"), await server.person("bob")
    hers, his = await add(owner, ada.id, "hers"), await add(owner, bob.id, "his")
    async with server.dashboard(ada) as hers_shown, server.dashboard(bob) as his_shown:
        prefix = server.context.settings.redis_channels.sse_prefix
        await heard(server)
        await redis.publish(f"{prefix}{bob.id}", f'{{"id": "{hers}"}}')  # whoever says so
        for number in range(3):
            await change(owner, hers, name=f"hers {number}")
            await change(owner, his, name=f"his {number}")
            await hers_shown.until(lambda it, n=number: it.names(hers)[-1] == f"hers {n}", "hers")
            await his_shown.until(lambda it, n=number: it.names(his)[-1] == f"his {n}", "his")
        assert not hers_shown.of(his)
        assert not his_shown.of(hers)


async def test_administrators_see_their_own(server: Server, owner: Connection) -> None:
    root, bob = await server.person("root"), await server.person("bob")
    await owner.execute("UPDATE users SET role = 'admin' WHERE id = %s", [root.id])
    mine, his = await add(owner, root.id), await add(owner, bob.id)
    async with server.dashboard(root) as dashboard:
        await change(owner, his, name="other")
        await change(owner, mine, name="mine")
        await dashboard.until(lambda it: it.names(mine)[-1] == "mine", "its own")
        assert not dashboard.of(his)


async def test_whoever_is_not_logged_in_is_refused(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/api/v1/events")).status_code == 401


async def test_another_site_s_page_takes_none_of_ones_streams(server: Server) -> None:
    """It could not read them, but there are only so many."""
    headers = await session_headers(server.pool, await server.person())
    async with httpx.AsyncClient(base_url=server.url, timeout=5) as client:
        answer = await client.get("/api/v1/events", headers={**headers, "Sec-Fetch-Site": "same-site"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")


async def test_only_so_many_streams_each(database: str, server_redis: str, redis: Redis) -> None:
    pace = Pace(streams_per_user=2)
    async with serving(database, server_redis, pace) as server, AsyncExitStack() as stack:
        ada, bob = await server.person("ada"), await server.person("bob")
        headers = await token_headers(server.pool, ada)
        for _ in range(2):
            await stack.enter_async_context(server.dashboard(ada, headers))
        async with httpx.AsyncClient(base_url=server.url) as client:
            answer = await client.get("/api/v1/events", headers=headers)
        assert answer.status_code == 429
        assert answer.json()["error"]["code"] == "too_many_streams"
        assert "Close some" in answer.json()["error"]["message"]
        async with server.dashboard(bob):
            assert server.hub.status.streams == 3
        await stack.aclose()

        async def left() -> bool:
            return server.hub.status.streams == 0

        await eventually_async(left, "whoever goes is noticed")
        async with server.dashboard(ada, headers):
            pass


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_nothing_falls_between_joining_and_being_shown(
    database: str, server_redis: str, redis: Redis, owner: Connection, moment: str
) -> None:
    happened: list[WorkspaceId] = []

    async def something() -> None:
        if not happened:
            happened.append(await add(owner, ada.id, "new"))
            await change(owner, identity, name="changed")
            await change(owner, doomed, deleted_at="2026-01-02T00:00:00Z")

    class Interrupted(LiveWorkspaces):
        async def stamps(self, users: Collection[UserId]) -> Mapping[UserId, Mapping[WorkspaceId, str]]:
            if moment == "before":
                await something()
            found = await super().stamps(users)
            if moment == "after":
                await something()
            return found

    async with (
        serving(database, server_redis, source_type=Interrupted) as server,
        publishing(database, server_redis),
    ):
        ada = await server.person()
        identity, doomed = await add(owner, ada.id, "old"), await add(owner, ada.id, "doomed")
        await heard(server)
        async with server.dashboard(ada) as dashboard:
            (new,) = happened
            await dashboard.until(lambda it: it.names(identity)[-1:] == ["changed"], "the change")
            await dashboard.until(lambda it: it.names(new) == ["new"], "the new one")
            await dashboard.until(
                lambda it: not it.of(doomed) or it.of(doomed)[-1][0] == "workspace_deleted", "the deletion"
            )


async def test_a_second_dashboard_is_shown_everything_and_the_first_nothing_again(
    server: Server, owner: Connection
) -> None:
    ada = await server.person()
    identity = await add(owner, ada.id, "one")
    async with server.dashboard(ada) as first:
        await heard(server)
        async with server.dashboard(ada) as second:
            assert second.names(identity) == ["one"]
            await change(owner, identity, name="uno")
            await second.until(lambda it: it.names(identity) == ["one", "uno"], "the change")
            await first.until(lambda it: it.names(identity) == ["one", "uno"], "the change")
        assert first.names(identity) == ["one", "uno"]


async def test_bursts_are_few_reads(database: str, server_redis: str, redis: Redis, owner: Connection) -> None:
    pace = Pace(user_seconds=0.3)
    async with serving(database, server_redis, pace) as server, publishing(database, server_redis):
        ada = await server.person()
        ids = [await add(owner, ada.id, "0") for _ in range(10)]
        async with server.dashboard(ada) as dashboard:
            await heard(server)
            before = server.hub.status.reads
            began = asyncio.get_running_loop().time()
            for number in range(1, 31):
                for identity in ids:
                    await change(owner, identity, name=str(number))
            for identity in ids:
                await dashboard.until(lambda it, i=identity: it.names(i)[-1] == "30", "the last change")
            took = asyncio.get_running_loop().time() - began
            reads = server.hub.status.reads - before
            assert reads <= took / 0.3 + 3, f"{reads} reads in {took} s for 300 changes"
            for identity in ids:
                numbers = [int(name) for name in dashboard.names(identity)]
                assert numbers == sorted(set(numbers)), "in order, none twice"


async def test_what_shows_nothing_new_is_not_told(server: Server, owner: Connection, redis: Redis) -> None:
    ada = await server.person()
    identity, other = await add(owner, ada.id, "one"), await add(owner, ada.id, "other")
    async with server.dashboard(ada) as dashboard:
        await heard(server)
        await change(owner, identity, asked_by="somebody")
        await redis.publish(f"{server.context.settings.redis_channels.sse_prefix}all", '{"gap": true}')
        await change(owner, other, name="said after it")
        await dashboard.until(lambda it: it.names(other)[-1] == "said after it", "the next one")
        assert dashboard.names(identity) == ["one"]


async def test_a_heartbeat_every_so_often(database: str, server_redis: str, redis: Redis, owner: Connection) -> None:
    assert Pace().heartbeat_seconds == 30
    async with serving(database, server_redis, Pace(heartbeat_seconds=0.05)) as server:
        ada = await server.person()
        await add(owner, ada.id)
        async with server.dashboard(ada) as dashboard:
            await dashboard.until(lambda it: it.heard.count(("heartbeat", {})) > 5, "heartbeats")
            assert [name for name, _ in dashboard.heard].count("workspace_updated") == 1


async def test_messages_that_are_none_harm_nobody(server: Server, owner: Connection, redis: Redis) -> None:
    ada = await server.person()
    identity = await add(owner, ada.id, "one")
    prefix = server.context.settings.redis_channels.sse_prefix
    async with server.dashboard(ada) as dashboard:
        await heard(server)
        for channel, message in [(ada.id, "{"), (ada.id, "[]"), (ada.id, '{"id": 7}'), ("nobody", "{}"), ("", "?")]:
            await redis.publish(f"{prefix}{channel}", message)
        await redis.publish(f"{prefix}{ada.id}", f'{{"id": "{uuid4()}"}}')
        gaps = server.hub.status.gaps
        await change(owner, identity, name="uno")
        await dashboard.until(lambda it: it.names(identity) == ["one", "uno"], "the change")
        assert server.hub.status.gaps == gaps, "the subscription went on"


async def test_progress_is_shown_of_the_present_operation_alone(
    server: Server, owner: Connection, redis: Redis
) -> None:
    ada = await server.person()
    op_id = OpId(uuid4())
    identity = await add(owner, ada.id, phase="STANDBY", desired_state="ARCHIVED", operation="ARCHIVING", op_id=op_id)
    told = f"{server.context.settings.redis_channels.sse_prefix}{ada.id}", f'{{"id": "{identity}"}}'

    def progress(dashboard: Any) -> Any:
        return dashboard.of(identity)[-1][1]["progress"]

    async with server.dashboard(ada) as dashboard:
        await heard(server)
        assert progress(dashboard) is None
        now = datetime.now(UTC)
        await RedisProgress(redis).leave({identity: Progress(op_id, Operation.ARCHIVING, 4711, 42, now)})
        await redis.publish(*told)
        await dashboard.until(lambda it: progress(it) == {"bytes": 4711, "files": 42}, "it gets further")
        await RedisProgress(redis).leave({identity: Progress(OpId(uuid4()), Operation.ARCHIVING, 1, 1, now)})
        await redis.publish(*told)
        await dashboard.until(lambda it: progress(it) is None, "another operation's is not shown")


# -- its end ----------------------------------------------------------------------------------------------------------

ENDS = {
    "logged out": "DELETE FROM sessions",
    "expired": "UPDATE sessions SET expires_at = now()",
    "idle": "UPDATE sessions SET last_seen_at = now() - interval '1000 days'",
    "disabled": "UPDATE users SET disabled_at = now() WHERE username = 'ada'",
    "revoked": "UPDATE tokens SET revoked_at = now()",
    "token expired": "UPDATE tokens SET expires_at = now()",
}


@pytest.mark.parametrize("how", ENDS)
async def test_it_ends_with_its_credential(server: Server, owner: Connection, how: str) -> None:
    ada, bob = await server.person("ada"), await server.person("bob")
    bearer = await token_headers(server.pool, ada) if "tokens" in ENDS[how] else await session_headers(server.pool, ada)
    async with server.dashboard(ada, bearer) as dashboard:
        # Of the other kind, for which nothing has ended.
        others = await session_headers(server.pool, bob) if "tokens" in ENDS[how] else None
        async with server.dashboard(bob, others or await token_headers(server.pool, bob)) as other:
            await owner.execute(ENDS[how])
            await dashboard.until(lambda it: it.is_over, "it has ended")
            identity = await add(owner, bob.id, "still here")
            await other.until(lambda it: it.names(identity), "others go on")
            assert not other.is_over
    async with httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.get("/api/v1/events", headers=bearer)).status_code == 401


async def test_all_credentials_are_one_question(database: str, server_redis: str, redis: Redis) -> None:
    asked: list[int] = []

    class Counted(LiveWorkspaces):
        async def alive(self, credentials: Any) -> Any:
            asked.append(len(credentials))
            return await super().alive(credentials)

    async with serving(database, server_redis, source_type=Counted) as server, AsyncExitStack() as stack:
        for name in ("ada", "bob", "cy"):
            await stack.enter_async_context(server.dashboard(await server.person(name)))

        async def together() -> bool:
            return 3 in asked

        await eventually_async(together, "all of them at once")
        assert max(asked) == 3


async def test_stopping_ends_every_stream_at_once(database: str, server_redis: str, redis: Redis) -> None:
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(database, server_redis))
        ada = await server.person()
        headers = await session_headers(server.pool, ada)
        dashboards = [await stack.enter_async_context(server.dashboard(ada, headers)) for _ in range(3)]
        server.serving.cancel()
        for dashboard in dashboards:
            await dashboard.until(lambda it: it.is_over, "it has ended", seconds=5)
        async with httpx.AsyncClient(base_url=server.url) as client:
            assert (await client.get("/api/v1/events", headers=headers)).status_code == 503


async def test_a_server_with_open_streams_stops_within_its_grace(
    database: str, server_redis: str, redis: Redis
) -> None:
    async with AsyncExitStack() as outside:
        inside = AsyncExitStack()
        server = await inside.enter_async_context(serving(database, server_redis))
        dashboard = await outside.enter_async_context(server.dashboard(await server.person()))
        async with asyncio.timeout(8):
            await inside.aclose()
        await dashboard.until(lambda it: it.is_over, "it has ended")


async def test_a_row_is_shown_to_its_owner_alone_whatever_was_listed(
    database: str, server_redis: str, redis: Redis, owner: Connection
) -> None:
    class Confused(LiveWorkspaces):
        async def stamps(self, users: Collection[UserId]) -> Mapping[UserId, Mapping[WorkspaceId, str]]:
            return {who: {**each, his: "?"} for who, each in (await super().stamps(users)).items()}

    async with serving(database, server_redis, source_type=Confused) as server:
        ada, bob = await server.person("ada"), await server.person("bob")
        hers, his = await add(owner, ada.id, "hers"), await add(owner, bob.id, "his")
        async with server.dashboard(ada) as dashboard:
            assert dashboard.names(hers) == ["hers"]
            assert not dashboard.of(his)
