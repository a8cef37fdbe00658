"""Wishes that share a transaction: each is as if it were alone."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from uuid import UUID

import psycopg

from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Connection, Pool, Role, open_pool
from codehub.errors import Conflict, NotFound, Outdated, OverLimit
from codehub.model.workspace import Desired, WorkspaceId
from codehub.services.workspaces import changing
from codehub.services.workspaces.deciding import Verb, carry_out
from codehub.services.workspaces.showing import Encoded
from codehub.services.workspaces.terms import Terms
from tests.api.caller import Caller
from tests.db.support import change, read, until_it_waits
from tests.lab.wire import wire_to_database


async def audited(owner: Connection, ids: Sequence[WorkspaceId]) -> int:
    rows = await owner.execute("SELECT FROM audit_log WHERE workspace_id = ANY(%s)", [list(ids)])
    return len(await rows.fetchall())


async def test_a_hundred_starts_at_once_share_few_transactions(
    pool: Pool, terms: Terms, ada: Caller, owner: Connection
) -> None:
    roomy = replace(terms, quota=replace(terms.quota, per_user=100, total=100))
    ids = [await ada.has(owner, "STANDBY") for _ in range(100)]
    starts = (changing.request_state(pool, roomy, ada.person.actor, each, Desired.RUNNING) for each in ids)
    assert [shown.id for shown in await asyncio.gather(*starts)] == ids
    count = (
        "SELECT count(DISTINCT xmin::text), count(*) FROM workspaces WHERE id = ANY(%s) AND desired_state = 'RUNNING'"
    )
    row = await (await owner.execute(count, [ids])).fetchone()
    assert row is not None
    transactions, started = row
    assert started == 100
    assert transactions <= 10
    assert await audited(owner, ids) == 100


async def test_the_order_in_which_they_asked_is_kept(pool: Pool, terms: Terms, ada: Caller, owner: Connection) -> None:
    """It is the order in which they are started."""
    roomy = replace(terms, quota=replace(terms.quota, per_user=100, total=100))
    ids = [await ada.has(owner, "STANDBY") for _ in range(20)]
    starts = (changing.request_state(pool, roomy, ada.person.actor, each, Desired.RUNNING) for each in ids)
    await asyncio.gather(*starts)
    times = [(await read(owner, identity)).wish.last_access_at for identity in ids]
    assert all(one is not None and other is not None and one < other for one, other in pairwise(times))


async def test_what_is_wrong_with_one_of_many_costs_the_others_nothing(
    pool: Pool, terms: Terms, ada: Caller, bob: Caller, owner: Connection
) -> None:
    """Not there, somebody else's, refused by the rules, broken: each asked for beside those that are well."""
    roomy = replace(terms, quota=replace(terms.quota, per_user=40, total=100))
    ids = [await ada.has(owner, "STANDBY") for _ in range(30)]
    others, gone = await bob.has(owner, "STANDBY"), await ada.has(owner, "DELETED", deleted_at=datetime.now(UTC))

    def start(identity: WorkspaceId) -> Awaitable[object]:
        return changing.request_state(pool, roomy, ada.person.actor, identity, Desired.RUNNING)

    def fall_over(was: ShownWorkspace, now: datetime) -> ShownWorkspace:
        raise RuntimeError(f"{was} at {now}")

    broken = Verb("workspace.update", fall_over, {})
    wrong = [
        start(others),
        start(gone),
        start(WorkspaceId(UUID(int=7))),
        carry_out(pool, roomy, ada.person.actor, ids[0], broken),
    ]
    answers = await asyncio.gather(*map(start, ids[:15]), *wrong, *map(start, ids[15:]), return_exceptions=True)
    found = [type(answer) for answer in answers]
    assert found[15:19] == [NotFound, Conflict, NotFound, RuntimeError]
    assert set(found[:15] + found[19:]) == {Encoded}
    for identity in ids:
        assert (await read(owner, identity)).wish.desired_state is Desired.RUNNING
    assert (await read(owner, others)).wish.desired_state is Desired.STANDBY


def named(name: str, seen: list[str]) -> Verb:
    """Gives it a name, and notes the one that it had."""

    def decide(was: ShownWorkspace, _now: datetime) -> ShownWorkspace:
        seen.append(was.name)
        return replace(was, name=name)

    return Verb("workspace.update", decide, {})


async def test_a_row_that_changed_before_a_transaction_of_many_held_it_is_decided_on_as_it_is(
    pool: Pool, terms: Terms, ada: Caller, owner: Connection
) -> None:
    ids = [await ada.has(owner, "STANDBY") for _ in range(3)]
    seen: list[str] = []
    async with owner.transaction():
        await change(owner, ids[1], name="changed meanwhile")
        asked = [
            asyncio.create_task(carry_out(pool, terms, ada.person.actor, each, named("new", seen))) for each in ids
        ]
        await until_it_waits(owner)
    assert [shown.id for shown in await asyncio.gather(*asked)] == ids
    assert sorted(seen) == ["a workspace", "a workspace", "changed meanwhile"], "each once, and none by an old row"
    for each in ids:
        assert (await ada.get(f"/workspaces/{each}")).json()["name"] == "new"


async def test_many_hold_all_their_rows_before_they_write_the_first(
    pool: Pool, terms: Terms, ada: Caller, owner: Connection, database: str
) -> None:
    """So a row never comes after another one that is behind it in the order of all bulk writes."""
    ids = [await ada.has(owner, "STANDBY") for _ in range(3)]
    free: list[tuple[object, ...]] = []

    def decide(was: ShownWorkspace, _now: datetime) -> ShownWorkspace:
        look = "SELECT id FROM workspaces WHERE id = ANY(%s) FOR NO KEY UPDATE SKIP LOCKED"
        with psycopg.connect(database) as other:
            free.extend(other.execute(look, [ids]).fetchall())
        return replace(was, name="new")

    verb = Verb("workspace.update", decide, {})
    await asyncio.gather(*(carry_out(pool, terms, ada.person.actor, each, verb) for each in ids))
    assert free == []


async def test_two_wishes_for_one_workspace_in_one_transaction_follow_each_other(
    pool: Pool, terms: Terms, ada: Caller, owner: Connection
) -> None:
    identity = await ada.has(owner, "STANDBY")
    actor, seen = ada.person.actor, list[str]()
    etag = (await ada.get(f"/workspaces/{identity}")).headers["etag"]
    answers = await asyncio.gather(
        carry_out(pool, terms, actor, identity, named("first", seen), if_match=etag),
        carry_out(pool, terms, actor, identity, named("lost", seen), if_match=etag),
        carry_out(pool, terms, actor, identity, named("second", seen)),
        return_exceptions=True,
    )
    assert [type(answer) for answer in answers] == [Encoded, Outdated, Encoded]
    assert seen == ["a workspace", "first"]
    assert (await ada.get(f"/workspaces/{identity}")).json()["name"] == "second"
    assert await audited(owner, [identity]) == 2


async def test_who_is_refused_in_a_transaction_of_many_learns_what_of_theirs_runs(
    database: str, terms: Terms, ada: Caller, bob: Caller, owner: Connection
) -> None:
    """With one question for all of them: everybody else waits for the limits meanwhile."""
    tight = replace(terms, quota=replace(terms.quota, per_user=1))
    running = {caller.person.username: await caller.has(owner, "RUNNING") for caller in (ada, bob)}
    callers = [ada, bob] * 4
    stopped = [await caller.has(owner, "STANDBY") for caller in callers]
    questions = 0

    async def hear(data: bytes) -> None:
        nonlocal questions
        questions += data.count(b"ORDER BY created_at, id")

    async with wire_to_database(database) as (wire, url), open_pool(url, Role.API) as far:
        wire.hear = hear
        answers = await asyncio.gather(
            *(
                changing.request_state(far, tight, caller.person.actor, each, Desired.RUNNING)
                for caller, each in zip(callers, stopped, strict=True)
            ),
            return_exceptions=True,
        )
    for caller, answer in zip(callers, answers, strict=True):
        assert isinstance(answer, OverLimit)
        assert answer.details == {"running": [{"id": str(running[caller.person.username]), "name": "a workspace"}]}
    assert questions == 1
