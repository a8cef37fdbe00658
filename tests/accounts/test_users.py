"""Users: made and changed by administrators, never without one of them left, out at once when disabled."""

import asyncio
from datetime import UTC, datetime
from uuid import uuid4

import httpx
import psycopg
import pytest

from codehub.db.pool import Connection, Pool, connection
from codehub.errors import Conflict, NotAllowed
from codehub.model.workspace import Desired
from codehub.services import accounts, audit
from codehub.services.accounts import Change
from codehub.services.actors import Actor, ActorKind, Scope, UserRole
from tests.accounts.people import (
    Person,
    add_person,
    blocks_somebody,
    session_headers,
    set_password,
    some_password,
    token_headers,
)
from tests.db.support import add_workspace, change, read
from tests.support import eventually_async

PASSWORD = "correct horse battery"


@pytest.fixture
async def root(pool: Pool) -> Person:
    root = await add_person(pool, "root", UserRole.ADMIN)
    await some_password(pool, root)
    return root


@pytest.fixture
async def as_root(client: httpx.AsyncClient, pool: Pool, root: Person) -> httpx.AsyncClient:
    client.headers.update(await session_headers(pool, root))
    return client


async def status_of(client: httpx.AsyncClient, headers: dict[str, str]) -> int:
    return (await client.get("/api/v1/session", headers={"Cookie": "", **headers})).status_code


async def test_a_user_who_was_made_can_log_in(as_root: httpx.AsyncClient) -> None:
    body = {"username": "ada", "password": PASSWORD}
    made = await as_root.post("/api/v1/users", json=body)
    assert made.status_code == 201
    user = made.json()
    assert user | {"id": "", "created_at": ""} == {
        "id": "",
        "username": "ada",
        "role": "user",
        "disabled": False,
        "disabled_at": None,
        "created_at": "",
        "login": "password",
        "last_login_at": None,
        "max_running": None,
        "max_workspaces": None,
    }
    assert (await as_root.get(f"/api/v1/users/{user['id']}")).json() == user
    assert (await as_root.post("/api/v1/login", json=body)).status_code == 200


async def test_a_user_is_listed_once_however_the_pages_are_cut(as_root: httpx.AsyncClient, pool: Pool) -> None:
    for number in range(6):
        await add_person(pool, f"user-{number}")
    names: list[str] = []
    cursor = ""
    while True:
        page = (await as_root.get(f"/api/v1/users?limit=3{cursor}")).json()
        names += [item["username"] for item in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert names == ["root", *(f"user-{number}" for number in range(6))]


async def test_users_are_found_by_name_with_their_last_login(as_root: httpx.AsyncClient, pool: Pool) -> None:
    for name in ("ada", "ada_2", "bob"):
        await add_person(pool, name)
    await as_root.post("/api/v1/users", json={"username": "grace", "password": PASSWORD})
    await as_root.post("/api/v1/login", json={"username": "grace", "password": PASSWORD}, headers={"Cookie": ""})
    as_root.cookies.clear()
    for text, names in (
        ("ADA", ["ada", "ada_2"]),
        ("a_", ["ada_2"]),
        ("%", []),
        ("", ["root", "ada", "ada_2", "bob", "grace"]),
    ):
        answer = await as_root.get("/api/v1/users", params={"q": text})
        assert answer.status_code == 200, answer.text
        found = answer.json()["items"]
        assert [each["username"] for each in found] == names, text
    everybody = (await as_root.get("/api/v1/users")).json()["items"]
    logins = {each["username"]: each["last_login_at"] for each in everybody}
    assert logins["grace"] is not None
    assert logins["bob"] is None


async def test_a_users_own_limits_are_set_and_taken_away(as_root: httpx.AsyncClient, pool: Pool) -> None:
    path = f"/api/v1/users/{(await add_person(pool, 'ada')).id}"
    shown = (await as_root.patch(path, json={"max_running": 5, "max_workspaces": 0})).json()
    assert (shown["max_running"], shown["max_workspaces"]) == (5, 0)
    shown = (await as_root.patch(path, json={"max_running": None})).json()
    assert (shown["max_running"], shown["max_workspaces"]) == (None, 0), "what is left out stays"
    for wrong in (-1, "2", 1.5):
        assert (await as_root.patch(path, json={"max_running": wrong})).status_code == 422, wrong
    entries = (await as_root.get("/api/v1/admin/audit", params={"action": "user.limits"})).json()["items"]
    assert [each["details"]["max_running"] for each in entries] == [None, 5]


@pytest.mark.parametrize("cursor", ["x", "AAAA", "%00", "MjAyNi0wMS0wMXx4", "é"])
async def test_a_cursor_that_is_not_ours(as_root: httpx.AsyncClient, cursor: str) -> None:
    assert (await as_root.get("/api/v1/users", params={"cursor": cursor})).status_code == 422


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"username": "ROOT", "password": PASSWORD}, 409),
        ({"username": "ada", "password": "short"}, 422),
        ({"username": "administrator", "password": "Administrator"}, 422),
        ({"username": " ada", "password": PASSWORD}, 422),
        ({"username": "a/../b", "password": PASSWORD}, 422),
        ({"username": "ada\0", "password": PASSWORD}, 422),
        ({"username": "", "password": PASSWORD}, 422),
        ({"username": "a" * 65, "password": PASSWORD}, 422),
        ({"username": "ada", "role": "owner"}, 422),
        ({"username": "ada", "admin": True}, 422),
    ],
)
async def test_a_user_that_cannot_be_made(as_root: httpx.AsyncClient, body: dict[str, object], status: int) -> None:
    answer = await as_root.post("/api/v1/users", json=body)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert len((await as_root.get("/api/v1/users")).json()["items"]) == 1


async def test_nobody_else_may(client: httpx.AsyncClient, pool: Pool, root: Person) -> None:
    ada = await add_person(pool)
    readonly = await token_headers(pool, root, Scope.READ)
    for headers, status in (({}, 401), (await session_headers(pool, ada), 403), (await token_headers(pool, ada), 403)):
        answers = [
            await client.get("/api/v1/users", headers=headers),
            await client.get(f"/api/v1/users/{ada.id}", headers=headers),
            await client.post("/api/v1/users", headers=headers, json={"username": "eve"}),
            await client.patch(f"/api/v1/users/{ada.id}", headers=headers, json={"role": "admin"}),
        ]
        assert [answer.status_code for answer in answers] == [status] * 4
    assert (await client.get("/api/v1/users", headers=readonly)).status_code == 200
    answer = await client.patch(f"/api/v1/users/{ada.id}", headers=readonly, json={"role": "admin"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read_only_token")


async def test_the_service_itself_asks_who_it_is(pool: Pool) -> None:
    ada = await add_person(pool)
    with pytest.raises(NotAllowed):
        await accounts.change(pool, ada.actor, ada.id, Change(role=UserRole.ADMIN))
    with pytest.raises(NotAllowed):
        await accounts.create(pool, ada.actor, "eve", None, UserRole.ADMIN)


async def test_a_disabled_users_sessions_and_tokens_end_at_once_and_for_good(
    as_root: httpx.AsyncClient, pool: Pool
) -> None:
    ada, bob = await add_person(pool), await add_person(pool, "bob")
    session, token = await session_headers(pool, ada), await token_headers(pool, ada)
    bobs = await session_headers(pool, bob)
    answer = await as_root.patch(f"/api/v1/users/{ada.id}", json={"disabled": True})
    assert (answer.status_code, answer.json()["disabled"]) == (200, True)
    assert [await status_of(as_root, each) for each in (session, token, bobs)] == [401, 401, 200]
    answer = await as_root.patch(f"/api/v1/users/{ada.id}", json={"disabled": False})
    assert answer.json()["disabled"] is False
    assert [await status_of(as_root, each) for each in (session, token)] == [401, 401], "nothing comes back"


async def test_a_disabled_users_workspaces_step_down(as_root: httpx.AsyncClient, pool: Pool, owner: Connection) -> None:
    ada, bob = await add_person(pool), await add_person(pool, "bob")
    rest = {"desired_state": "RUNNING", "owner_user_id": ada.id}
    running = await add_workspace(owner, phase="RUNNING", **rest)
    busy = await add_workspace(owner, phase="STANDBY", operation="STARTING", **rest)
    waiting = await add_workspace(owner, phase="PENDING", **rest)
    archived = await add_workspace(owner, phase="ARCHIVED", **rest)
    broken = await add_workspace(owner, phase="ERROR", **rest)
    stopped = await add_workspace(owner, phase="STANDBY", desired_state="STANDBY", owner_user_id=ada.id)
    bobs = await add_workspace(owner, phase="RUNNING", desired_state="RUNNING", owner_user_id=bob.id)
    assert (await as_root.patch(f"/api/v1/users/{ada.id}", json={"disabled": True})).status_code == 200

    async def wanted() -> list[str]:
        order = (running, busy, waiting, archived, broken, stopped, bobs)
        return [str((await read(owner, each)).wish.desired_state) for each in order]

    assert await wanted() == ["STANDBY", "RUNNING", "STANDBY", "ARCHIVED", "RUNNING", "STANDBY", "RUNNING"]
    assert (await read(owner, running)).wish.asked_by == "the account is disabled"
    assert await accounts.step_down_disabled(pool) == 0, "the busy one is not at rest yet"
    await change(owner, busy, phase="RUNNING", operation="NONE")
    assert await accounts.step_down_disabled(pool) == 1
    assert await accounts.step_down_disabled(pool) == 0
    assert (await wanted())[1] == "STANDBY"


async def test_an_administrator_sets_a_password(as_root: httpx.AsyncClient, pool: Pool) -> None:
    ada = await add_person(pool)
    session, token = await session_headers(pool, ada), await token_headers(pool, ada)
    assert (await as_root.patch(f"/api/v1/users/{ada.id}", json={"password": PASSWORD})).status_code == 200
    assert [await status_of(as_root, each) for each in (session, token)] == [401, 401], "whoever was in is out"
    assert (await as_root.patch(f"/api/v1/users/{ada.id}", json={"password": "short"})).status_code == 422
    body = {"username": "ada", "password": PASSWORD}
    assert (await as_root.post("/api/v1/login", json=body)).status_code == 200


@pytest.mark.parametrize("body", [{"role": "user"}, {"disabled": True}, {"disabled": True, "role": "admin"}])
async def test_the_last_administrator_stays(
    as_root: httpx.AsyncClient, pool: Pool, root: Person, body: dict[str, object]
) -> None:
    gone = await add_person(pool, "gone", UserRole.ADMIN)
    assert (await as_root.patch(f"/api/v1/users/{gone.id}", json={"disabled": True})).status_code == 200
    answer = await as_root.patch(f"/api/v1/users/{root.id}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "last_administrator")
    assert (await as_root.get(f"/api/v1/users/{root.id}")).json()["role"] == "admin"
    other = await add_person(pool, "other", UserRole.ADMIN)
    assert (await as_root.patch(f"/api/v1/users/{root.id}", json=body)).status_code == 409, "the other has no password"
    await some_password(pool, other)
    assert (await as_root.patch(f"/api/v1/users/{other.id}", json={"role": "user"})).status_code == 200
    assert (await as_root.patch(f"/api/v1/users/{other.id}", json={"role": "admin"})).status_code == 200
    assert (await as_root.patch(f"/api/v1/users/{root.id}", json=body)).status_code == 200


async def test_two_administrators_cannot_demote_each_other_at_once(pool: Pool) -> None:
    for round_number in range(5):
        async with connection(pool) as conn:
            await conn.execute("UPDATE users SET role = 'user'")
        people = [await add_person(pool, f"admin-{round_number}-{number}", UserRole.ADMIN) for number in range(4)]
        await some_password(pool, *people)
        changes = [
            accounts.change(pool, each.actor, other.id, Change(role=UserRole.USER))
            for each, other in zip(people, people[1:] + people[:1], strict=True)
        ]
        results = await asyncio.gather(*changes, return_exceptions=True)
        assert [type(each) for each in results].count(Conflict) == 1, results


async def test_a_login_in_the_moment_of_disabling_leaves_no_session(
    client: httpx.AsyncClient, pool: Pool, owner: Connection, database: str
) -> None:
    ada = await add_person(pool)
    await set_password(pool, ada, PASSWORD)
    async with await psycopg.AsyncConnection.connect(database) as disabling:
        await disabling.execute("UPDATE users SET disabled_at = now()")
        body = {"username": "ada", "password": PASSWORD}
        login = asyncio.create_task(client.post("/api/v1/login", json=body))  # sees the user as they were

        async def is_waiting() -> bool:
            assert not login.done(), "it did not wait for the row"
            return await blocks_somebody(owner, disabling)

        await eventually_async(is_waiting, "the login waits for the row")
        await disabling.commit()
    assert (await login).status_code == 401
    assert await (await owner.execute("SELECT count(*) FROM sessions")).fetchone() == (0,)


async def test_somebody_who_is_not_there(as_root: httpx.AsyncClient) -> None:
    for answer in (
        await as_root.get(f"/api/v1/users/{uuid4()}"),
        await as_root.patch(f"/api/v1/users/{uuid4()}", json={"disabled": True}),
        await as_root.patch(f"/api/v1/users/{uuid4()}", json={"password": PASSWORD}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


async def test_a_token_makes_neither_administrators_nor_passwords(
    as_root: httpx.AsyncClient, pool: Pool, root: Person
) -> None:
    ada = await add_person(pool)
    token = {"Cookie": "", **await token_headers(pool, root)}
    for answer in (
        await as_root.post("/api/v1/users", headers=token, json={"username": "eve", "role": "admin"}),
        await as_root.post("/api/v1/users", headers=token, json={"username": "eve", "password": PASSWORD}),
        await as_root.patch(f"/api/v1/users/{ada.id}", headers=token, json={"role": "admin"}),
        await as_root.patch(f"/api/v1/users/{ada.id}", headers=token, json={"password": PASSWORD}),
        await as_root.patch(f"/api/v1/users/{root.id}", headers=token, json={"password": PASSWORD}),
    ):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "session_only")
    made = await as_root.post("/api/v1/users", headers=token, json={"username": "eve"})
    assert made.status_code == 201, "who cannot log in until somebody gives them a password"
    own = await as_root.patch(f"/api/v1/users/{root.id}", json={"password": PASSWORD})
    assert own.status_code == 403, "whoever sits at an open browser does not take the account"


async def test_every_change_is_in_the_audit_log(as_root: httpx.AsyncClient, pool: Pool, root: Person) -> None:
    made = (await as_root.post("/api/v1/users", json={"username": "ada"})).json()
    for body in ({"role": "admin"}, {"role": "admin"}, {"password": PASSWORD}, {"disabled": True}, {"disabled": False}):
        await as_root.patch(f"/api/v1/users/{made['id']}", json=body)
    async with connection(pool) as conn:
        found = await conn.execute("SELECT action, actor_user_id, details FROM audit_log ORDER BY id")
        rows = await found.fetchall()
    assert [row[0] for row in rows] == ["user.create", "user.role", "user.password", "user.disable", "user.enable"]
    assert {row[1] for row in rows} == {root.id}
    assert {row[2]["user"] for row in rows} == {made["id"]}
    assert PASSWORD not in str(rows)


async def ask_to_delete(client: httpx.AsyncClient, person: Person, **params: str) -> tuple[int, str]:
    answer = await client.delete(f"/api/v1/users/{person.id}", params=params)
    return answer.status_code, "" if answer.status_code == 204 else answer.json()["error"]["code"]


async def test_a_deleted_user_is_out_and_their_workspaces_are_in_the_trash(
    as_root: httpx.AsyncClient, pool: Pool, owner: Connection
) -> None:
    ada = await add_person(pool, "ada")
    token = await token_headers(pool, ada)
    identity = await add_workspace(owner, owner_user_id=ada.id, phase="STANDBY", desired_state="STANDBY")
    assert await ask_to_delete(as_root, ada) == (409, "has_workspaces")
    assert await status_of(as_root, token) == 200, "nothing was done"
    assert await ask_to_delete(as_root, ada, workspaces="trash") == (204, "")
    assert await status_of(as_root, token) == 401
    assert (await read(owner, identity)).wish.desired_state is Desired.DELETED
    assert (await as_root.get(f"/api/v1/users/{ada.id}")).status_code == 404
    names = [each["username"] for each in (await as_root.get("/api/v1/users")).json()["items"]]
    assert names == ["root"]
    again = await as_root.post("/api/v1/users", json={"username": "ada", "password": PASSWORD})
    assert again.status_code == 201, "the name is free"
    assert again.json()["id"] != str(ada.id), "and somebody else's"
    entry = (await as_root.get("/api/v1/admin/audit", params={"action": "user.delete"})).json()["items"][0]
    assert (entry["details"]["username"], entry["details"]["workspaces"]) == ("ada", "trash")


async def test_the_audit_log_names_whom_and_what_it_tells_of(
    as_root: httpx.AsyncClient, pool: Pool, root: Person, owner: Connection
) -> None:
    ada = await add_person(pool, "ada")
    headers = {"Cookie": "", **await session_headers(pool, ada)}
    original = await add_workspace(owner, owner_user_id=ada.id, name="thesis")
    async with connection(pool) as conn:
        actor = Actor(
            user_id=ada.id, username="ada", role=UserRole.USER, kind=ActorKind.USER, credential_id=str(uuid4())
        )
        await audit.record(conn, actor, "workspace.create", from_archive=str(original), user="no id")
    made = (await as_root.post("/api/v1/tokens", headers=headers, json={"name": "ci", "scope": "read"})).json()
    await as_root.delete(f"/api/v1/tokens/{made['id']}", headers=headers)
    await as_root.patch(f"/api/v1/users/{ada.id}", json={"max_running": 5})
    as_root.cookies.clear()
    assert await ask_to_delete(as_root, ada, workspaces="purge") == (204, "")
    again = (await as_root.post("/api/v1/users", json={"username": "ada"})).json()
    await as_root.patch(f"/api/v1/users/{again['id']}", json={"max_running": 6})

    lines = (await as_root.get("/api/v1/admin/audit")).json()["items"]
    told = [(each["action"], each["user"]["username"], each["names"]) for each in reversed(lines)]
    assert told == [
        ("workspace.create", "ada", {"from_archive": "thesis"}),
        ("token.create", "ada", {"token": "ci"}),
        ("token.revoke", "ada", {"token": "ci"}),
        ("user.limits", "root", {"user": "ada"}),
        ("workspace.purge", "root", {}),
        ("user.delete", "root", {"user": "ada"}),
        ("user.create", "root", {"user": "ada"}),
        ("user.limits", "root", {"user": "ada"}),
    ]
    assert all("ada" not in each["details"].values() for each in lines if each["action"] == "user.limits")
    table = (await as_root.get("/api/v1/admin/audit.csv", params={"user": str(ada.id)})).text.splitlines()
    assert '""from_archive_name"":""thesis""' in table[-1]


async def test_a_purge_leaves_nothing_of_a_deleted_user(
    as_root: httpx.AsyncClient, pool: Pool, owner: Connection
) -> None:
    ada = await add_person(pool, "ada")
    broken = await add_workspace(owner, owner_user_id=ada.id, phase="ERROR", desired_state="RUNNING")
    assert await ask_to_delete(as_root, ada, workspaces="purge") == (204, "")
    assert (await read(owner, broken)).wish.purged_at is not None


async def test_a_purge_takes_what_is_in_the_trash_and_on_the_way_to_it(
    as_root: httpx.AsyncClient, pool: Pool, owner: Connection
) -> None:
    ada = await add_person(pool, "ada")
    trashed = {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": datetime.now(UTC)}
    in_trash = await add_workspace(owner, owner_user_id=ada.id, **trashed)
    going = await add_workspace(owner, owner_user_id=ada.id, phase="STANDBY", desired_state="DELETED")
    busy = await add_workspace(owner, owner_user_id=ada.id, **trashed, operation="DELETING")
    gone = await add_workspace(owner, owner_user_id=ada.id, **{**trashed, "phase": "DELETED"})
    assert await ask_to_delete(as_root, ada, workspaces="purge") == (409, "workspaces_busy")
    await change(owner, busy, operation="NONE")
    assert await ask_to_delete(as_root, ada, workspaces="purge") == (204, "")
    for identity in (in_trash, going, busy):
        assert (await read(owner, identity)).wish.purged_at is not None
    assert (await read(owner, gone)).wish.purged_at is None, "nothing was left of it"


async def test_the_trash_of_a_deleted_user_keeps_its_time(
    as_root: httpx.AsyncClient, pool: Pool, owner: Connection
) -> None:
    ada = await add_person(pool, "ada")
    trashed = {"phase": "DELETING", "desired_state": "DELETED", "deleted_at": datetime.now(UTC)}
    in_trash = await add_workspace(owner, owner_user_id=ada.id, **trashed)
    assert await ask_to_delete(as_root, ada, workspaces="trash") == (204, "")
    assert (await read(owner, in_trash)).wish.purged_at is None


async def test_an_account_stays_until_what_is_busy_of_it_is_at_rest(
    as_root: httpx.AsyncClient, pool: Pool, owner: Connection
) -> None:
    ada = await add_person(pool, "ada")
    token = await token_headers(pool, ada)
    busy = await add_workspace(owner, owner_user_id=ada.id, phase="STANDBY", operation="STARTING")
    assert await ask_to_delete(as_root, ada, workspaces="trash") == (409, "workspaces_busy")
    assert await status_of(as_root, token) == 401, "but is out"
    await change(owner, busy, operation="NONE")
    assert await ask_to_delete(as_root, ada, workspaces="trash") == (204, "")


PUT_OFF = {
    "phase": "STANDBY",
    "desired_state": "ARCHIVED",
    "error_reason": "ActionFailed",
    "conditions": {
        "storage.volume_ready": {"status": True, "reason": "VolumeProvisioned"},
        "policy.healthy": {"status": True, "reason": "ArchiveFailed"},
    },
}
UNKNOWN = {
    "phase": "ERROR",
    "error_reason": "VolumeUnknown",
    "conditions": {"storage.volume_ready": {"status": False, "reason": "VolumeUnknown"}},
}


@pytest.mark.parametrize("columns", [PUT_OFF, UNKNOWN], ids=["put off", "in error"])
async def test_the_trash_loses_no_home_that_cannot_be_archived(
    as_root: httpx.AsyncClient, pool: Pool, owner: Connection, columns: dict[str, object]
) -> None:
    ada = await add_person(pool, "ada")
    kept = await add_workspace(owner, owner_user_id=ada.id, name="thesis", **columns)
    other = await add_workspace(owner, owner_user_id=ada.id, phase="STANDBY", desired_state="STANDBY")
    answer = await as_root.delete(f"/api/v1/users/{ada.id}", params={"workspaces": "trash"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (409, "workspaces_need_confirmation")
    assert error["details"]["workspaces"] == [{"id": str(kept), "name": "thesis"}]
    assert "thesis" in error["message"]
    was = (await read(owner, kept)).wish
    assert was.deleted_at is None
    assert was.desired_state is not Desired.DELETED
    assert (await read(owner, other)).wish.desired_state is Desired.DELETED, "what can be archived goes"
    assert (await as_root.delete(f"/api/v1/workspaces/{kept}", params={"confirm": True})).status_code == 202
    assert await ask_to_delete(as_root, ada, workspaces="trash") == (204, "")


async def test_nobody_deletes_themselves_nor_somebody_unknown(as_root: httpx.AsyncClient, root: Person) -> None:
    assert (await ask_to_delete(as_root, root))[0] == 403
    assert (await as_root.delete("/api/v1/users/00000000-0000-0000-0000-000000000001")).status_code == 404
