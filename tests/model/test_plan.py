"""Plan: section 5's table, row by row, over every phase, wish and observation."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import pytest

from codehub.model.observation import InstanceSeen, Life, Seen, VolumeSeen
from codehub.model.phase import LEVEL
from codehub.model.plan import may_delete_unknown, next_operation
from codehub.model.workspace import (
    ArchiveKey,
    Desired,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    Phase,
    VolumeState,
    Workspace,
)
from tests.model import builders as b

P, D, Op = Phase, Desired, Operation
UP = {D.STANDBY, D.RUNNING}
AWAY = {D.ARCHIVED, D.DELETED}
DOWN = {D.STANDBY, D.ARCHIVED, D.DELETED}
KEY = ArchiveKey("key")
CONDEMNED = HomeContext(volume=VolumeState.CONDEMNED, incarnation=b.MADE)
INSTANCES = [b.ABSENT, InstanceSeen(Life.DEAD, b.OP), InstanceSeen(Life.ALIVE, b.OP), InstanceSeen(Life.READY, b.OP)]


@dataclass(frozen=True)
class Case:
    phase: Phase
    desired: Desired
    instance: InstanceSeen = b.ABSENT
    leftover: bool = False
    archive_key: bool = False
    source: bool = False
    deleted: bool = False

    @property
    def workspace(self) -> Workspace:
        now = b.status(phase=self.phase, archive_key=KEY if self.archive_key else None, home_ctx=self.home)
        deleted_at = b.NOW if self.deleted else None
        source = ArchiveKey("source") if self.source else None
        return b.workspace(source_archive=source, now=now, desired_state=self.desired, deleted_at=deleted_at)

    @property
    def home(self) -> HomeContext:
        live = self.phase in (P.STANDBY, P.RUNNING)
        return b.LIVE_HOME if live else CONDEMNED

    @property
    def seen(self) -> Seen:
        there = self.leftover or self.phase in (P.STANDBY, P.RUNNING)
        return replace(b.NOTHING, instance=self.instance, volume=b.LIVE_VOLUME if there else b.NO_VOLUME)

    @property
    def planned(self) -> Operation:
        return next_operation(self.workspace, self.seen).operation


@dataclass(frozen=True)
class Row:
    """One row of the table; None means "whichever"."""

    operation: Operation
    phases: set[Phase]
    desired: set[Desired]
    instance: bool | None = None
    leftover: bool | None = None
    archive_key: bool | None = None
    source: bool | None = None

    def matches(self, case: Case) -> bool:
        pairs = [
            (self.instance, case.instance.exists),
            (self.leftover, case.leftover),
            (self.archive_key, case.archive_key),
            (self.source, case.source),
        ]
        fits = case.phase in self.phases and case.desired in self.desired
        return fits and all(asked is None or asked is given for asked, given in pairs)


# No case may match two rows: the order of the table does not matter.
TABLE = [
    # An instance goes before anything else moves the home, unless the workspace is on its way up.
    Row(Op.STOPPING, {P.RUNNING}, DOWN),
    Row(Op.STOPPING, {P.PENDING, P.ARCHIVED, P.STANDBY}, DOWN, instance=True),
    Row(Op.CREATE_EMPTY_ARCHIVE, {P.PENDING}, {D.ARCHIVED}, instance=False, archive_key=False),
    Row(Op.CREATE_EMPTY_ARCHIVE, {P.PENDING}, {D.STANDBY}, instance=False, archive_key=False, source=True),
    Row(Op.CREATE_EMPTY_ARCHIVE, {P.PENDING}, {D.RUNNING}, archive_key=False, source=True),
    Row(Op.PROVISIONING, {P.PENDING}, {D.STANDBY}, instance=False, archive_key=False, source=False),
    Row(Op.PROVISIONING, {P.PENDING}, {D.RUNNING}, archive_key=False, source=False),
    Row(Op.RESTORING, {P.ARCHIVED}, {D.STANDBY}, instance=False),
    Row(Op.RESTORING, {P.ARCHIVED}, {D.RUNNING}),
    Row(Op.STARTING, {P.STANDBY}, {D.RUNNING}),
    Row(Op.ARCHIVING, {P.STANDBY}, AWAY, instance=False),
    Row(Op.ARCHIVING, {P.ARCHIVED}, AWAY, instance=False, leftover=True),
]

# Where each operation leads from and to.
STEPS = {
    Op.PROVISIONING: (P.PENDING, P.STANDBY),
    Op.CREATE_EMPTY_ARCHIVE: (P.PENDING, P.ARCHIVED),
    Op.RESTORING: (P.ARCHIVED, P.STANDBY),
    Op.STARTING: (P.STANDBY, P.RUNNING),
}


def cases(*phases: Phase, deleted: bool = False) -> Iterator[Case]:
    yes_no = (False, True)
    for phase, desired, instance, leftover, key, source in product(phases, D, INSTANCES, yes_no, yes_no, yes_no):
        home_is_used = phase in (P.STANDBY, P.RUNNING)
        if not (leftover and home_is_used and not deleted):  # there is one volume: live, or left over
            yield Case(phase, desired, instance, leftover, key, source, deleted)


def test_every_case_has_the_operation_of_the_table() -> None:
    for case in cases(P.PENDING, P.ARCHIVED, P.STANDBY, P.RUNNING):
        rows = [row for row in TABLE if row.matches(case)]
        assert len(rows) <= 1, f"the table is ambiguous: {case}"
        expected = rows[0].operation if rows else Op.NONE
        assert case.planned is expected, f"{case.planned}, not {expected}: {case}"


def test_every_row_of_the_table_is_met_by_some_case() -> None:
    every = list(cases(*LEVEL))
    assert all(any(row.matches(case) for case in every) for row in TABLE)


@pytest.mark.parametrize(
    ("phase", "desired", "operation"),
    [
        (P.PENDING, D.ARCHIVED, Op.CREATE_EMPTY_ARCHIVE),
        (P.PENDING, D.STANDBY, Op.PROVISIONING),
        (P.PENDING, D.RUNNING, Op.PROVISIONING),
        (P.PENDING, D.DELETED, Op.NONE),  # deleted_at follows at once
        (P.ARCHIVED, D.ARCHIVED, Op.NONE),
        (P.ARCHIVED, D.STANDBY, Op.RESTORING),
        (P.ARCHIVED, D.RUNNING, Op.RESTORING),
        (P.ARCHIVED, D.DELETED, Op.NONE),  # deleted_at follows at once
        (P.STANDBY, D.ARCHIVED, Op.ARCHIVING),
        (P.STANDBY, D.STANDBY, Op.NONE),
        (P.STANDBY, D.RUNNING, Op.STARTING),
        (P.STANDBY, D.DELETED, Op.ARCHIVING),
        (P.RUNNING, D.ARCHIVED, Op.STOPPING),
        (P.RUNNING, D.STANDBY, Op.STOPPING),
        (P.RUNNING, D.RUNNING, Op.NONE),
        (P.RUNNING, D.DELETED, Op.STOPPING),
        (P.ERROR, D.ARCHIVED, Op.NONE),
        (P.ERROR, D.STANDBY, Op.NONE),
        (P.ERROR, D.RUNNING, Op.NONE),
        (P.ERROR, D.DELETED, Op.NONE),
    ],
)
def test_the_plain_way_up_and_down(phase: Phase, desired: Desired, operation: Operation) -> None:
    instance = b.running(b.OP) if phase is P.RUNNING else b.ABSENT
    assert Case(phase, desired, instance).planned is operation


def test_error_plans_nothing_whatever_is_there() -> None:
    assert {case.planned for case in cases(P.ERROR)} == {Op.NONE}


def test_deleted_means_deleting_while_an_instance_or_volume_exists() -> None:
    for case in cases(*Phase, deleted=True):
        there = case.seen.instance != b.ABSENT or case.seen.volume != b.NO_VOLUME
        assert case.planned is (Op.DELETING if there else Op.NONE), case


def test_deleting_is_planned_only_once_deleted_at_is_set() -> None:
    assert Op.DELETING not in {case.planned for case in cases(*Phase)}


def test_every_step_leads_to_the_next_level_toward_the_wish() -> None:
    for case in cases(*LEVEL):
        operation = case.planned
        if operation in STEPS:
            begin, end = STEPS[operation]
            assert case.phase is begin, case
            between = [level for level in LEVEL.values() if LEVEL[begin] < level < LEVEL[end]]
            assert not between or operation is Op.PROVISIONING, case  # a blank home needs no archive first
            copied = operation is Op.CREATE_EMPTY_ARCHIVE and case.source
            assert copied or LEVEL[end] <= LEVEL[Phase(case.desired.value)], case
        elif operation in (Op.STOPPING, Op.ARCHIVING):
            assert case.desired in DOWN, case


def test_arrived_means_nothing_to_do() -> None:
    for case in cases(*LEVEL):
        at_rest = not case.leftover and (not case.instance.exists or case.phase is P.RUNNING)
        if case.phase.value == case.desired.value and at_rest:
            assert case.planned is Op.NONE, case


def test_every_plan_says_why() -> None:
    for case in [*cases(*Phase), *cases(*Phase, deleted=True)]:
        why = next_operation(case.workspace, case.seen).why
        assert why.strip(), case


STRANGER = replace(b.NOTHING, volume=VolumeSeen(True, Incarnation("stranger")))


@pytest.mark.parametrize("phase", [P.PENDING, P.ARCHIVED])
@pytest.mark.parametrize("desired", [D.ARCHIVED, D.DELETED])
def test_a_volume_that_nobody_made_is_no_leftover(phase: Phase, desired: Desired) -> None:
    row = b.workspace(now=b.status(phase=phase, archive_key=KEY), desired_state=desired)
    assert next_operation(row, STRANGER).operation is Op.NONE


@pytest.mark.parametrize(
    "seen",
    [Seen(), replace(b.NOTHING, volume=None), replace(b.NOTHING, instance=None)],
    ids=["nothing seen", "no volume seen", "no instance seen"],
)
def test_of_a_deleted_workspace_nothing_is_done_unseen(seen: Seen) -> None:
    assert next_operation(b.workspace(deleted_at=b.NOW), seen).operation is Op.NONE


@pytest.mark.parametrize(
    ("error", "purged", "operation", "may"),
    [
        (None, False, Op.NONE, False),
        (ErrorReason.VOLUME_UNKNOWN, False, Op.NONE, True),  # deleted from ERROR: whoever asked was told first
        (None, True, Op.NONE, True),
        (ErrorReason.TIMEOUT, False, Op.DELETING, False),  # an error on the way is no consent
        (ErrorReason.TIMEOUT, True, Op.DELETING, True),
    ],
)
def test_a_volume_that_nobody_made_goes_only_with_whoever_was_told(
    error: ErrorReason | None, purged: bool, operation: Operation, may: bool
) -> None:
    now = b.status(error_reason=error, operation=operation)
    row = b.workspace(now=now, deleted_at=b.NOW, purged_at=b.NOW if purged else None)
    assert may_delete_unknown(row) is may
    if operation is Op.NONE:
        assert next_operation(row, STRANGER).operation is (Op.DELETING if may else Op.NONE)


def test_an_instance_beside_a_volume_that_nobody_made_still_goes() -> None:
    seen = replace(STRANGER, instance=b.running(b.OP))
    assert next_operation(b.workspace(deleted_at=b.NOW), seen).operation is Op.DELETING
