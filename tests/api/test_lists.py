"""Lists through the API: of workspaces, of what happened to one, of what is offered."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from codehub.db.pool import Connection
from tests.api.caller import Caller, error
from tests.db.support import change

# -- lists ------------------------------------------------------------------------------------------------------------


async def names(caller: Caller, **params: Any) -> list[str]:
    answer = await caller.get("/workspaces", params=params)
    assert answer.status_code == 200, answer.text
    return [each["name"] for each in answer.json()["items"]]


async def test_pages_hold_everything_once_newest_first(ada: Caller, bob: Caller, owner: Connection) -> None:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    for number in range(7):
        await ada.has(owner, name=f"w{number}", created_at=at + timedelta(seconds=number // 2))  # some at the same time
    await bob.has(owner, name="not ada's")
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await ada.get("/workspaces", params={"limit": 2, **cursor})).json()
        assert len(page["items"]) <= 2
        found += [each["id"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
        await ada.has(owner, name="made meanwhile")
    assert len(found) == len(set(found)) == 7
    everything = (await ada.get("/workspaces")).json()["items"]
    assert [each["id"] for each in everything if each["name"] != "made meanwhile"] == found


async def test_a_cursor_that_is_not_ours_is_refused(ada: Caller) -> None:
    identity = (await ada.post("/workspaces", {"name": "w"})).json()["id"]
    for cursor in ("x", "AAAA", "MjAyNi0wMS0wMnxh", "é", "=" * 9, "\x00"):
        for path in ("/workspaces", f"/workspaces/{identity}/history"):
            assert error(await ada.get(path, params={"cursor": cursor})) == (422, "invalid"), (path, cursor)


async def test_lists_are_filtered(ada: Caller, owner: Connection) -> None:
    await ada.has(owner, "RUNNING", name="Thesis_1")
    await ada.has(owner, "STANDBY", name="thesisX1", description="50% done")
    await ada.has(owner, "ERROR", name="course")
    await ada.has_archived(owner, name="old", phase="DELETING", desired_state="DELETED", deleted_at=datetime.now(UTC))
    await ada.has(owner, "DELETED", name="gone", deleted_at=datetime.now(UTC))
    assert sorted(await names(ada)) == ["Thesis_1", "course", "thesisX1"]
    assert sorted(await names(ada, phase=["RUNNING", "ERROR"])) == ["Thesis_1", "course"]
    assert sorted(await names(ada, q="THESIS")) == ["Thesis_1", "thesisX1"]
    assert await names(ada, q="thesis_") == ["Thesis_1"]
    assert await names(ada, q="0%") == ["thesisX1"]
    assert await names(ada, q="\\") == []
    assert await names(ada, deleted=True) == ["old"]
    assert await names(ada, deleted=True, phase="DELETED") == ["gone"]


async def test_workspaces_are_tagged_and_found_by_their_tags(ada: Caller) -> None:
    made = await ada.post("/workspaces", {"name": "one", "desired_state": "ARCHIVED", "tags": [" gpu ", "gpu", "모델"]})
    one = made.json()
    assert (one["tags"], one["is_favorite"]) == (["gpu", "모델"], False)
    await ada.post("/workspaces", {"name": "two", "desired_state": "ARCHIVED", "tags": ["gpu", "100%"]})
    assert sorted(await names(ada, tag="gpu")) == ["one", "two"]
    assert await names(ada, tag=["gpu", "모델"]) == ["one"]
    assert await names(ada, tag="gp") == [], "a tag is meant as a whole"
    assert await names(ada, q="모") == ["one"]
    assert await names(ada, q="0%") == ["two"]
    path = f"/workspaces/{one['id']}"
    changed = (await ada.patch(path, {"is_favorite": True})).json()
    assert (changed["tags"], changed["is_favorite"]) == (["gpu", "모델"], True), "what is left out stays"
    assert (await ada.patch(path, {"tags": []})).json()["tags"] == []
    for wrong in (["x" * 51], ["a", ""], ["a\nb"], [str(n) for n in range(21)], "gpu", [1], None):
        assert error(await ada.patch(path, {"tags": wrong})) == (422, "invalid"), wrong


async def test_a_list_shows_what_is_written_next(ada: Caller, owner: Connection) -> None:
    """Objects are kept from one list to the next: only for as long as their row is what it was."""
    identity = await ada.has(owner, name="before")
    assert await names(ada) == ["before"]
    await change(owner, identity, memo="changed")
    await change(owner, identity, name="after")
    assert await names(ada) == ["after"]
    one = await ada.get(f"/workspaces/{identity}")
    assert (await ada.get("/workspaces")).json()["items"] == [one.json()]


# -- history and images -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [True, "8", None, [], -1, 25])
async def test_hours_are_a_number(ada: Caller, owner: Connection, hours: object) -> None:
    path = f"/workspaces/{await ada.has(owner, 'RUNNING')}/keep-awake"
    assert error(await ada.post(path, {"hours": hours})) == (422, "invalid")


async def test_one_that_cannot_be_read_hides_no_other(ada: Caller, owner: Connection) -> None:
    strange = await ada.has(owner, "STANDBY", name="strange")
    await ada.has(owner, "STANDBY", name="plain")
    await change(owner, strange, error_reason="OfANewerVersion")
    answer = await ada.get("/workspaces")
    assert answer.status_code == 200
    assert [each["name"] for each in answer.json()["items"]] == ["plain"]


async def test_history_is_paged_newest_first(ada: Caller, bob: Caller, owner: Connection) -> None:
    identity = await ada.has(owner)
    at = datetime(2026, 1, 2, tzinfo=UTC)
    for number in range(5):
        await owner.execute(
            """INSERT INTO workspace_history (workspace_id, at, phase, operation, reason, cause, duration_ms)
               VALUES (%s, %s, 'STANDBY', 'NONE', %s, 'user ada', %s)""",
            [identity, at + timedelta(seconds=number // 2), f"r{number}", number],
        )
    first = (await ada.get(f"/workspaces/{identity}/history", params={"limit": 3})).json()
    assert [line["reason"] for line in first["items"]] == ["r4", "r3", "r2"]
    assert first["items"][0] == {
        "at": "2026-01-02T00:00:02+00:00",
        "phase": "STANDBY",
        "operation": "NONE",
        "error_reason": None,
        "reason": "r4",
        "cause": "user ada",
        "duration_ms": 4,
    }
    rest = {"limit": 3, "cursor": first["next_cursor"]}
    second = (await ada.get(f"/workspaces/{identity}/history", params=rest)).json()
    assert ([line["reason"] for line in second["items"]], second["next_cursor"]) == (["r1", "r0"], None)
    assert error(await bob.get(f"/workspaces/{identity}/history")) == (404, "not_found")


async def test_images_say_what_is_offered(ada: Caller) -> None:
    assert (await ada.get("/images")).json() == {
        "items": [
            {"name": "ide", "backends": ["process", "docker"], "is_pattern": False},
            {"name": "jupyterlab", "backends": ["process"], "is_pattern": False},
            {"name": "registry.example/team/*", "backends": ["docker"], "is_pattern": True},
        ],
        "default_backend": "process",
    }
