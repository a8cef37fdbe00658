"""Steps: each operation is a ladder, and the first rung that does not hold says what is done now."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from codehub.model import actions as a
from codehub.model.failure import Fault
from codehub.model.observation import InstanceSeen, JobState, Life, Seen, VolumeSeen
from codehub.model.steps import Wait
from codehub.model.workspace import (
    ArchiveKey,
    ErrorReason,
    HomeContext,
    Incarnation,
    Operation,
    VolumeState,
)
from tests.model import builders as b
from tests.model.stepping import (
    BUSY,
    COMMITTED,
    HOMES,
    KEY,
    LEFT_OVER,
    MADE_FOR_IT,
    OLD,
    OLD_KEY,
    OLD_REF,
    OWN,
    OWN_REF,
    RUNNING,
    STRANGE,
    STRANGER,
    WITH_JOBS,
    A,
    J,
    Op,
    V,
    act,
    change,
    during,
    job,
    seeing,
    step,
)

# -- for all of them ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", BUSY)
@pytest.mark.parametrize("unseen", ["jobs", "instance"])
def test_nothing_is_done_unseen(operation: Operation, unseen: str) -> None:
    assert isinstance(step(during(operation), seeing(volume=OWN, **{unseen: None})), Wait)


@pytest.mark.parametrize("operation", BUSY)
@pytest.mark.parametrize("state", JobState)
def test_a_job_of_an_earlier_operation_goes_first(operation: Operation, state: JobState) -> None:
    seen = seeing(volume=OWN, instance=RUNNING, jobs=job(state, op_id=b.op(5)))
    assert act(during(operation), seen) == a.RemoveJob(b.op(5))


def test_without_an_operation_there_is_nothing_to_do() -> None:
    row = b.workspace(now=b.status(op_id=b.OP))
    assert isinstance(step(row, seeing(volume=OWN, instance=RUNNING)), Wait)


@pytest.mark.parametrize(
    ("operation", "home"),
    [
        (Op.PROVISIONING, HOMES[Op.PROVISIONING]),
        (Op.RESTORING, HOMES[Op.RESTORING]),
        (Op.ARCHIVING, HOMES[Op.ARCHIVING]),
        (Op.ARCHIVING, COMMITTED),
        (Op.CREATE_EMPTY_ARCHIVE, HOMES[Op.CREATE_EMPTY_ARCHIVE]),
        (Op.DELETING, HOMES[Op.DELETING]),
    ],
)
@pytest.mark.parametrize("volume", [b.NO_VOLUME, OWN, LEFT_OVER], ids=["no volume", "its volume", "a leftover"])
@pytest.mark.parametrize("life", Life)
def test_an_instance_goes_before_its_home_is_touched(
    operation: Operation, home: HomeContext, volume: VolumeSeen, life: Life
) -> None:
    seen = seeing(volume=volume, instance=InstanceSeen(life, b.op(5)), archive=A.VERIFIED, op_archive=A.MISSING)
    assert act(during(operation, home_ctx=home), seen) == a.RemoveInstance()


# -- STARTING and STOPPING ------------------------------------------------------------------------------------------

START = a.StartInstance(b.OP, "ide", OWN_REF)


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        (b.ABSENT, START),
        (InstanceSeen(Life.DEAD, b.OP), START),  # the driver makes a dead one again
        (InstanceSeen(Life.ALIVE, b.OP), None),
        (b.running(b.op(5)), a.RemoveInstance()),
        (b.running(None), a.RemoveInstance()),
        (InstanceSeen(Life.DEAD, b.op(5)), a.RemoveInstance()),
    ],
    ids=["none", "dead", "getting ready", "of an earlier start", "of nobody", "dead, of an earlier start"],
)
def test_starting(instance: InstanceSeen, expected: a.Action | None) -> None:
    assert act(during(Op.STARTING), seeing(volume=OWN, instance=instance)) == expected


@pytest.mark.parametrize("volume", [None, b.NO_VOLUME, VolumeSeen(False), STRANGER, VolumeSeen(True, b.MADE, "u2")])
def test_nothing_starts_without_its_very_volume(volume: VolumeSeen | None) -> None:
    assert isinstance(step(during(Op.STARTING), seeing(volume=volume)), Wait)


@pytest.mark.parametrize("state", [V.NONE, V.RESTORING, V.CONDEMNED])
def test_nothing_starts_on_a_home_that_is_not_whole(state: VolumeState) -> None:
    row = during(Op.STARTING, home_ctx=replace(HOMES[Op.STARTING], volume=state))
    assert isinstance(step(row, seeing(volume=OWN)), Wait)


@pytest.mark.parametrize("instance", [RUNNING, InstanceSeen(Life.DEAD, None), b.ABSENT])
def test_stopping_removes_whatever_instance_there_is(instance: InstanceSeen) -> None:
    assert act(during(Op.STOPPING), seeing(volume=OWN, instance=instance)) == a.RemoveInstance()


# -- PROVISIONING ---------------------------------------------------------------------------------------------------


def test_provisioning_makes_the_volume_of_its_own_incarnation() -> None:
    assert act(during(Op.PROVISIONING), seeing()) == a.CreateVolume(b.MADE)


def test_provisioning_removes_what_an_earlier_operation_made_first() -> None:
    assert act(during(Op.PROVISIONING), seeing(volume=LEFT_OVER)) == a.DeleteVolume(OLD_REF)


def test_provisioning_leaves_a_volume_that_nobody_made() -> None:
    found = step(during(Op.PROVISIONING), seeing(volume=STRANGER))
    assert isinstance(found, Fault)
    assert found.reason is ErrorReason.VOLUME_UNKNOWN


# -- RESTORING ------------------------------------------------------------------------------------------------------

RESTORE = a.StartRestoreJob(b.OP, OLD_KEY, OWN_REF)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (seeing(), a.CreateVolume(b.MADE)),
        (seeing(volume=None), None),
        (seeing(volume=LEFT_OVER, archive=A.VERIFIED), a.DeleteVolume(OLD_REF)),
        (seeing(volume=LEFT_OVER, archive=A.LISTED), None),  # never before the archive was verified
        (seeing(volume=LEFT_OVER), None),
        (seeing(volume=MADE_FOR_IT), RESTORE),
        (seeing(volume=MADE_FOR_IT, store_out=True), None),
        (seeing(volume=MADE_FOR_IT, jobs=job(J.RUNNING)), None),
        (seeing(volume=OWN), None),  # it is whole: the database has forgotten that
    ],
    ids=[
        "nothing",
        "unseen",
        "leftover",
        "unverified",
        "archive unseen",
        "ready",
        "store out",
        "running",
        "restored before",
    ],
)
def test_restoring(seen: Seen, expected: a.Action | None) -> None:
    assert act(during(Op.RESTORING), seen) == expected


def test_the_marker_comes_from_the_finished_job_with_the_volume_it_worked_on() -> None:
    home = change(during(Op.RESTORING), seeing(volume=OWN, jobs=job(J.SUCCEEDED, restore_marker=OLD_KEY))).home_ctx
    assert (home.restore_marker, home.uid, home.volume) == (OLD_KEY, "u1", V.RESTORING)


def test_a_restore_that_the_database_has_forgotten_the_end_of_is_not_run_again() -> None:
    """Somebody may have worked in the home since; a volume without attributes would be emptied."""
    home = change(during(Op.RESTORING), seeing(volume=OWN)).home_ctx
    assert (home.restore_marker, home.uid) == (OLD_KEY, "u1")


@pytest.mark.parametrize("marker", [None, KEY])
def test_a_job_that_does_not_say_what_it_restored_failed(marker: ArchiveKey | None) -> None:
    found = step(during(Op.RESTORING), seeing(volume=OWN, jobs=job(J.SUCCEEDED, restore_marker=marker)))
    assert isinstance(found, Fault)
    assert found.reason is ErrorReason.ACTION_FAILED


def test_a_failed_job_says_why() -> None:
    failed = job(J.FAILED, error=ErrorReason.ARCHIVE_CORRUPTED, message="sha256 differs")
    assert step(during(Op.RESTORING), seeing(volume=OWN, jobs=failed)) == Fault(
        ErrorReason.ARCHIVE_CORRUPTED, "sha256 differs"
    )


def test_once_restored_the_job_is_removed() -> None:
    row = during(Op.RESTORING, home_ctx=replace(HOMES[Op.RESTORING], restore_marker=OLD_KEY, uid="u1"))
    done = seeing(volume=OWN, jobs=job(J.SUCCEEDED, restore_marker=OLD_KEY))
    assert act(row, done) == a.RemoveJob(b.OP)


@pytest.mark.parametrize("noted", [False, True], ids=["job there", "marker stored"])
def test_a_listing_that_lacks_the_volume_does_not_begin_the_restore_again(noted: bool) -> None:
    """The volume may well be there, and would be in the way of a new one: it is looked at directly first."""
    done = job(J.SUCCEEDED, restore_marker=OLD_KEY)
    home = replace(HOMES[Op.RESTORING], restore_marker=OLD_KEY, uid="u1") if noted else HOMES[Op.RESTORING]
    hidden = seeing(volume=VolumeSeen(exists=False), jobs=() if noted else done)
    assert isinstance(step(during(Op.RESTORING, home_ctx=home), hidden), Wait)


@pytest.mark.parametrize("volume", [b.NO_VOLUME, VolumeSeen(True, b.MADE, "u2")], ids=["gone", "another"])
@pytest.mark.parametrize("noted", [False, True], ids=["job there", "marker stored"])
def test_if_the_volume_vanishes_the_restore_begins_again_under_a_new_op_id(volume: VolumeSeen, noted: bool) -> None:
    done = job(J.SUCCEEDED, restore_marker=OLD_KEY)
    home = replace(HOMES[Op.RESTORING], restore_marker=OLD_KEY, uid="u1") if noted else HOMES[Op.RESTORING]
    found = change(during(Op.RESTORING, home_ctx=home), seeing(volume=volume, jobs=() if noted else done))
    assert (found.op_id, found.op_started_at, found.operation) == (b.NEXT_OP, b.later(5), Op.RESTORING)
    assert (found.home_ctx.incarnation, found.home_ctx.restore_marker) == (Incarnation(str(b.NEXT_OP)), None)
    assert found.home_ctx.knows(b.MADE)


# -- DELETING -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (seeing(volume=OWN, instance=RUNNING, jobs=job(J.RUNNING)), a.RemoveJob(b.OP)),
        (seeing(volume=OWN, instance=RUNNING), a.RemoveInstance()),
        (seeing(volume=None, instance=RUNNING), a.RemoveInstance()),
        (seeing(volume=OWN), a.DeleteVolume(OWN_REF)),
        (seeing(volume=LEFT_OVER), a.DeleteVolume(OLD_REF)),
        (seeing(volume=None), None),
        (seeing(), None),
    ],
    ids=["job first", "then the instance", "even so", "then the volume", "or an old one", "unseen", "done"],
)
def test_deleting_goes_from_job_to_instance_to_volume(seen: Seen, expected: a.Action | None) -> None:
    assert act(during(Op.DELETING), seen) == expected


# -- the order of destruction, for anything that can be seen --------------------------------------------------------

states = st.sampled_from(V)
made = st.sampled_from([b.MADE, OLD, STRANGE])
homes = st.builds(
    HomeContext,
    volume=states,
    incarnation=st.just(b.MADE),
    uid=st.sampled_from([None, "u1"]),
    restore_marker=st.sampled_from([None, KEY, OLD_KEY]),
    retired=st.sampled_from([(), (OLD,)]),
    instance_op=st.sampled_from([None, b.OP]),
)
archives = st.none() | st.sampled_from(A)
own_jobs = [job(state) for state in J]
earlier_jobs = [job(state, op_id=b.op(5)) for state in J]
looks = st.builds(
    Seen,
    instance=st.sampled_from([None, b.ABSENT, RUNNING, InstanceSeen(Life.DEAD, b.op(5))]),
    volume=st.none() | st.builds(VolumeSeen, st.booleans(), made, st.sampled_from(["u1", "u2"]), st.booleans()),
    archive=archives,
    op_archive=archives,
    jobs=st.just(()) | st.sampled_from([None, *own_jobs, *earlier_jobs]),
    store_out=st.booleans(),
)


@given(st.sampled_from(BUSY), homes, st.none() | st.just(OLD_KEY), looks)
@settings(max_examples=250)
def test_a_volume_goes_only_after_its_instance_and_jobs_and_never_one_that_is_in_use(
    operation: Operation, home: HomeContext, key: ArchiveKey | None, seen: Seen
) -> None:
    assume(operation in WITH_JOBS or seen.job(b.OP) is None)
    found = act(during(operation, home_ctx=home, archive_key=key), seen)
    if not isinstance(found, a.DeleteVolume):
        return
    assert seen.volume is not None
    assert found.volume == seen.volume.ref
    assert seen.instance == b.ABSENT
    assert seen.jobs == ()
    assert home.knows(found.volume.incarnation)
    assert not (home.volume is V.LIVE and found.volume.incarnation == b.MADE and home.uid in (None, found.volume.uid))
    if operation not in (Op.DELETING, Op.PROVISIONING):
        assert seen.archive is A.VERIFIED


@given(st.sampled_from(BUSY), homes, looks)
@settings(max_examples=250)
def test_nothing_is_started_beside_an_instance_or_a_job(operation: Operation, home: HomeContext, seen: Seen) -> None:
    assume(operation in WITH_JOBS or seen.job(b.OP) is None)
    found = act(during(operation, home_ctx=home), seen)
    if isinstance(found, a.StartArchiveJob | a.StartRestoreJob | a.CreateVolume | a.MakeArchive):
        assert seen.instance == b.ABSENT
        assert seen.jobs == ()
    if isinstance(found, a.StartInstance | a.StartArchiveJob):
        assert home.volume is V.LIVE
        assert seen.volume is not None
        assert found.volume == seen.volume.ref
