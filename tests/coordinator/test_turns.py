"""Storage jobs run as a queue: so many at once, owners by turns, and nothing is lost by waiting."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

from codehub.coordinator.controller import Controller
from codehub.coordinator.turns import Turns
from codehub.drivers.memory import MemoryWorld, Misbehaviour
from codehub.drivers.memory.things import JobKind, Volume
from codehub.model.failure import Rules
from codehub.model.job_queue import JobLimits
from codehub.model.names import archive_key
from codehub.model.observation import JobSeen, JobState
from codehub.model.workspace import (
    ArchiveKey,
    Incarnation,
    InstanceBackend,
    Operation,
    OpId,
    Phase,
    UserId,
    WorkspaceId,
)
from tests.coordinator.installation import Installation, is_at, rest, ticks
from tests.coordinator.test_controller import without_pauses

FOUR = JobLimits(in_all=4, per_node=4)
ONE = JobLimits(in_all=1, per_node=1)
ADA, BOB = UserId(UUID(int=11)), UserId(UUID(int=12))


async def due(site: Installation, owner: UserId = ADA) -> WorkspaceId:
    """At rest with its home on a volume, and to be archived."""
    it, made = WorkspaceId(uuid4()), Incarnation(str(uuid4()))
    site.world.volumes[it] = Volume(made, "u", {"notes": b"kept"})
    home = {"volume": "live", "incarnation": made, "uid": "u"}
    return await site.add(id=it, owner_user_id=owner, phase="STANDBY", desired_state="ARCHIVED", home_ctx=home)


async def wanted(site: Installation, owner: UserId = ADA) -> WorkspaceId:
    """Archived, and to be restored."""
    it = WorkspaceId(uuid4())
    key = archive_key(it, OpId(uuid4()))
    site.world.put_archive(ArchiveKey(key), {"notes": b"kept"})
    return await site.add(id=it, owner_user_id=owner, phase="ARCHIVED", desired_state="STANDBY", archive_key=key)


def at_work(site: Installation) -> list[WorkspaceId]:
    return [job.workspace_id for job in site.world.jobs.values() if job.state is JobState.RUNNING]


async def stuck(site: Installation, controller: Controller) -> WorkspaceId:
    """A restore that has the only place and does not get further."""
    it = await wanted(site)
    site.world.held.add(it)
    await site.ticked_until(controller, it, lambda _: at_work(site) == [it])
    return it


async def test_many_homes_due_at_once_run_as_a_queue_and_all_arrive(site: Installation) -> None:
    them = [await due(site) for _ in range(40)]
    most, longest = 0, 0
    async with site.controller(job_limits=FOUR) as controller:
        for _ in range(400):
            await ticks(controller, 1)
            most, longest = max(most, len(at_work(site))), max(longest, controller.jobs_waiting)
            if not site.world.volumes:
                break
        assert most == 3, "one place is left to restores"
        assert longest >= 30
        for it in them:
            row = await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
            assert row.status.archive_key is not None
            assert site.world.stored[row.status.archive_key].home == {"notes": b"kept"}
        assert controller.jobs_waiting == 0


async def test_a_restore_does_not_wait_behind_archives(site: Installation) -> None:
    for it in [await due(site) for _ in range(10)]:
        site.world.held.add(it)
    async with site.controller(job_limits=FOUR) as controller:
        await ticks(controller, 10)
        assert len(at_work(site)) == 3
        late = await wanted(site)
        await site.ticked_until(controller, late, is_at(Phase.STANDBY))


async def test_who_has_many_due_does_not_hold_up_another_owner(site: Installation) -> None:
    async with site.controller(job_limits=ONE) as controller:
        occupant = await stuck(site, controller)
        many = [await due(site) for _ in range(10)]
        await ticks(controller, 3)
        other = await due(site, BOB)
        await ticks(controller, 3)
        assert controller.jobs_waiting == 11
        site.world.held.discard(occupant)
        await site.ticked_until(controller, other, is_at(Phase.ARCHIVED))
        assert sum(it in site.world.volumes for it in many) >= 9


async def test_jobs_of_an_earlier_leader_count(site: Installation) -> None:
    for it in [await due(site) for _ in range(10)]:
        site.world.held.add(it)
    async with site.controller(job_limits=FOUR) as controller:
        await ticks(controller, 10)
    before = at_work(site)
    async with site.controller(job_limits=FOUR) as controller:
        await ticks(controller, 10)
        assert at_work(site) == before
        assert (controller.jobs_running, controller.jobs_waiting) == (3, 7)


async def test_no_deadline_runs_while_it_waits(site: Installation) -> None:
    limits = Rules().time_limits
    rules = Rules(time_limits={**limits, Operation.ARCHIVING: timedelta(seconds=1)})
    async with site.controller(job_limits=ONE, rules=rules) as controller:
        occupant = await stuck(site, controller)
        it = await due(site)
        async with asyncio.timeout(10):
            now = asyncio.get_running_loop().time
            until = now() + 1.5
            while now() < until:
                await ticks(controller, 1)
        row = await site.row(it)
        assert (row.status.operation, row.status.error_reason) == (Operation.ARCHIVING, None)
        site.world.held.discard(occupant)
        await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))


async def test_what_waits_asks_the_store_nothing(site: Installation) -> None:
    async with site.controller(job_limits=ONE) as controller:
        await stuck(site, controller)
        for _ in range(5):
            await due(site)
        await ticks(controller, 5)
        looks = 0
        for _ in range(20):
            await controller.tick()
            looks += controller.errands
            await rest(controller)
        assert looks == 0


async def test_a_deletion_is_not_held_up_by_the_queue(site: Installation) -> None:
    async with site.controller(job_limits=ONE) as controller:
        await stuck(site, controller)
        it = await due(site)
        await ticks(controller, 3)
        assert controller.jobs_waiting == 1
        await site.owner.execute(
            "UPDATE workspaces SET deleted_at = now(), desired_state = 'DELETED' WHERE id = %s", [it]
        )
        await site.ticked_until(controller, it, lambda _: it not in site.world.volumes)
        assert controller.jobs_waiting == 0


async def test_a_home_that_vanished_while_it_waited_is_lost_and_leaves_the_queue(site: Installation) -> None:
    async with site.controller(job_limits=ONE) as controller:
        occupant = await stuck(site, controller)
        it = await due(site)
        await ticks(controller, 3)
        site.world.lose_volume(it)
        await ticks(controller, 3)
        site.world.held.discard(occupant)
        await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert controller.jobs_waiting == 0


async def test_the_limit_per_node_is_kept_where_a_backend_is_one_machine(site: Installation) -> None:
    for it in [await due(site) for _ in range(5)]:
        site.world.held.add(it)
    limits = JobLimits(in_all=100, per_node=3)
    machine = {InstanceBackend.PROCESS: replace(site.world.backend(), node="here")}
    async with site.controller(job_limits=limits, backends=machine) as controller:
        await ticks(controller, 6)
        assert len(at_work(site)) == 2
    async with site.controller(job_limits=limits) as controller:
        await ticks(controller, 6)
        assert len(at_work(site)) == 5, "a cluster chooses the nodes itself"


async def test_a_job_that_shows_nothing_new_for_long_holds_no_place() -> None:
    turns = Turns(ONE, silence=0.0)
    silent = JobSeen(OpId(uuid4()), JobState.RUNNING)
    jobs = {InstanceBackend.PROCESS: {WorkspaceId(uuid4()): [silent]}}
    turns.call(jobs, lambda _id, _backend: True)
    assert turns.running == 1
    turns.call(jobs, lambda _id, _backend: True)
    assert turns.running == 0
    moved = {InstanceBackend.PROCESS: {WorkspaceId(uuid4()): [JobSeen(silent.op_id, JobState.RUNNING, bytes_done=1)]}}
    turns.call(moved, lambda _id, _backend: True)
    assert turns.running == 1


async def test_an_outage_of_one_backend_holds_no_place_of_the_others(site: Installation) -> None:
    """Its job was asked for, and is in no listing yet."""
    there = MemoryWorld()
    key = archive_key(WorkspaceId(uuid4()), OpId(uuid4()))
    site.world.put_archive(ArchiveKey(key), {})
    on_docker = {"instance_backend": "docker", "storage_backend": "docker-volume", "archive_key": key}
    it = await site.add(phase="ARCHIVED", desired_state="STANDBY", **on_docker)
    accepted = there.misbehave("jobs.restore", Misbehaviour.ACCEPTED)
    backends = {InstanceBackend.PROCESS: site.world.backend(), InstanceBackend.DOCKER: there.backend()}
    async with site.controller(job_limits=ONE, backends=backends) as controller:
        await site.ticked_until(controller, it, lambda _: accepted.struck > 0)
        there.engine_out()
        other = await wanted(site)
        await site.ticked_until(controller, other, is_at(Phase.STANDBY))


async def test_both_kinds_of_jobs_are_counted(site: Installation) -> None:
    for it in [await due(site), await wanted(site)]:
        site.world.held.add(it)
    async with site.controller(job_limits=FOUR) as controller:
        await ticks(controller, 6)
        assert {job.kind for job in site.world.jobs.values()} == set(JobKind)
        assert controller.jobs_running == 2


async def test_a_job_that_was_evicted_is_run_again_and_not_counted(site: Installation) -> None:
    evicted = site.world.misbehave("jobs.archive", Misbehaviour.EVICTED, times=4)
    it = await due(site)
    async with site.controller(rules=Rules(max_retry=1)) as controller:
        row = await without_pauses(site, controller, it, is_at(Phase.ARCHIVED))
        assert (evicted.struck, row.status.error_count) == (4, 0)
