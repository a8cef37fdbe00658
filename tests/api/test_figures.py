"""Figures over time, and the health of the whole, for administrators."""

from datetime import timedelta

from codehub.coordinator.records import DatabaseRecords
from codehub.db.leadership import note_unknown
from codehub.db.leading import open_seat
from codehub.db.pool import Connection, Role, connection, open_pool
from tests.api.caller import Caller
from tests.support import eventually_async


async def test_a_sample_counts_what_is_there_and_forgets_what_is_old(
    database: str, root: Caller, ada: Caller, owner: Connection
) -> None:
    await owner.execute("INSERT INTO samples VALUES (now() - interval '91 days', 9, 9, 9, 9, 9)")
    for phase in ("RUNNING", "RUNNING", "STANDBY", "ARCHIVED", "PENDING", "ERROR"):
        error = "Timeout" if phase == "ERROR" else None
        await ada.has(owner, phase, desired_state="RUNNING", error_reason=error)
    await ada.has(owner, "DELETING", desired_state="DELETED", deleted_at="2026-01-01T00:00:00Z", archive_key="a")
    async with open_pool(database, Role.CONTROLLER) as controller, open_pool(database, Role.API) as api:
        await DatabaseRecords(controller, api).take_sample(timedelta(days=90))
    rows = await (await owner.execute("SELECT running, standby, archived, pending, error FROM samples")).fetchall()
    assert rows == [(2, 1, 1, 1, 1)]
    (point,) = (await root.get("/admin/figures")).json()["phases"]
    assert (point["running"], point["archived"]) == (2, 1)


async def test_starts_and_restores_are_measured_by_what_they_were(root: Caller, ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner)
    lines = (
        ("RESTORING", "ARCHIVED", None, None),
        ("NONE", "STANDBY", 3000, None),  # the restore ended
        ("STARTING", "STANDBY", 20, None),  # resting ended, which is no start
        ("NONE", "RUNNING", 1000, None),
        ("STOPPING", "RUNNING", 50000, None),
        ("NONE", "STANDBY", 700, None),  # a stop is no restore
        ("STARTING", "STANDBY", 10, None),
        ("NONE", "ERROR", 60000, "Timeout"),  # failed: not counted
    )
    for number, (operation, phase, duration, error) in enumerate(lines):
        await owner.execute(
            """INSERT INTO workspace_history (workspace_id, at, phase, operation, duration_ms, error_reason)
               VALUES (%s, now() - interval '1 hour' + %s * interval '1 second', %s, %s, %s, %s)""",
            [identity, number, phase, operation, duration, error],
        )
    found = (await root.get("/admin/figures", params={"hours": 24})).json()
    assert [(each["count"], each["p50_ms"]) for each in found["starts"]] == [(1, 1000)]
    assert [(each["count"], each["p50_ms"]) for each in found["restores"]] == [(1, 3000)]


async def test_archives_are_as_the_last_collections_found_them(root: Caller, owner: Connection) -> None:
    for report in ('{"found": 3, "bytes": 4096}', '{"error": "The store is out."}'):
        await owner.execute(
            "INSERT INTO gc_runs (id, started_at, finished_at, report) VALUES (gen_random_uuid(), now(), now(), %s)",
            [report],
        )
    found = (await root.get("/admin/figures")).json()["archives"]
    assert [(each["count"], each["bytes"]) for each in found] == [(3, 4096)]


async def test_health_is_what_readyz_says(root: Caller) -> None:
    found = (await root.get("/admin/health")).json()
    assert found["ready"] is True
    assert found["dependencies"] == []
    assert found["version"]


async def test_health_says_how_things_stand_with_a_code_for_what_is_not_well(root: Caller, owner: Connection) -> None:
    found = {one["check"]: one for one in (await root.get("/admin/health")).json()["findings"]}
    assert found["leader"]["code"] == "CH-LEAD-1", "nobody leads here"
    assert found["leader"]["state"] == "failed"
    assert found["leader"]["advice"]
    assert found["leader"]["link"] == "docs/runbook.md#ch-lead-1"
    assert (found["operations"]["state"], found["operations"]["code"]) == ("ok", None)
    assert found["clock"]["state"] == "ok"
    created = (await root.post("/workspaces", json={"name": "w", "image_ref": "ide"})).json()
    await owner.execute("UPDATE workspaces SET phase = 'ERROR' WHERE id = %s", [created["id"]])

    async def is_told() -> bool:
        told = {one["check"]: one for one in (await root.get("/admin/health")).json()["findings"]}
        return (told["operations"]["state"], told["operations"]["code"]) == ("warning", "CH-OP-2")

    await eventually_async(is_told, "within seconds: things are not looked at for each request")


async def test_health_tells_left_overs_where_another_process_leads(root: Caller, database: str) -> None:
    async with open_seat(database) as seat, open_pool(database, Role.CONTROLLER, max_size=1) as controller:
        assert await seat.try_to_take()
        epoch = await seat.begin("elsewhere:1")
        async with connection(controller) as conn:
            await note_unknown(conn, epoch, 2)

        async def is_told() -> bool:
            told = {one["check"]: one for one in (await root.get("/admin/health")).json()["findings"]}
            return "orphans" in told and told["orphans"]["detail"].startswith("2 containers or volumes")

        await eventually_async(is_told, "within seconds")
