"""Many at once: limits are exact, and of wishes that cross each other none is lost without a word."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from datetime import UTC, datetime

import httpx
import psycopg
import pytest

from codehub.db.limits import hold_limits
from codehub.db.pool import Connection, Pool, Role, connection, open_pool
from codehub.db.wishes import finish_deletions
from codehub.errors import Conflict, OverLimit
from codehub.model.workspace import Desired, RecoverFrom, WorkspaceId
from codehub.services import expiry
from codehub.services.workspaces import changing, creating, deleting, recovering
from codehub.services.workspaces.changing import Changes
from codehub.services.workspaces.creating import Blueprint
from codehub.services.workspaces.terms import Terms
from tests.api.caller import Caller, error
from tests.db.support import change, read, until_it_waits

LONG_AGO = datetime(2026, 1, 2, tzinfo=UTC)


def statuses(answers: list[httpx.Response]) -> dict[int, int]:
    found: dict[int, int] = {}
    for answer in answers:
        found[answer.status_code] = found.get(answer.status_code, 0) + 1
    return found


async def test_of_fifty_starts_at_once_exactly_two_are_accepted(ada: Caller, bob: Caller, owner: Connection) -> None:
    ids = [await ada.has(owner, "STANDBY") for _ in range(50)]
    theirs = await bob.has(owner, "STANDBY")
    answers = await asyncio.gather(
        *(ada.patch(f"/workspaces/{each}", {"desired_state": "RUNNING"}) for each in ids),
        bob.patch(f"/workspaces/{theirs}", {"desired_state": "RUNNING"}),
    )
    assert answers.pop().status_code == 200, "a neighbour's limit is his own"
    assert statuses(list(answers)) == {200: 2, 429: 48}
    running = {str(each) for each in ids if (await read(owner, each)).wish.desired_state is Desired.RUNNING}
    assert len(running) == 2
    for answer in answers:
        if answer.status_code == 429:
            assert error(answer) == (429, "over_limit")
            assert {each["id"] for each in answer.json()["error"]["details"]["running"]} <= running


async def test_a_wish_waits_for_the_limits_without_its_row(
    pool: Pool, terms: Terms, ada: Caller, owner: Connection, database: str
) -> None:
    """Also one whose row changed under it, so that it takes a place only now: others hold the limits, then the row."""
    identity = await ada.has(owner, "RUNNING")
    wanted = Changes(given=frozenset({"name", "desired_state"}), name="new", desired_state=Desired.RUNNING)
    async with await psycopg.AsyncConnection.connect(database) as other:
        async with owner.transaction():
            await change(owner, identity, phase="STANDBY", desired_state="STANDBY")
            asked = asyncio.create_task(changing.update(pool, terms, ada.person.actor, identity, wanted))
            await until_it_waits(owner)
            await hold_limits(other)
        await until_it_waits(other)
        await owner.execute("SELECT FROM workspaces WHERE id = %s FOR NO KEY UPDATE NOWAIT", [identity])
        await other.rollback()
    await asked
    row = await read(owner, identity)
    assert row.wish.desired_state is Desired.RUNNING


async def test_of_ways_to_run_one_more_all_count(ada: Caller, owner: Connection) -> None:
    """Creating, starting and recovering meet the same limit, all at once."""
    stopped = [await ada.has(owner, "STANDBY") for _ in range(8)]
    broken = [await ada.has(owner, "ERROR", error_reason="Timeout") for _ in range(8)]
    answers = await asyncio.gather(
        *(ada.patch(f"/workspaces/{each}", {"desired_state": "RUNNING"}) for each in stopped),
        *(ada.post(f"/workspaces/{each}/recover") for each in broken),
        *(ada.post("/workspaces", {"name": "new"}) for _ in range(8)),
    )
    assert sum(answer.is_success for answer in answers) == 2
    assert {answer.status_code for answer in answers if not answer.is_success} == {429}


async def test_the_limit_of_all_is_exact_too(pool: Pool, terms: Terms, ada: Caller, bob: Caller) -> None:
    tight = replace(terms, quota=replace(terms.quota, per_user=30, total=5))

    async def make(caller: Caller) -> bool:
        try:
            await creating.create(pool, tight, caller.person.actor, Blueprint(name="w"))
        except OverLimit:
            return False
        return True

    made = await asyncio.gather(*(make(caller) for caller in (ada, bob) * 12))
    assert sum(made) == 5


async def test_the_number_of_workspaces_is_exact_and_forgets_deleted_ones(
    pool: Pool, terms: Terms, ada: Caller, bob: Caller, owner: Connection
) -> None:
    few = replace(terms, quota=replace(terms.quota, workspaces=5))
    await ada.has(owner, "DELETED", deleted_at=datetime.now(UTC))
    await ada.has(owner, "ERROR")

    async def make(caller: Caller) -> bool:
        try:
            await creating.create(pool, few, caller.person.actor, Blueprint(name="w", desired_state=Desired.ARCHIVED))
        except OverLimit:
            return False
        return True

    made = await asyncio.gather(*(make(caller) for caller in (ada, bob) * 12))
    assert (made[::2].count(True), made[1::2].count(True)) == (4, 5)


async def test_what_runs_already_may_be_asked_for_again(ada: Caller, owner: Connection) -> None:
    ids = [await ada.has(owner, "RUNNING") for _ in range(3)]  # more than would be let in today
    assert (await ada.patch(f"/workspaces/{ids[0]}", {"desired_state": "RUNNING"})).status_code == 200
    stopped = await ada.has(owner, "STANDBY")
    answer = await ada.patch(f"/workspaces/{stopped}", {"desired_state": "RUNNING", "name": "kept back"})
    assert error(answer) == (429, "over_limit")
    listed = answer.json()["error"]["details"]["running"]
    assert sorted(each["id"] for each in listed) == sorted(str(each) for each in ids)
    assert (await ada.get(f"/workspaces/{stopped}")).json()["name"] == "a workspace"


async def test_changes_of_different_fields_at_once_all_arrive(ada: Caller, owner: Connection) -> None:
    path = f"/workspaces/{await ada.has(owner, 'RUNNING')}"
    for number in range(10):
        given: list[dict[str, object]] = [
            {"name": f"n{number}"},
            {"memo": f"m{number}"},
            {"description": f"d{number}"},
            {"standby_ttl_seconds": 100 + number},
            {"desired_state": "STANDBY" if number % 2 else "RUNNING"},
        ]
        awake, *answers = await asyncio.gather(
            ada.post(f"{path}/keep-awake", {"hours": 1 + number}), *(ada.patch(path, each) for each in given)
        )
        accepted = [each for each, answer in zip(given, answers, strict=True) if answer.is_success]
        assert all(answer.is_success or error(answer)[0] == 409 for answer in (awake, *answers))
        shown = (await ada.get(path)).json()
        for each in accepted:
            assert shown.items() >= each.items()


@pytest.fixture
async def many(database: str) -> AsyncIterator[Pool]:
    """Connections enough for everybody to be in the middle of something."""
    async with open_pool(database, Role.API, min_size=6, max_size=6) as pool:
        yield pool


async def test_changing_expiring_and_deleting_at_once_lose_no_wish_silently(
    many: Pool, terms: Terms, ada: Caller, owner: Connection
) -> None:
    """Whoever is told yes finds their wish in the row, or what somebody else asked for afterwards.

    A deletion that was accepted is never undone by a start, a stop or a TTL that crosses it; a TTL that was put off
    changes nothing.
    """
    actor, seed = ada.person.actor, random.Random(5)
    identity = await ada.has(owner, "RUNNING")
    outcomes = set()
    for _ in range(60):
        await change(
            owner, identity, phase="RUNNING", desired_state="RUNNING", deleted_at=None, purged_at=None,
            phase_changed_at=LONG_AGO, last_access_at=LONG_AGO, keep_awake_until=None, name="before", asked_by="",
        )  # fmt: skip
        due = await expiry.due(many, 10)
        assert [was.id for was, _ in due] == [identity]

        async def patch() -> str:
            return await told(
                changing.update(
                    many,
                    terms,
                    actor,
                    identity,
                    Changes(given=frozenset({"name", "desired_state"}), name="after", desired_state=Desired.ARCHIVED),
                )
            )

        async def start() -> str:
            return await told(changing.request_state(many, terms, actor, identity, Desired.RUNNING))

        async def delete() -> str:
            return await told(deleting.delete(many, terms, actor, identity))

        async def expire() -> str:
            return "yes" if await expiry.expire(many, due) else "put off"  # noqa: B023 - awaited in this turn

        verbs = {"patch": patch, "start": start, "delete": delete, "expire": expire}
        order = seed.sample(sorted(verbs), 4)
        answers = dict(zip(order, await asyncio.gather(*(verbs[name]() for name in order)), strict=True))
        row = await read(owner, identity)
        shown = (await ada.get(f"/workspaces/{identity}")).json()
        outcomes.add(tuple(sorted(answers.items())))

        assert answers["delete"] == "yes"
        assert row.wish.desired_state is Desired.DELETED, answers
        assert row.wish.asked_by == "user ada"
        assert (shown["name"] == "after") == (answers["patch"] == "yes"), answers
        entries = await actions_of(owner, identity)
        for name, action in (("patch", "workspace.update"), ("delete", "workspace.delete")):
            assert (answers[name] == "yes") <= (action in entries), "what was accepted was written down"
    assert len(outcomes) > 2, f"nothing ever crossed: {outcomes}"


async def told(work: Awaitable[object]) -> str:
    try:
        await work
    except Conflict:
        return "no"
    return "yes"


async def actions_of(conn: Connection, identity: WorkspaceId) -> set[str]:
    rows = await conn.execute("SELECT action FROM audit_log WHERE workspace_id = %s", [identity])
    found = {action for (action,) in await rows.fetchall()}
    await conn.execute("DELETE FROM audit_log")
    return found


async def test_a_deletion_that_arrives_while_it_is_taken_back(
    many: Pool, terms: Terms, ada: Caller, owner: Connection
) -> None:
    """The coordinator puts it in the trash at the moment its owner undeletes it: either way it is not lost."""
    identity = await ada.has_archived(owner)
    for _ in range(30):
        await change(owner, identity, phase="ARCHIVED", desired_state="DELETED", deleted_at=None)

        async def finish() -> None:
            async with connection(many) as conn:
                await finish_deletions(conn, [identity])

        answer, _ = await asyncio.gather(told(deleting.undelete(many, terms, ada.person.actor, identity)), finish())
        row = await read(owner, identity)
        assert answer == "yes"
        assert (row.wish.desired_state, row.wish.deleted_at) == (Desired.ARCHIVED, None)


async def test_a_recovery_of_an_error_that_is_gone_meanwhile(
    pool: Pool, terms: Terms, ada: Caller, owner: Connection
) -> None:
    identity = await ada.has(owner, "ERROR", error_reason="Timeout")
    async with owner.transaction():  # the controller is about to write something else
        await change(owner, identity, phase="STANDBY", error_reason=None)
        asked = asyncio.create_task(
            told(recovering.recover(pool, terms, ada.person.actor, identity, RecoverFrom.AS_IS))
        )
        await until_it_waits(owner)
    assert await asked == "no"
    assert (await read(owner, identity)).wish.recover_request is None


async def test_a_row_that_visitors_write_all_the_time_takes_wishes_too(
    pool: Pool, terms: Terms, ada: Caller, owner: Connection
) -> None:
    identity = await ada.has(owner, "STANDBY")
    assert (await read(owner, identity)).wish.last_access_at is None
    stop = asyncio.Event()

    async def visit() -> None:
        while not stop.is_set():
            await expiry.record_visits(pool, {identity: 86_400.0})

    visiting = [asyncio.create_task(visit()) for _ in range(2)]
    try:
        answers = [
            await told(changing.request_state(pool, terms, ada.person.actor, identity, desired))
            for desired in [Desired.ARCHIVED, Desired.STANDBY] * 10
        ]
    finally:
        stop.set()
        await asyncio.gather(*visiting)
    assert answers.count("yes") > 10, "visits cost another attempt, not the wish"
