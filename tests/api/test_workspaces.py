"""Workspaces through the API: made, read, changed, deleted, brought back, recovered, kept awake."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from codehub.db.pool import Connection
from codehub.web.api import schemas
from tests.api.caller import Caller, error
from tests.db.support import change, read

ORIGIN, OP = UUID(int=7), UUID(int=8)
NEVER_SHOWN = {"endpoint", "home_ctx", "source_archive", "asked_by", "recover_request"}


async def audited(conn: Connection) -> list[tuple[str, Any]]:
    rows = await conn.execute("SELECT action, details FROM audit_log WHERE action LIKE 'workspace%' ORDER BY id")
    return [(action, details) for action, details in await rows.fetchall()]


# -- making -----------------------------------------------------------------------------------------------------------


async def test_a_workspace_is_made_with_what_the_installation_does_by_default(ada: Caller, owner: Connection) -> None:
    answer = await ada.post("/workspaces", {"name": "  thesis "})
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert answer.headers["location"] == f"/api/v1/workspaces/{made['id']}"
    assert (made["name"], made["image_ref"], made["backend"]) == ("thesis", "ide", "process")
    assert (made["standby_ttl_seconds"], made["archive_ttl_seconds"]) == (600, 1800)
    assert (made["desired_state"], made["phase"], made["operation"]) == ("RUNNING", "PENDING", "NONE")
    assert made["owner"] == {"id": str(ada.person.id), "username": "ada"}
    assert made["url"] == f"/w/{made['id']}/"
    row = await read(owner, made["id"])
    assert (row.storage_backend, row.wish.asked_by) == ("directory", "user ada")
    assert await audited(owner) == [("workspace.create", {"name": "thesis"})]


async def test_everything_can_be_given(ada: Caller) -> None:
    given = {
        "name": "course",
        "description": "line\nline",
        "memo": "한국어 ☃",
        "image_ref": "ide",
        "backend": "docker",
        "standby_ttl_seconds": 0,
        "archive_ttl_seconds": 60,
        "desired_state": "ARCHIVED",
    }
    made = (await ada.post("/workspaces", given)).json()
    assert {name: made[name] for name in given} == given


async def test_what_is_given_has_the_schemas_names(ada: Caller) -> None:
    given = {
        "name": "course",
        "image_ref": f"registry.example/team/ide@sha256:{'0' * 64}",
        "instance_backend": "docker",
        "storage_backend": "docker-volume",
    }
    made = (await ada.post("/workspaces", given | {"desired": "STANDBY"})).json()
    assert {name: made[name] for name in given} == given
    assert (made["desired_state"], made["backend"]) == ("STANDBY", "docker")


async def test_desired_is_another_name_of_desired_state(ada: Caller, owner: Connection) -> None:
    path = f"/workspaces/{await ada.has(owner)}"
    assert (await ada.patch(path, {"desired": "STANDBY"})).json()["desired_state"] == "STANDBY"
    assert (await ada.patch(path, {"desired": "RUNNING", "desired_state": "RUNNING"})).status_code == 200
    assert error(await ada.patch(path, {"desired": "RUNNING", "desired_state": "STANDBY"})) == (422, "invalid")
    assert error(await ada.patch(path, {"desired": None})) == (422, "invalid")


async def test_the_object_has_the_schemas_names(ada: Caller, owner: Connection) -> None:
    key = f"{ORIGIN}/{OP}/home.tar.zst"
    identity = await ada.has(
        owner, id=ORIGIN, phase="ERROR", archive_key=key, op_id=OP, error_reason="Timeout", error_count=2,
        observed_at="2026-01-02T03:04:05+00:00",
    )  # fmt: skip
    shown = (await ada.get(f"/workspaces/{identity}")).json()
    assert (shown["owner_user_id"], shown["home_store_key"]) == (str(ada.person.id), f"ws-{identity}-home")
    assert (shown["instance_backend"], shown["storage_backend"]) == ("process", "directory")
    assert (shown["archive_key"], shown["op_id"], shown["observed_at"]) == (key, str(OP), "2026-01-02T03:04:05+00:00")
    assert (shown["error_reason"], shown["error_count"]) == ("Timeout", 2)
    assert (shown["error"]["reason"], shown["error"]["count"], shown["backend"]) == ("Timeout", 2, "process")


async def test_an_archive_that_is_gone_or_damaged_is_none(ada: Caller, owner: Connection) -> None:
    for reason, archived in (
        ("ArchiveUploaded", True),
        ("ArchiveUnreachable", True),
        ("ArchiveNotFound", False),
        ("ArchiveCorrupted", False),
    ):
        condition = {"storage.archive_ready": {"status": reason == "ArchiveUploaded", "reason": reason}}
        identity = await ada.has(owner, archive_key=f"{ORIGIN}/{OP}/home.tar.zst", conditions=condition)
        assert (await ada.get(f"/workspaces/{identity}")).json()["archived"] is archived, reason


async def test_what_is_being_retried_has_a_message(ada: Caller, owner: Connection) -> None:
    healthy = {"status": True, "reason": "AllConditionsMet", "message": "The engine did not answer."}
    for conditions, told in (({"policy.healthy": healthy}, healthy["message"]), ({}, "The last attempt failed. It is")):
        identity = await ada.has(owner, error_reason="Unreachable", error_count=1, conditions=conditions)
        assert (await ada.get(f"/workspaces/{identity}")).json()["error"]["message"].startswith(told)


async def test_what_is_wrong_is_said_in_sentences(ada: Caller) -> None:
    for given, said in (
        ({"name": "a\0b"}, "body.name: has characters that are not allowed here."),
        ({"name": " "}, "body.name: must not be empty."),
        ({}, "body.name: this is missing."),
        ({"name": "w", "colour": 1}, "body.colour: there is no such field."),
        (
            {"name": "w", "standby_ttl_seconds": 5},
            "body.standby_ttl_seconds: must be 0 (never) or at least 60 seconds.",
        ),
        ({"name": "w", "backend": "vm"}, "body.backend: must be process, docker or k8s."),
        ({"name": "w", "image_ref": "x'y"}, "image_ref: x'y is not offered for process workspaces."),
    ):
        message = (await ada.post("/workspaces", given)).json()["error"]["message"]
        assert message.startswith(said), message
    for path in ("/workspaces/x", "/workspaces?limit=x", "/workspaces?phase=x"):
        message = (await ada.get(path)).json()["error"]["message"]
        assert message.endswith("."), message
        assert "'" not in message


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({}, "body.name"),
    ({"name": " "}, "body.name"),
    ({"name": "x" * 256}, "body.name"),
    ({"name": "a\0b"}, "body.name"),
    ({"name": "a\nb"}, "body.name"),
    ({"name": "a\u202eb"}, "body.name"),
    ({"name": "\ud800"}, "body.name"),
    ({"name": 5}, "body.name"),
    ({"name": "w", "memo": "a\0b"}, "body.memo"),
    ({"name": "w", "colour": "red"}, "body.colour"),
    ({"name": "w", "standby_ttl_seconds": 59}, "must be 0 (never) or at least 60 seconds"),
    ({"name": "w", "archive_ttl_seconds": -1}, "body.archive_ttl_seconds"),
    ({"name": "w", "standby_ttl_seconds": 10**12}, "body.standby_ttl_seconds"),
    ({"name": "w", "standby_ttl_seconds": "600"}, "body.standby_ttl_seconds"),
    ({"name": "w", "standby_ttl_seconds": True}, "body.standby_ttl_seconds"),
    ({"name": "w", "desired_state": "DELETED"}, "body.desired_state"),
    ({"name": "w", "desired_state": "PENDING"}, "body.desired_state"),
    ({"name": "w", "image_ref": "other"}, "Choose one of: ide, jupyterlab"),
    ({"name": "w", "image_ref": "jupyterlab", "backend": "docker"}, "Choose one of: registry.example/team/*, ide."),
    ({"name": "w", "image_ref": "registry.example/team/x"}, "is not offered for process workspaces."),
    ({"name": "w", "image_ref": "registry.example/team/*", "backend": "docker"}, "is not offered"),
    ({"name": "w", "backend": "docker", "instance_backend": "process"}, "backend and instance_backend are the same"),
    ({"name": "w", "desired": "RUNNING", "desired_state": "STANDBY"}, "desired_state and desired are the same"),
    ({"name": "w", "desired": "DELETED"}, "body.desired_state: must be RUNNING, STANDBY or ARCHIVED."),
    ({"name": "w", "instance_backend": "k8s"}, "k8s workspaces are not offered here."),
    ({"name": "w", "storage_backend": "k8s-pvc"}, "k8s-pvc does not go with process workspaces."),
    ({"name": "w", "backend": "k8s"}, "Choose one of: process, docker."),
    ({"name": "w", "backend": "vm"}, "body.backend"),
    ({"name": "w", "from_archive": "x"}, "body.from_archive"),
]


async def test_what_cannot_be_used_is_refused(ada: Caller) -> None:
    for given, told in UNUSABLE:
        answer = await ada.post("/workspaces", given)
        assert error(answer) == (422, "invalid"), given
        assert told in answer.json()["error"]["message"]


async def test_a_new_workspace_from_an_archive(ada: Caller, bob: Caller, root: Caller, owner: Connection) -> None:
    mine, theirs = await ada.has_archived(owner), await bob.has_archived(owner)
    made = await ada.post("/workspaces", {"name": "copy", "from_archive": str(mine)})
    assert made.status_code == 201
    assert (await read(owner, made.json()["id"])).source_archive == (await read(owner, mine)).status.archive_key
    for caller in (ada, root):  # a copy of a home is a home in other hands
        answer = await caller.post("/workspaces", {"name": "copy", "from_archive": str(theirs)})
        assert error(answer) == (404, "not_found")
    await change(owner, mine, deleted_at=datetime.now(UTC) - timedelta(days=6), desired_state="DELETED")
    assert (await ada.post("/workspaces", {"name": "copy", "from_archive": str(mine)})).status_code == 201
    await change(owner, mine, deleted_at=datetime.now(UTC) - timedelta(days=8))
    assert error(await ada.post("/workspaces", {"name": "copy", "from_archive": str(mine)})) == (410, "gone")
    blank = await ada.has(owner, "PENDING", desired_state="ARCHIVED")
    assert error(await ada.post("/workspaces", {"name": "copy", "from_archive": str(blank)})) == (409, "conflict")


# -- reading ----------------------------------------------------------------------------------------------------------


async def test_the_object_is_what_the_schema_says(ada: Caller, owner: Connection) -> None:
    identity = await ada.has_archived(owner, deleted_at=datetime.now(UTC), phase="DELETING", desired_state="DELETED")
    shown = (await ada.get(f"/workspaces/{identity}")).json()
    assert set(shown) == set(schemas.Workspace.model_fields)
    assert not NEVER_SHOWN & set(shown)
    schemas.Workspace.model_validate(shown)


async def test_it_says_when_it_will_stop_and_why(ada: Caller, owner: Connection) -> None:
    since = datetime(2026, 1, 2, tzinfo=UTC)
    identity = await ada.has(owner, "RUNNING", phase_changed_at=since)
    coming = (await ada.get(f"/workspaces/{identity}")).json()["next_transition"]
    assert coming == {"to": "STANDBY", "at": "2026-01-02T00:10:00+00:00", "because": "10 min since it was started"}


async def test_it_says_what_is_wrong_and_what_can_be_done(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(
        owner,
        "ERROR",
        error_reason="DataLost",
        error_count=1,
        conditions={
            "policy.healthy": {"status": False, "reason": "DataLost", "message": "The home is lost."},
            "storage.volume_ready": {"status": False, "reason": "VolumeNotFound"},
        },
        archive_key="a/b",
    )
    shown = (await ada.get(f"/workspaces/{identity}")).json()["error"]
    assert shown == {
        "reason": "DataLost",
        "count": 1,
        "retry_at": None,
        "message": "The home is lost.",
        "can_recover_from": ["as_is", "archive", "blank"],
    }


async def test_foreign_workspaces_are_not_there(ada: Caller, bob: Caller, owner: Connection) -> None:
    identity = await bob.has(owner)
    assert error(await ada.get(f"/workspaces/{identity}")) == (404, "not_found")
    assert error(await ada.patch(f"/workspaces/{identity}", {"name": "mine"})) == (404, "not_found")
    assert error(await ada.get(f"/workspaces/{uuid4()}")) == (404, "not_found")


async def test_an_administrator_acts_on_anybody_s_and_it_is_written_down(
    ada: Caller, root: Caller, owner: Connection
) -> None:
    identity = await ada.has(owner)
    assert (await root.patch(f"/workspaces/{identity}", {"desired_state": "ARCHIVED"})).status_code == 200
    details = {"fields": ["desired_state"], "desired_state": "ARCHIVED", "owner": "ada"}
    assert await audited(owner) == [("workspace.update", details)]
    assert (await read(owner, identity)).wish.asked_by == "user root"


# -- changing ---------------------------------------------------------------------------------------------------------


async def test_what_is_left_out_stays(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, name="w", description="d", memo="m")
    shown = (await ada.patch(f"/workspaces/{identity}", {"memo": None, "standby_ttl_seconds": 0})).json()
    assert (shown["name"], shown["description"], shown["memo"]) == ("w", "d", None)
    assert (shown["standby_ttl_seconds"], shown["archive_ttl_seconds"]) == (0, 1800)
    assert (await read(owner, identity)).wish.asked_by == ""


async def test_a_change_that_cannot_be_is_refused(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner)
    for given in ({"name": None}, {"image_ref": "other"}, {"standby_ttl_seconds": 5}, {"phase": "x"}):
        assert error(await ada.patch(f"/workspaces/{identity}", given)) == (422, "invalid"), given


async def test_an_image_that_is_no_longer_offered_may_stay(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, image_ref="old")
    assert (await ada.patch(f"/workspaces/{identity}", {"image_ref": "old", "name": "n"})).status_code == 200


async def test_if_match_protects_against_lost_updates(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, name="w")
    path = f"/workspaces/{identity}"
    seen = (await ada.get(path)).headers["etag"]
    first = await ada.patch(path, {"memo": "mine"}, headers={"If-Match": seen})
    assert first.status_code == 200
    assert first.headers["etag"] == (await ada.get(path)).headers["etag"] != seen
    second = await ada.patch(path, {"memo": "theirs"}, headers={"If-Match": seen})
    assert error(second) == (412, "outdated")
    assert (await ada.get(path)).json()["memo"] == "mine"
    either = await ada.patch(path, {"memo": "both"}, headers={"If-Match": f'"x", {first.headers["etag"]}'})
    assert either.status_code == 200
    assert (await ada.patch(path, {"memo": "any"}, headers={"If-Match": "*"})).status_code == 200
    assert error(await ada.delete(path, headers={"If-Match": seen})) == (412, "outdated")


async def test_a_state_is_not_asked_for_during_an_operation_and_a_name_is(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, "STANDBY", desired_state="RUNNING", operation="STARTING")
    answer = await ada.patch(f"/workspaces/{identity}", {"desired_state": "STANDBY", "name": "lost"})
    assert error(answer) == (409, "conflict")
    state = {"phase": "STANDBY", "operation": "STARTING", "desired_state": "RUNNING"}
    assert answer.json()["error"]["details"] == state
    shown = (await ada.patch(f"/workspaces/{identity}", {"name": "kept"})).json()
    assert (shown["name"], shown["desired_state"]) == ("kept", "RUNNING")


async def test_starting_counts_as_access(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, "STANDBY", last_access_at=datetime(2026, 1, 2, tzinfo=UTC))
    shown = (await ada.patch(f"/workspaces/{identity}", {"desired_state": "RUNNING"})).json()
    assert datetime.now(UTC) - datetime.fromisoformat(shown["last_access_at"]) < timedelta(minutes=1)


# -- deleting ---------------------------------------------------------------------------------------------------------


async def test_deleting_and_taking_it_back(ada: Caller, owner: Connection) -> None:
    running = await ada.has(owner, "RUNNING")
    answer = await ada.delete(f"/workspaces/{running}")
    assert answer.status_code == 202
    assert (answer.json()["desired_state"], answer.json()["deleted_at"]) == ("DELETED", None)
    assert error(await ada.patch(f"/workspaces/{running}", {"desired_state": "RUNNING"})) == (409, "conflict")
    assert error(await ada.patch(f"/workspaces/{running}", {"name": "x"})) == (409, "conflict")
    assert error(await ada.post(f"/workspaces/{running}/keep-awake", {"hours": 1})) == (409, "conflict")
    assert (await ada.post(f"/workspaces/{running}/undelete")).json()["desired_state"] == "ARCHIVED"

    archived = await ada.has_archived(owner)
    shown = (await ada.delete(f"/workspaces/{archived}")).json()
    deleted_at = datetime.fromisoformat(shown["deleted_at"])
    assert datetime.fromisoformat(shown["undelete_until"]) == deleted_at + timedelta(days=7)
    back = (await ada.post(f"/workspaces/{archived}/undelete")).json()
    assert (back["desired_state"], back["deleted_at"], back["undelete_until"]) == ("ARCHIVED", None, None)
    assert [action for action, _ in await audited(owner)] == [
        "workspace.delete", "workspace.undelete", "workspace.delete", "workspace.undelete",
    ]  # fmt: skip


async def test_a_purge_keeps_nothing(ada: Caller, owner: Connection) -> None:
    identity = await ada.has_archived(owner)
    shown = (await ada.delete(f"/workspaces/{identity}", params={"purge": True})).json()
    assert shown["deleted_at"] is not None
    assert shown["undelete_until"] is None
    assert error(await ada.post(f"/workspaces/{identity}/undelete")) == (410, "gone")
    assert [action for action, _ in await audited(owner)] == ["workspace.purge"]


async def test_what_a_deleted_one_waits_for_is_told(ada: Caller, owner: Connection) -> None:
    async def told(identity: object) -> tuple[str, str | None] | None:
        removal = (await ada.get(f"/workspaces/{identity}")).json()["removal"]
        return None if removal is None else (removal["reason"], removal["at"])

    identity = await ada.has_archived(owner)
    assert await told(identity) is None
    shown = (await ada.delete(f"/workspaces/{identity}")).json()
    assert await told(identity) == ("trash", shown["undelete_until"])
    await change(owner, identity, phase="DELETING")
    await ada.delete(f"/workspaces/{identity}", params={"purge": True})
    reason, at = await told(identity) or ("", None)
    assert reason == "archive"
    assert at is not None
    assert datetime.fromisoformat(at) - datetime.now(UTC) <= timedelta(minutes=1)
    await owner.execute("DELETE FROM archive_operations")
    await change(owner, identity, description="the row was written")
    assert await told(identity) == ("unremembered", None)
    key = (await ada.get(f"/workspaces/{identity}")).json()["archive_key"]
    op = key.split("/")[1]
    await owner.execute("INSERT INTO archive_operations (workspace_id, op_id) VALUES (%s, %s)", [identity, op])
    assert (await told(identity) or ("",))[0] == "archive", "an administrator discarded it"
    await change(owner, identity, phase="DELETED")
    assert await told(identity) is None


@pytest.mark.parametrize(
    ("volume", "asks"),
    [
        ({"status": True, "reason": "VolumeProvisioned"}, True),
        ({"status": False, "reason": "VolumeUnknown"}, True),
        ({"status": False, "reason": "VolumeNotFound"}, False),
    ],
)
@pytest.mark.parametrize("confirmed_by", ["confirm", "purge"])
async def test_a_home_that_cannot_be_archived_is_not_lost_without_a_word(
    ada: Caller, owner: Connection, volume: dict[str, object], asks: bool, confirmed_by: str
) -> None:
    error_row = {"error_reason": "DataLost", "error_count": 1, "conditions": {"storage.volume_ready": volume}}
    path = f"/workspaces/{await ada.has(owner, 'ERROR', **error_row)}"
    answer = await ada.delete(path)
    if asks:
        assert error(answer) == (409, "needs_confirmation")
        assert "would be lost, there is no archive of it" in answer.json()["error"]["message"]
        assert (await ada.get(path)).json()["desired_state"] == "RUNNING"
        answer = await ada.delete(path, params={confirmed_by: True})
    assert answer.status_code == 202
    assert answer.json()["deleted_at"] is not None


async def test_nothing_is_deleted_or_recovered_during_an_operation(ada: Caller, owner: Connection) -> None:
    path = f"/workspaces/{await ada.has(owner, 'STANDBY', desired_state='DELETED', operation='STOPPING')}"
    for answer in (await ada.delete(path), await ada.post(f"{path}/undelete"), await ada.post(f"{path}/recover")):
        assert error(answer) == (409, "conflict")


# -- safe mode --------------------------------------------------------------------------------------------------------


async def test_it_starts_in_safe_mode_once(ada: Caller, owner: Connection) -> None:
    path = f"/workspaces/{await ada.has(owner, phase='STANDBY', desired_state='STANDBY')}"
    started = (await ada.patch(path, {"desired_state": "RUNNING", "safe_mode": True})).json()
    assert (started["desired_state"], started["safe_mode"]) == ("RUNNING", True)
    assert (await audited(owner))[-1][1]["safe_mode"] is True
    assert (await ada.patch(path, {"desired_state": "STANDBY"})).status_code == 200
    assert (await ada.patch(path, {"desired_state": "RUNNING"})).json()["safe_mode"] is False


async def test_safe_mode_goes_with_a_start(ada: Caller, owner: Connection) -> None:
    path = f"/workspaces/{await ada.has(owner, phase='STANDBY', desired_state='RUNNING')}"
    for body in ({"safe_mode": True}, {"desired_state": "STANDBY", "safe_mode": True}):
        assert error(await ada.patch(path, body)) == (422, "invalid")
    assert error(await ada.post(f"{path}/recover", {"safe_mode": True})) == (422, "invalid")


async def test_a_recovery_can_start_in_safe_mode(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, phase="ERROR", error_reason="RetryExceeded", desired_state="STANDBY")
    answer = await ada.post(f"/workspaces/{identity}/recover", {"desired_state": "RUNNING", "safe_mode": True})
    assert (answer.json()["desired_state"], answer.json()["safe_mode"]) == ("RUNNING", True)
    assert (await read(owner, identity)).wish.recover_request is not None


# -- recovering -------------------------------------------------------------------------------------------------------


async def test_a_recovery_is_a_numbered_answer_to_one_error(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, "ERROR", error_reason="Timeout", archive_key="a/b")
    assert (await ada.post(f"/workspaces/{identity}/recover")).status_code == 200
    first = (await read(owner, identity)).wish.recover_request
    assert first is not None
    assert (first.source, first.answers, first.forced) == ("as_is", "Timeout", False)
    body = {"from": "blank", "forced": True}
    assert (await ada.post(f"/workspaces/{identity}/recover", body)).status_code == 200
    second = (await read(owner, identity)).wish.recover_request
    assert second is not None
    assert (second.source, second.forced, second.id == first.id) == ("blank", True, False)
    assert [details for _, details in await audited(owner)] == [
        {"from": "as_is", "forced": False}, {"from": "blank", "forced": True},
    ]  # fmt: skip


async def test_a_recovery_from_what_is_not_there_is_refused(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, "ERROR", error_reason="Timeout")
    answer = await ada.post(f"/workspaces/{identity}/recover", {"from": "archive"})
    assert error(answer) == (409, "conflict")
    assert "no archive" in answer.json()["error"]["message"]


# -- keeping awake ----------------------------------------------------------------------------------------------------


async def test_a_lease_puts_the_stop_off_and_ends(ada: Caller, owner: Connection) -> None:
    identity = await ada.has(owner, "RUNNING")
    path = f"/workspaces/{identity}/keep-awake"
    shown = (await ada.post(path, {"hours": 24})).json()
    until = datetime.fromisoformat(shown["keep_awake_until"])
    assert timedelta(hours=23, minutes=59) < until - datetime.now(UTC) <= timedelta(hours=24)
    assert datetime.fromisoformat(shown["next_transition"]["at"]) == until + timedelta(seconds=600)
    assert "kept awake" in shown["next_transition"]["because"]
    assert (await ada.post(path, {"hours": 0})).json()["keep_awake_until"] is None
    for hours in (24.1, -1, "8h", None):
        assert error(await ada.post(path, {"hours": hours})) == (422, "invalid")
