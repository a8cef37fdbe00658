"""Which look at the store each situation needs: no archive is read back in vain, and none is relied on unread."""

from dataclasses import replace
from uuid import UUID

import pytest

from codehub.model.names import archive_key
from codehub.model.needs import NOTHING, Depth, Need, archive_need
from codehub.model.observation import JobSeen, JobState, Seen, VolumeSeen
from codehub.model.workspace import (
    HomeContext,
    Incarnation,
    Operation,
    RecoverFrom,
    RecoverRequest,
    VolumeState,
    Workspace,
)
from tests.model import builders as b
from tests.model.ticking import AT_REST, KEY, during, job

LOOK, VERIFY = Depth.LOOK, Depth.VERIFY
GONE = VolumeSeen(False)
OLD = VolumeSeen(True, Incarnation("an older one"))
CONDEMNED = HomeContext(VolumeState.CONDEMNED, b.MADE)


def need(row: Workspace, seen: Seen, **also: bool) -> Need:
    return archive_need(row, seen, b.NOW, **also)


def with_job(seen: Seen, state: JobState) -> Seen:
    return replace(seen, jobs=job(state))


ARCHIVING, ARCHIVING_SEEN = during(Operation.ARCHIVING)
COMMITTED = during(Operation.ARCHIVING, home_ctx=CONDEMNED, archive_key=archive_key(b.WORKSPACE, b.OP))[0]
RESTORING, RESTORING_SEEN = during(Operation.RESTORING)
MAKING, MAKING_SEEN = during(Operation.CREATE_EMPTY_ARCHIVE)
MADE = b.with_status(MAKING, archive_key=archive_key(b.WORKSPACE, b.OP))
RESTORED = b.with_status(RESTORING, home_ctx=replace(RESTORING.status.home_ctx, restore_marker=KEY))

SITUATIONS = {
    "archiving, no job yet": (ARCHIVING, ARCHIVING_SEEN, Need(None, LOOK, waits=True)),
    "archiving, the job runs": (ARCHIVING, with_job(ARCHIVING_SEEN, JobState.RUNNING), NOTHING),
    "archiving, the job is done": (
        ARCHIVING,
        with_job(ARCHIVING_SEEN, JobState.SUCCEEDED),
        Need(None, VERIFY, waits=True),
    ),
    "archiving, the job failed": (ARCHIVING, with_job(ARCHIVING_SEEN, JobState.FAILED), NOTHING),
    "archiving, the volume is gone": (
        ARCHIVING,
        replace(ARCHIVING_SEEN, volume=GONE),
        Need(None, VERIFY, waits=True),
    ),
    "archiving, the volume is gone under a job that failed": (
        ARCHIVING,
        replace(with_job(ARCHIVING_SEEN, JobState.FAILED), volume=GONE),
        Need(None, VERIFY, waits=True),
    ),
    "archived, the job is still there": (COMMITTED, with_job(ARCHIVING_SEEN, JobState.SUCCEEDED), NOTHING),
    "archived, the volume is to go": (COMMITTED, ARCHIVING_SEEN, Need(VERIFY, None, waits=True)),
    "archived, the volume is gone": (COMMITTED, replace(ARCHIVING_SEEN, volume=GONE), Need(LOOK, None, waits=True)),
    "restoring, no volume yet": (RESTORING, replace(RESTORING_SEEN, volume=GONE), NOTHING),
    "restoring, no job yet": (RESTORING, RESTORING_SEEN, Need(LOOK, None, waits=True)),
    "restoring, an old volume is in the way": (
        RESTORING,
        replace(RESTORING_SEEN, volume=OLD),
        Need(VERIFY, None, waits=True),
    ),
    "restoring, the job runs": (RESTORING, with_job(RESTORING_SEEN, JobState.RUNNING), NOTHING),
    "restored": (RESTORED, RESTORING_SEEN, NOTHING),
    "making a first archive": (MAKING, MAKING_SEEN, Need(None, VERIFY, waits=True)),
    "the first archive is committed": (MADE, MAKING_SEEN, Need(LOOK, None, waits=True)),
    "running": (*AT_REST["running"], NOTHING),
    "archived and seen": (*AT_REST["archived"], NOTHING),
    "archived, the store was out": (*AT_REST["store out"], Need(LOOK)),
    "in the trash": (*AT_REST["in the trash"], Need(LOOK)),
    "nothing could be looked at": (ARCHIVING, Seen(), NOTHING),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_is_looked_at(situation: str) -> None:
    row, seen, expected = SITUATIONS[situation]
    assert need(row, seen) == expected


def test_a_job_of_another_operation_says_nothing_about_this_one() -> None:
    other = replace(ARCHIVING_SEEN, jobs=(JobSeen(b.op(77), JobState.RUNNING),))
    assert need(ARCHIVING, other) == need(ARCHIVING, ARCHIVING_SEEN)


def test_nothing_is_looked_at_while_an_operation_pauses() -> None:
    pausing = b.with_status(ARCHIVING, retry_at=b.later(5))
    assert need(pausing, ARCHIVING_SEEN) == NOTHING
    assert archive_need(pausing, ARCHIVING_SEEN, b.later(5)) != NOTHING


def test_a_doubt_is_looked_into_and_nothing_waits_for_it() -> None:
    row, seen = AT_REST["archived"]
    assert need(row, seen, suspected=True) == Need(LOOK)
    assert need(*AT_REST["running"], suspected=True) == NOTHING


def test_a_recovery_waits_for_the_archive_that_it_may_rely_on() -> None:
    row, seen = AT_REST["archived"]
    asked = replace(row.wish, recover_request=RecoverRequest(UUID(int=3), RecoverFrom.ARCHIVE))
    assert need(replace(row, wish=asked), seen) == Need(LOOK, waits=True)


def test_what_was_answered_is_no_longer_waited_for() -> None:
    assert Need(LOOK, waits=True).is_waited_for
    assert not Need(LOOK).is_waited_for
    assert not Need(None, None, waits=True).is_waited_for
