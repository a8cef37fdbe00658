"""GC: nothing that anybody may still need is ever deleted, and what nobody needs goes after its delay."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codehub.model.gc import FoundArchive, GcPlan, GcRules, KnownWorkspace, Memory, protected_keys, unneeded
from codehub.model.gc import plan as plan_of
from codehub.model.names import archive_key
from codehub.model.workspace import OpId, WorkspaceId
from tests.model import builders as b

RULES = GcRules()
DAY = 86_400
LONG_AGO = b.later(-30 * DAY)
BEFORE_ALL = b.later(-1000 * DAY)
LIVING = KnownWorkspace(id=b.WORKSPACE, archive_key=archive_key(b.WORKSPACE, b.op(10)), op_id=b.op(11))
KEPT = archive_key(b.WORKSPACE, b.op(10))
BEING_MADE = archive_key(b.WORKSPACE, b.op(11))
OLD = archive_key(b.WORKSPACE, b.op(1))


def found(key: str, *, at: datetime = b.NOW, complete: bool = True) -> FoundArchive:
    return FoundArchive(key, at, complete)


def plan(
    keys: list[FoundArchive],
    known: Sequence[KnownWorkspace],
    timers: Mapping[str, datetime],
    now: datetime,
    rules: GcRules,
    *,
    forgotten: Collection[str] = (),
    override: bool = False,
    unknown_too: bool = False,
) -> GcPlan:
    """Both halves; the database remembers everything that was found, but for `forgotten`."""
    memory = Memory({archive.key for archive in keys} - {*forgotten}, BEFORE_ALL)
    return plan_of(
        unneeded(keys, known, now, rules, unknown_too=unknown_too), memory, timers, now, rules, override=override
    )


def collect(
    keys: list[FoundArchive],
    *known: KnownWorkspace,
    since: datetime = LONG_AGO,
    forgotten: Collection[str] = (),
    override: bool = False,
) -> GcPlan:
    """A cycle in which every key has had a timer since `since`."""
    timers = {archive.key: since for archive in keys}
    return plan(keys, known, timers, b.NOW, RULES, forgotten=forgotten, override=override)


def test_an_old_archive_of_a_living_workspace_goes_and_nothing_else() -> None:
    newest = found(KEPT, at=b.NOW)
    plan_ = collect([found(OLD, at=LONG_AGO), newest, found(BEING_MADE, at=LONG_AGO)], LIVING)
    assert plan_.delete == (OLD,)
    assert set(plan_.clear_timers) == {KEPT, BEING_MADE}


def test_the_archive_and_the_operation_of_a_living_workspace_are_protected_whatever_its_phase() -> None:
    # A row says nothing of its phase here: ERROR is protected like any other.
    assert protected_keys([LIVING], b.NOW, RULES) == {KEPT, BEING_MADE}


@pytest.mark.parametrize(
    ("deleted", "purged", "kept"),
    [
        (0, False, True),
        (-7 * DAY, False, True),
        (-7 * DAY - 1, False, False),
        (-30 * DAY, False, False),
        (0, True, False),
    ],
    ids=["just now", "seven days ago", "a second more", "long ago", "purged"],
)
def test_the_trash_is_kept_for_seven_days_unless_it_was_purged(deleted: int, purged: bool, kept: bool) -> None:
    row = replace(LIVING, deleted_at=b.later(deleted), purged_at=b.NOW if purged else None)
    assert protected_keys([row], b.NOW, RULES) == ({KEPT} if kept else set())
    assert collect([found(KEPT)], row).delete == (() if kept else (KEPT,))


def test_what_a_deleted_workspace_was_making_is_not_protected() -> None:
    row = replace(LIVING, deleted_at=b.NOW)
    assert collect([found(KEPT), found(BEING_MADE)], row).delete == (BEING_MADE,)


def test_the_newest_complete_archive_of_a_living_workspace_stays_even_if_its_row_does_not_name_it() -> None:
    row = replace(LIVING, archive_key=None, op_id=None)
    older, newer = found(OLD, at=b.later(-60)), found(KEPT, at=b.NOW)
    torn = found(BEING_MADE, at=b.later(60), complete=False)
    assert set(collect([newer, older, torn], row).delete) == {OLD, BEING_MADE}
    assert set(collect([torn, older, newer], row).delete) == {OLD, BEING_MADE}


def test_the_newest_archive_of_a_deleted_workspace_is_no_exception() -> None:
    row = replace(LIVING, archive_key=None, op_id=None, deleted_at=LONG_AGO)
    assert collect([found(OLD)], row).delete == (OLD,)


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_a_source_is_protected_until_it_was_copied(copied: bool, deleted: bool) -> None:
    purged = KnownWorkspace(id=b.OTHER, archive_key=None, op_id=None, deleted_at=LONG_AGO, purged_at=LONG_AGO)
    source = archive_key(b.OTHER, b.op(5))
    copy = KnownWorkspace(
        id=b.WORKSPACE,
        archive_key=archive_key(b.WORKSPACE, b.op(6)) if copied else None,
        op_id=None,
        source_archive=source,
        deleted_at=b.NOW if deleted else None,
    )
    needed = not copied and not deleted
    assert collect([found(source)], purged, copy).delete == (() if needed else (source,))


@pytest.mark.parametrize(
    "key",
    [
        archive_key(b.OTHER, b.op(1)),
        f"{b.WORKSPACE}/{b.op(1)}/home.tar",
        f"{b.WORKSPACE}/{b.op(1)}/home.tar.zst.meta",
        f"{b.WORKSPACE}/../home.tar.zst",
        f"{str(b.WORKSPACE).replace('0', 'A', 1)}/{b.op(1)}/home.tar.zst",
        f"backup/{b.WORKSPACE}/{b.op(1)}/home.tar.zst",
        "notes.txt",
        "",
    ],
    ids=["unknown workspace", "another name", "a meta", "dots", "uppercase", "another folder", "a file", "empty"],
)
@pytest.mark.parametrize("override", [False, True])
def test_what_is_not_ours_is_reported_and_never_touched(key: str, override: bool) -> None:
    plan_ = collect([found(key)], LIVING, override=override)
    assert plan_.foreign == (key,)
    assert plan_.delete == ()
    assert plan_.start_timers == ()


@pytest.mark.parametrize(
    ("waited", "deleted"), [(0, False), (7199, False), (7200, True), (10**6, True)], ids=["0 s", "7199", "7200", "more"]
)
def test_an_orphan_waits_two_hours(waited: int, deleted: bool) -> None:
    plan_ = collect([found(OLD, at=LONG_AGO), found(KEPT)], LIVING, since=b.later(-waited))
    assert plan_.delete == ((OLD,) if deleted else ())


def test_an_orphan_first_seen_starts_a_timer_and_is_not_deleted() -> None:
    plan_ = plan([found(OLD, at=LONG_AGO), found(KEPT)], [LIVING], {}, b.NOW, RULES)
    assert (plan_.start_timers, plan_.delete, plan_.clear_timers) == ((OLD,), (), ())


def test_a_key_that_is_protected_again_or_gone_loses_its_timer() -> None:
    timers = {KEPT: LONG_AGO, OLD: LONG_AGO, "gone": LONG_AGO}
    plan_ = plan([found(KEPT), found(OLD, at=LONG_AGO)], [LIVING], timers, b.NOW, RULES)
    assert set(plan_.clear_timers) == {KEPT, "gone"}
    assert plan_.delete == (OLD,)


def many(orphans: int, kept: int) -> tuple[list[FoundArchive], list[KnownWorkspace]]:
    """Orphans of one workspace whose row, which is wrong, names no archive; and others that are needed."""
    lost = KnownWorkspace(id=b.WORKSPACE, archive_key=None, op_id=None)
    rows = [
        KnownWorkspace(id=i, archive_key=archive_key(i, b.OP), op_id=None)
        for i in (WorkspaceId(UUID(int=5000 + n)) for n in range(kept))
    ]
    needed = [found(archive_key(row.id, b.OP)) for row in rows]
    return [*(found(archive_key(lost.id, b.op(100 + i)), complete=False) for i in range(orphans)), *needed], [
        lost,
        *rows,
    ]


@pytest.mark.parametrize(
    ("orphans", "kept", "stops"),
    [
        (10, 0, False),  # not more than ten
        (11, 0, True),
        (11, 43, True),
        (11, 44, False),  # exactly a fifth of 55
        (11, 100, False),
        (30, 100, True),
    ],
)
def test_an_implausible_share_of_orphans_stops_everything(orphans: int, kept: int, stops: bool) -> None:
    keys, rows = many(orphans, kept)
    plan_ = collect(keys, *rows)
    assert (plan_.stopped is not None) is stops
    assert len(plan_.delete) == (0 if stops else orphans)


def test_an_administrator_can_override_the_stop() -> None:
    keys, rows = many(30, 0)
    plan_ = collect(keys, *rows, override=True)
    assert plan_.stopped is None
    assert len(plan_.delete) == 30


def test_a_stop_says_what_looks_wrong_and_timers_go_on() -> None:
    keys, rows = many(30, 10)
    stopped = plan(keys, rows, {}, b.NOW, RULES)
    assert stopped.stopped is not None
    assert "30 of 40" in stopped.stopped
    assert len(stopped.start_timers) == 30


def test_archives_that_newer_ones_replaced_are_nothing_odd() -> None:
    rows, keys = [], []
    for number in range(30):
        identity = WorkspaceId(UUID(int=1000 + number))
        present = archive_key(identity, b.op(2))
        rows.append(KnownWorkspace(id=identity, archive_key=present, op_id=b.op(2)))
        keys += [found(archive_key(identity, b.op(1)), at=b.NOW - timedelta(hours=1)), found(present)]
    plan_ = collect(keys, *rows)
    assert plan_.stopped is None
    assert len(plan_.delete) == 30


@pytest.mark.parametrize("purged", [False, True], ids=["expired", "purged"])
def test_what_owners_delete_is_nothing_odd(purged: bool) -> None:
    """A teacher purges the workspaces of a whole course: their rows say why nobody needs the archives."""
    rows, keys = [], []
    for number in range(30):
        identity = WorkspaceId(UUID(int=1000 + number))
        key = archive_key(identity, b.op(1))
        deleted_at = b.NOW if purged else LONG_AGO
        rows.append(
            KnownWorkspace(
                id=identity,
                archive_key=key,
                op_id=b.op(1),
                deleted_at=deleted_at,
                purged_at=deleted_at if purged else None,
            )
        )
        keys.append(found(key))
    plan_ = collect(keys, *rows)
    assert plan_.stopped is None
    assert len(plan_.delete) == 30


# -- a database that is older than the world --------------------------------------------------------------------------


@pytest.mark.parametrize("purged", [False, True])
def test_what_was_made_after_an_undelete_that_the_database_lost_stays(purged: bool) -> None:
    """In the trash at the backup, taken out of it and archived anew since; restored, and its retention has run out."""
    row = replace(LIVING, op_id=b.op(10), deleted_at=LONG_AGO, purged_at=LONG_AGO if purged else None)
    newest = archive_key(b.WORKSPACE, b.op(20))
    plan_ = collect([found(KEPT, at=LONG_AGO), found(newest)], row, forgotten=[newest])
    assert (plan_.delete, plan_.unremembered) == ((KEPT,), (newest,))


def test_one_more_archive_does_not_make_an_orphan_of_what_the_database_lost() -> None:
    """Restored to op 10, while the store has op 20; then the workspace is archived again as op 11."""
    lost = archive_key(b.WORKSPACE, b.op(20))
    row = replace(LIVING, archive_key=BEING_MADE)
    plan_ = collect([found(KEPT, at=LONG_AGO), found(lost, at=b.later(-DAY)), found(BEING_MADE)], row, forgotten=[lost])
    assert (plan_.delete, plan_.unremembered) == ((KEPT,), (lost,))


def test_however_many_the_database_lost_all_of_them_stay() -> None:
    """The plausibility stop never sees them: newer archives of the rows have taken their place."""
    rows, keys, lost = [], [], []
    for number in range(500):
        identity = WorkspaceId(UUID(int=1000 + number))
        present = archive_key(identity, b.op(2))
        rows.append(KnownWorkspace(id=identity, archive_key=present, op_id=b.op(2)))
        lost.append(archive_key(identity, b.op(7)))
        keys += [found(lost[-1], at=b.NOW - timedelta(hours=1)), found(present)]
    plan_ = collect(keys, *rows, forgotten=lost, override=True)
    assert (plan_.delete, plan_.start_timers, set(plan_.unremembered)) == ((), (), set(lost))


def test_the_last_resort_of_a_workspace_is_told_when_the_database_does_not_remember_it() -> None:
    newest = archive_key(b.WORKSPACE, b.op(20))
    plan_ = collect([found(KEPT, at=LONG_AGO), found(newest)], LIVING, forgotten=[newest])
    assert (plan_.delete, plan_.unremembered) == ((), (newest,))


@pytest.mark.parametrize(("after", "goes"), [(-1, True), (0, False), (1, False)])
def test_archives_from_before_there_was_a_memory_go_by_the_rows_alone(after: int, goes: bool) -> None:
    made_at = b.later(-DAY)
    keys = [found(OLD, at=made_at + timedelta(seconds=after)), found(KEPT)]
    timers: dict[str, datetime] = {OLD: LONG_AGO}
    plan_ = plan_of(unneeded(keys, [LIVING], b.NOW, RULES), Memory((), made_at), timers, b.NOW, RULES)
    assert (plan_.delete, plan_.unremembered) == (((OLD,), ()) if goes else ((), (OLD,)))


def test_nothing_found_means_nothing_to_do() -> None:
    assert plan([], [LIVING], {}, b.NOW, RULES) == GcPlan((), (), (), ())


# -- for any inputs -------------------------------------------------------------------------------------------------

ids = st.integers(1, 4).map(lambda n: WorkspaceId(UUID(int=n)))
ops = st.integers(1, 4).map(b.op)
keys_ = st.builds(archive_key, ids, ops)
moments = st.integers(-10 * DAY, DAY).map(b.later)
founds = st.lists(
    st.builds(
        FoundArchive,
        keys_ | st.sampled_from(["x", "../home.tar.zst", f"{b.WORKSPACE}/{b.OP}/home.tar.zst.meta"]),
        moments,
        st.booleans(),
    ),
    max_size=20,
    unique_by=lambda archive: archive.key,
)
rows_ = st.lists(
    st.builds(
        KnownWorkspace,
        id=ids,
        archive_key=st.none() | keys_,
        op_id=st.none() | ops,
        deleted_at=st.none() | moments,
        purged_at=st.none() | moments,
        source_archive=st.none() | keys_,
    ),
    max_size=4,
    unique_by=lambda row: row.id,
)
timers_: st.SearchStrategy[dict[str, datetime]] = st.dictionaries(keys_.map(str), moments, max_size=16)
rules_ = st.builds(GcRules, implausible_share=st.sampled_from([0.0, 0.2, 1.0]), implausible_count=st.integers(0, 10))


def needed(rows: list[KnownWorkspace], now: datetime) -> set[str]:
    """What section 9 protects, said once more in other words."""
    keys: set[str | None] = set()
    for row in rows:
        alive = row.deleted_at is None
        if alive:
            keys |= {row.archive_key, str(row.id) + f"/{row.op_id}/home.tar.zst"}
        if alive and row.archive_key is None:
            keys.add(row.source_archive)
        if row.deleted_at is not None and row.purged_at is None and now - row.deleted_at <= timedelta(days=7):
            keys.add(row.archive_key)
    return {key for key in keys if key is not None}


@given(founds, rows_, timers_, rules_, st.booleans())
@settings(max_examples=150)
def test_nothing_protected_is_ever_deleted(
    keys: list[FoundArchive],
    rows: list[KnownWorkspace],
    timers: dict[str, datetime],
    rules: GcRules,
    override: bool,
) -> None:
    plan_ = plan(keys, rows, timers, b.NOW, rules, override=override)
    deleted: set[str] = set(plan_.delete)
    assert not deleted & needed(rows, b.NOW)
    assert not deleted & set(plan_.foreign)
    assert deleted <= {archive.key for archive in keys}
    assert all(b.NOW - timers[key] >= timedelta(hours=2) for key in plan_.delete)
    assert all(any(key.startswith(f"{row.id}/") for row in rows) for key in deleted)
    for row in rows:
        if row.deleted_at is None:
            own = [a for a in keys if a.complete and a.key.startswith(f"{row.id}/") and a.key not in plan_.foreign]
            newest = max((a.modified_at for a in own), default=None)
            assert not own or any(a.modified_at == newest and a.key not in deleted for a in own)


@given(founds, rows_, timers_, rules_, st.frozensets(keys_), moments, st.booleans())
@settings(max_examples=150)
def test_no_archive_is_ever_deleted_that_the_database_does_not_remember(
    keys: list[FoundArchive],
    rows: list[KnownWorkspace],
    timers: dict[str, datetime],
    rules: GcRules,
    remembered: frozenset[str],
    since: datetime,
    override: bool,
) -> None:
    candidates = unneeded(keys, rows, b.NOW, rules)
    plan_ = plan_of(candidates, Memory(remembered, since), timers, b.NOW, rules, override=override)
    old = {archive.key for archive in keys if archive.modified_at < since}
    assert {*plan_.delete, *plan_.start_timers} <= remembered | old
    assert not {*plan_.unremembered} & (remembered | old)
    running = {*timers, *plan_.start_timers} - {*plan_.clear_timers}
    assert not running & {*plan_.unremembered}
    needed_or_told = {*plan_.unremembered, *plan_.foreign, *needed(rows, b.NOW), *candidates.last_resorts}
    assert {archive.key for archive in keys} <= needed_or_told | running


@given(founds, rows_, timers_)
@settings(max_examples=60)
def test_a_timer_runs_for_exactly_the_orphans(
    keys: list[FoundArchive], rows: list[KnownWorkspace], timers: dict[str, datetime]
) -> None:
    plan_ = plan(keys, rows, timers, b.NOW, RULES)
    running = {*timers, *plan_.start_timers} - {*plan_.clear_timers}
    assert set(plan_.delete) <= running
    assert not running & needed(rows, b.NOW)
    assert running <= {archive.key for archive in keys}
    assert not running & set(plan_.foreign)


@given(founds, rows_, timers_)
@settings(max_examples=50)
def test_an_override_only_adds(
    keys: list[FoundArchive], rows: list[KnownWorkspace], timers: dict[str, datetime]
) -> None:
    careful = plan(keys, rows, timers, b.NOW, replace(RULES, implausible_count=2))
    forced = plan(keys, rows, timers, b.NOW, replace(RULES, implausible_count=2), override=True)
    assert careful.delete == (() if careful.stopped else forced.delete)
    assert careful.foreign == forced.foreign


def test_an_op_id_is_enough_to_protect_what_is_being_uploaded() -> None:
    row = KnownWorkspace(id=b.WORKSPACE, archive_key=None, op_id=OpId(UUID(int=77)))
    assert protected_keys([row], b.NOW, RULES) == {archive_key(b.WORKSPACE, b.op(77))}


def test_unknown_workspaces_are_collected_only_at_an_administrators_word() -> None:
    key = archive_key(b.OTHER, b.op(1))
    timers: dict[str, datetime] = {key: LONG_AGO}
    assert plan([found(key)], [LIVING], timers, b.NOW, GcRules()).delete == ()
    assert plan([found(key)], [LIVING], timers, b.NOW, GcRules(), unknown_too=True).delete == (key,)
