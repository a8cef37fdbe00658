"""What administrators see and ask for, and what running workspaces say through the leader."""

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from codehub.coordinator.gc_requests import GcRequests
from codehub.coordinator.orphans import Orphans
from codehub.coordinator.records import DatabaseRecords
from codehub.db import losses
from codehub.db.pool import Connection, Role, open_pool
from codehub.errors import Unavailable
from codehub.model.workspace import Incarnation, InstanceBackend, Operation, OpId, WorkspaceId
from codehub.signals.connect import Redis
from codehub.signals.last_logs import RedisLastLogs
from codehub.signals.progress import Progress, RedisProgress
from codehub.signals.questions import Answerer, Body
from codehub.web.api.admin import _harmless
from tests.api.caller import Caller, error
from tests.coordinator.collecting import RULES, Store, Watched
from tests.db.support import change


async def test_everybodys_workspaces(ada: Caller, bob: Caller, root: Caller, owner: Connection) -> None:
    await ada.has(owner, name="ada's")
    await bob.has(owner, "ERROR", name="bob's")
    shown = (await root.get("/admin/workspaces")).json()["items"]
    assert {(each["name"], each["owner"]["username"]) for each in shown} == {("ada's", "ada"), ("bob's", "bob")}
    for params in ({"owner": str(bob.person.id)}, {"phase": "ERROR"}, {"q": "BOB"}):
        found = (await root.get("/admin/workspaces", params=params)).json()["items"]
        assert [each["name"] for each in found] == ["bob's"], params


@pytest.mark.parametrize("way", ["", "-"])
async def test_everybodys_are_sorted_across_pages(
    ada: Caller, bob: Caller, root: Caller, owner: Connection, way: str
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [  # name, whose, state, image, used
        ("beta", bob, "STANDBY", "a", None),
        ("Alpha", ada, "RUNNING", "c", at),
        ("gamma", ada, "ARCHIVED", "b", at + timedelta(days=1)),
        ("delta", bob, "STANDBY", "b", at + timedelta(days=2)),
    ]
    for name, whose, phase, image, used in rows:
        await whose.has(owner, phase, name=name, image_ref=image, last_access_at=used)
    orders: dict[str, list[set[str]]] = {
        "name": [{"Alpha"}, {"beta"}, {"delta"}, {"gamma"}],
        "owner": [{"Alpha", "gamma"}, {"beta", "delta"}],
        "state": [{"gamma"}, {"beta", "delta"}, {"Alpha"}],
        "image": [{"beta"}, {"gamma", "delta"}, {"Alpha"}],
        "used": [{"beta"}, {"Alpha"}, {"gamma"}, {"delta"}],
    }
    for column, groups in orders.items():
        found: list[str] = []
        cursor: dict[str, str] = {}
        while len(found) < len(rows):
            page = (await root.get("/admin/workspaces", params={"sort": way + column, "limit": 1, **cursor})).json()
            found += [each["name"] for each in page["items"]]
            cursor = {"cursor": page["next_cursor"]}
        assert cursor == {"cursor": None}, "nothing comes after the last one"
        for group in reversed(groups) if way else groups:
            assert {found.pop(0) for _ in group} == group, column
    for wrong in ("created_at", "--name", "name;", "NAME"):
        assert error(await root.get("/admin/workspaces", params={"sort": wrong})) == (422, "invalid")


async def test_limits_say_who_uses_what(ada: Caller, bob: Caller, root: Caller, owner: Connection) -> None:
    for _ in range(2):
        await ada.has(owner, "RUNNING")
    await bob.has(owner, "STANDBY", desired_state="RUNNING")
    await bob.has(owner, "STANDBY")
    shown = (await root.get("/admin/limits")).json()
    assert (shown["total"], shown["per_user_limit"]) == ({"running": 3, "limit": 100}, 2)
    assert [(each["user"]["username"], each["running"]) for each in shown["users"]] == [("ada", 2), ("bob", 1)]


async def test_limits_are_set_while_it_runs(ada: Caller, bob: Caller, root: Caller, owner: Connection) -> None:
    for _ in range(2):
        await ada.has(owner, "RUNNING")
    third, bobs = await ada.has(owner), await bob.has(owner)
    start = {"desired_state": "RUNNING"}
    assert error(await ada.patch(f"/workspaces/{third}", start)) == (429, "over_limit")
    shown = (await root.call("PUT", "/admin/limits", {"max_running_per_user": 3, "max_running_global": 3})).json()
    assert (shown["total"]["limit"], shown["per_user_limit"]) == (3, 3)
    assert shown["set"] == {"max_running_global": 3, "max_running_per_user": 3, "max_workspaces_per_user": None}
    assert shown["configured"]["max_running_per_user"] == 2
    assert (await ada.patch(f"/workspaces/{third}", start)).status_code == 200
    answer = await bob.patch(f"/workspaces/{bobs}", start)
    assert error(answer) == (429, "over_limit"), "the limit of all is exact, too"
    assert (await root.call("PUT", "/admin/limits", {})).json()["per_user_limit"] == 2
    for wrong in ({"max_running_global": 0}, {"max_running_global": "3"}, {"max": 1}):
        assert error(await root.call("PUT", "/admin/limits", wrong)) == (422, "invalid"), wrong
    (entry, _) = (await root.get("/admin/audit", params={"action": "limits.change"})).json()["items"]
    assert entry["details"] == {"per_user": None, "total": None, "workspaces": None}


async def test_a_users_own_limit_goes_before_everybodys(ada: Caller, bob: Caller, owner: Connection) -> None:
    await owner.execute("UPDATE users SET max_running = 0, max_workspaces = 1 WHERE id = %s", [ada.person.id])
    await owner.execute("UPDATE users SET max_running = 3 WHERE id = %s", [bob.person.id])
    ours = await ada.has(owner)
    assert error(await ada.patch(f"/workspaces/{ours}", {"desired_state": "RUNNING"})) == (429, "over_limit")
    assert error(await ada.post("/workspaces", {"name": "w", "desired_state": "ARCHIVED"})) == (429, "over_limit")
    for _ in range(2):
        await bob.has(owner, "RUNNING")
    third = await bob.has(owner)
    assert (await bob.patch(f"/workspaces/{third}", {"desired_state": "RUNNING"})).status_code == 200


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("x;=1+1", "x;'=1+1"),
        ("x; =1+1;@y", "x; '=1+1;'@y"),
        ("x;y=1", "x;y=1"),
        ("=x;\uff1d1", "'=x;'\uff1d1"),
        ("x\t+1\r-1", "x\t'+1\r'-1"),
    ],
)
def test_no_cell_begins_a_formula_where_cells_end_otherwise(name: str, cell: str) -> None:
    assert _harmless(name) == cell


@pytest.mark.parametrize("name", ['=1+1, "x"', " =1+1", "\uff1d1+1", "@x", "-1"])
async def test_the_audit_log_is_had_as_a_table(ada: Caller, root: Caller, owner: Connection, name: str) -> None:
    first = await ada.has(owner, name=name)
    await ada.patch(f"/workspaces/{first}", {"memo": "m"})
    answer = await root.get("/admin/audit.csv", params={"user": str(ada.person.id)})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "codehub-audit.csv" in answer.headers["content-disposition"]
    head, line = csv.reader(io.StringIO(answer.text))
    found = dict(zip(head, line, strict=True))
    assert (found["user"], found["action"], found["workspace_id"]) == ("ada", "workspace.update", str(first))
    assert found["workspace"] == f"'{name}", "no spreadsheet takes it for a formula"
    assert json.loads(found["details"]) == {"fields": ["memo"]}
    assert error(await ada.get("/admin/audit.csv")) == (403, "admin_only")


async def test_the_audit_log_is_narrowed_to_a_time(ada: Caller, root: Caller, owner: Connection) -> None:
    identity = await ada.has(owner)
    await ada.patch(f"/workspaces/{identity}", {"memo": "m"})
    for params, count in (
        ({"since": "2020-01-01T00:00:00Z"}, 1),
        ({"since": "2020-01-01T00:00:00"}, 1),
        ({"until": "2020-01-01T00:00:00Z"}, 0),
        ({"since": "2120-01-01T00:00:00Z"}, 0),
    ):
        assert len((await root.get("/admin/audit", params=params)).json()["items"]) == count, params
    (entry,) = (await root.get("/admin/audit")).json()["items"]
    assert entry["workspace_name"] == "a workspace"


async def test_the_audit_log_is_paged_and_filtered(ada: Caller, root: Caller, owner: Connection) -> None:
    first = await ada.has(owner)
    for number in range(3):
        await ada.patch(f"/workspaces/{first}", {"name": f"n{number}"})
    second = await ada.has(owner)
    await root.delete(f"/workspaces/{second}")
    page = (await root.get("/admin/audit", params={"limit": 2})).json()
    assert [each["action"] for each in page["items"]] == ["workspace.delete", "workspace.update"]
    newest = page["items"][0]
    assert (newest["user"]["username"], newest["kind"], newest["address"]) == ("root", "token", "192.0.2.7")
    assert (newest["workspace_id"], newest["details"]) == (str(second), {"owner": "ada"})
    rest = (await root.get("/admin/audit", params={"cursor": page["next_cursor"]})).json()
    assert (len(rest["items"]), rest["next_cursor"]) == (2, None)
    for params, count in (
        ({"user": str(ada.person.id)}, 3),
        ({"workspace": str(second)}, 1),
        ({"action": "workspace.update"}, 3),
    ):
        assert len((await root.get("/admin/audit", params=params)).json()["items"]) == count, params
    assert error(await root.get("/admin/audit", params={"cursor": "x"})) == (422, "invalid")
    oldest = (await root.get("/admin/audit", params={"order": "oldest", "limit": 3})).json()
    assert [each["id"] for each in oldest["items"]] == sorted(each["id"] for each in oldest["items"])
    last = (await root.get("/admin/audit", params={"order": "oldest", "cursor": oldest["next_cursor"]})).json()
    assert [each["id"] for each in last["items"]] == [newest["id"]]


# -- collections ------------------------------------------------------------------------------------------------------


@pytest.fixture
async def store(database: str, owner: Connection, redis: Redis) -> AsyncIterator[Store]:
    async with (
        open_pool(database, Role.CONTROLLER, max_size=2) as controller,
        open_pool(database, Role.API, max_size=2) as api,
    ):
        records = DatabaseRecords(controller, api)
        yield Store(owner, redis, Watched(records))


@pytest.fixture
def gc(store: Store) -> GcRequests:
    orphans = Orphans(store.records.records, {InstanceBackend.PROCESS: store.world.backend()}, store.leader, RULES)
    return GcRequests(store.collector, orphans, store.records.records)


async def test_a_collection_is_asked_for_done_and_reported(root: Caller, store: Store, gc: GcRequests) -> None:
    await store.add_crowd(20)
    old, new = await store.superseded()
    dry = (await root.post("/admin/gc", {"dry_run": True})).json()["id"]
    real = (await root.post("/admin/gc")).json()["id"]
    waiting = (await root.get("/admin/gc")).json()["items"]
    told = [(each["id"], each["finished_at"], each["report"]) for each in waiting]
    assert told == [(real, None, None), (dry, None, None)]
    assert waiting[0]["requested_by"]["username"] == "root"

    assert await gc.honour()
    assert old in store.world.stored
    assert await gc.honour()
    assert old not in store.world.stored
    assert new in store.world.stored
    assert not await gc.honour()
    done, tried = (await root.get("/admin/gc")).json()["items"]
    assert (done["id"], done["report"]["deleted"], done["report"]["due"]) == (real, 1, [old])
    assert (tried["dry_run"], tried["report"]["deleted"], tried["report"]["due"]) == (True, 0, [old])


async def test_orphan_volumes_are_asked_about_and_no_archive_is_touched(
    root: Caller, store: Store, gc: GcRequests, owner: Connection
) -> None:
    old, _ = await store.superseded()
    lost = WorkspaceId(uuid4())
    await store.world.backend().volumes.create(lost, Incarnation("made"))
    assert error(await root.post("/admin/gc", {"orphans": True, "unknown_too": True})) == (422, "invalid")
    await root.post("/admin/gc", {"orphans": True, "dry_run": True})
    await root.post("/admin/gc", {"orphans": True, "override": True})
    stored = await (await owner.execute("SELECT dry_run, override FROM gc_runs")).fetchall()
    assert stored == [(True, False)] * 2, "to a leader of the version before it removes no archive"
    assert await gc.honour()
    assert lost in store.world.volumes
    assert await gc.honour()
    assert lost not in store.world.volumes
    assert old in store.world.stored
    done, listed = (await root.get("/admin/gc")).json()["items"]
    assert [(each["orphans"], each["dry_run"], each["override"]) for each in (done, listed)] == [
        (True, False, True),
        (True, True, False),
    ]
    assert (done["report"]["deleted"], listed["report"]["due"]) == (1, [f"process: ws-{lost}-home"])


async def test_cycles_report_too_and_failures_are_told(root: Caller, store: Store, gc: GcRequests) -> None:
    await gc.cycle()
    store.records.away.add("known")
    await root.post("/admin/gc")
    assert await gc.honour()
    asked, cycle = (await root.get("/admin/gc")).json()["items"]
    assert (cycle["requested_by"], cycle["report"]["found"]) == (None, 0)
    assert "did not answer" in asked["report"]["error"]


async def test_a_request_that_a_leader_left_is_taken_again(root: Caller, store: Store, gc: GcRequests) -> None:
    await root.post("/admin/gc")
    taken = await store.records.records.take_gc_request()
    assert taken is not None
    assert await gc.honour()
    assert not await gc.honour()


async def test_an_old_word_is_not_acted_on(root: Caller, store: Store, gc: GcRequests, owner: Connection) -> None:
    await store.add_crowd(20)
    old, _ = await store.superseded()
    await root.post("/admin/gc", {"override": True})
    await owner.execute("UPDATE gc_runs SET requested_at = now() - interval '2 hours'")
    assert await gc.honour()
    assert old in store.world.stored
    assert "within an hour" in (await root.get("/admin/gc")).json()["items"][0]["report"]["error"]


async def test_not_more_requests_than_anybody_means(root: Caller) -> None:
    answers = [await root.post("/admin/gc") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [202] * 5 + [409]
    assert error(await root.post("/admin/gc", {"dry_run": True, "override": True})) == (422, "invalid")


# -- what the leader knows --------------------------------------------------------------------------------------------


async def test_progress_is_shown_beside_the_operation_it_is_of(ada: Caller, owner: Connection, redis: Redis) -> None:
    op_id = OpId(uuid4())
    identity = await ada.has(owner, "STANDBY", desired_state="ARCHIVED", operation="ARCHIVING", op_id=op_id)
    await RedisProgress(redis).leave({identity: Progress(op_id, Operation.ARCHIVING, 5, 2, datetime.now(UTC))})
    for path in ("/workspaces", f"/workspaces/{identity}"):
        answer = (await ada.get(path)).json()
        shown = answer["items"][0] if "items" in answer else answer
        assert shown["progress"] == {"bytes": 5, "files": 2}
    await change(owner, identity, op_id=UUID(int=7))
    assert (await ada.get(f"/workspaces/{identity}")).json()["progress"] is None


async def test_logs_are_asked_of_the_leader(ada: Caller, bob: Caller, root: Caller, owner: Connection) -> None:
    stopped = await ada.has(owner, "STANDBY")
    assert error(await ada.get(f"/workspaces/{stopped}/logs")) == (409, "not_running")
    assert error(await bob.get(f"/workspaces/{stopped}/logs")) == (404, "not_found")
    await root.get(f"/workspaces/{stopped}/logs")
    row = await (await owner.execute("SELECT action, details FROM audit_log")).fetchall()
    assert row == [("workspace.logs", {"owner": "ada"})]


async def test_the_last_lines_of_one_that_has_ended_are_its_owners(
    ada: Caller, bob: Caller, owner: Connection, redis: Redis
) -> None:
    stopped = await ada.has(owner, "STANDBY")
    await RedisLastLogs(redis).keep(WorkspaceId(stopped), "one\nwhy it ended\n")
    assert (await ada.get(f"/workspaces/{stopped}/logs")).json() == {"text": "one\nwhy it ended\n", "cut": False}
    assert (await ada.get(f"/workspaces/{stopped}/logs?lines=1")).json() == {"text": "why it ended\n", "cut": True}
    assert error(await bob.get(f"/workspaces/{stopped}/logs")) == (404, "not_found")


async def test_an_error_is_read_about_when_no_leader_can_tell(ada: Caller, owner: Connection, redis: Redis) -> None:
    broken, running = await ada.has(owner, "ERROR"), await ada.has(owner, "RUNNING")
    for identity in (broken, running):
        await RedisLastLogs(redis).keep(WorkspaceId(identity), "why it ended\n")

    async def is_away(_asked: Body) -> str:
        raise Unavailable("The engine does not answer.")

    leader = asyncio.create_task(Answerer(redis, {"logs": is_away}).run())
    try:
        shown = (await ada.get(f"/workspaces/{broken}/logs")).json()
        assert shown == {"text": "why it ended\n", "cut": False}
        assert error(await ada.get(f"/workspaces/{running}/logs")) == (503, "unavailable"), "those are of another run"
    finally:
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)


async def test_losses_are_accepted_for_the_leader_and_written_down(root: Caller, owner: Connection) -> None:
    assert (await root.post("/admin/losses", {"backend": "docker"})).status_code == 204
    assert (await root.post("/admin/losses", {"backend": "docker"})).status_code == 204
    assert set(await losses.accepted(owner)) == {InstanceBackend.DOCKER}
    lines = (await root.get("/admin/audit", params={"action": "losses.accept"})).json()["items"]
    assert [line["details"] for line in lines] == [{"backend": "docker"}] * 2
    assert (await root.post("/admin/losses", {"backend": "moon"})).status_code == 422
