"""Homes that are missing: looked at one by one, an outage when many are, lost when an administrator says so."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from codehub.coordinator.controller import Controller
from codehub.drivers.memory import Misbehaviour
from codehub.model.workspace import Desired, ErrorReason, InstanceBackend, Operation, Phase, WorkspaceId
from tests.coordinator.installation import Installation, rest, running, ticks


async def six_that_lost_their_homes(site: Installation, controller: Controller) -> list[WorkspaceId]:
    them = [await running(site, controller) for _ in range(6)]
    for it in them:
        site.world.lose_volume(it)
    return them


@contextmanager
def hidden_homes(site: Installation, them: Iterable[WorkspaceId]) -> Iterator[None]:
    """They are there, and no look shows them."""
    with ExitStack() as stack:
        for it in them:
            fault = site.world.misbehave("volumes.observe", Misbehaviour.INCOMPLETE, workspace_id=it)
            stack.callback(fault.end)
        yield


async def test_a_volume_that_a_listing_lacks_is_looked_at_before_it_is_lost(site: Installation) -> None:
    async with site.controller() as controller:
        it = await running(site, controller)
        before = await site.row(it)
        hidden = site.world.misbehave("volumes.observe", Misbehaviour.INCOMPLETE, workspace_id=it)
        await ticks(controller, 5)
        assert (await site.row(it)).status == before.status
        hidden.end()
        site.world.lose_volume(it)
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert row.status.error_reason is ErrorReason.DATA_LOST


async def test_many_missing_volumes_are_an_outage(site: Installation) -> None:
    async with site.controller() as controller:
        them = await six_that_lost_their_homes(site, controller)
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}
        assert "codehub accept-losses process" in controller.outages["process"]


async def test_many_missing_volumes_are_lost_when_an_administrator_says_so(site: Installation) -> None:
    async with site.controller() as controller:
        them = [await running(site, controller) for _ in range(6)]
        for it in them[1:]:
            site.world.lose_volume(it)
        hidden = site.world.misbehave("volumes.observe", Misbehaviour.INCOMPLETE, workspace_id=them[0])
        await ticks(controller, 4)
        await site.accept_losses(InstanceBackend.DOCKER)
        await ticks(controller, 4)
        assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}  # that was another backend
        await site.accept_losses(InstanceBackend.PROCESS)
        for it in them[1:]:
            row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
            assert row.status.error_reason is ErrorReason.DATA_LOST
        assert (await site.row(them[0])).status.phase is Phase.RUNNING  # looked at directly, it is there
        await site.ticked_until(controller, them[0], lambda _: not controller.outages)
        hidden.end()


async def test_an_administrators_word_on_losses_is_about_those_that_were_missing_then(site: Installation) -> None:
    await site.accept_losses(InstanceBackend.PROCESS)  # nothing is missing yet
    async with site.controller() as controller:
        them = [await running(site, controller) for _ in range(10)]
        for it in them[:5]:
            site.world.lose_volume(it)
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}
        await site.accept_losses(InstanceBackend.PROCESS)
        for it in them[5:]:
            site.world.lose_volume(it)
        for it in them[:5]:
            await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them[5:]} == {Phase.RUNNING}


async def test_an_administrators_word_on_losses_is_read_for_an_hour(site: Installation) -> None:
    async with site.controller() as controller:
        them = await six_that_lost_their_homes(site, controller)
        await ticks(controller, 4)
        await site.accept_losses(InstanceBackend.PROCESS)
        await site.owner.execute("UPDATE accepted_losses SET accepted_at = accepted_at - interval '61 minutes'")
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}


async def test_homes_that_are_back_end_the_outage(site: Installation) -> None:
    async with site.controller() as controller:
        them = [await running(site, controller) for _ in range(6)]
        with hidden_homes(site, them):
            await ticks(controller, 4)
            assert controller.outages
        await site.ticked_until(controller, them[0], lambda _: not controller.outages)


async def accepted_and_then_dead(site: Installation, many: int = 6) -> list[WorkspaceId]:
    """So many are missing, an administrator has said that they are lost, and the leader died when it had read that."""
    async with site.controller() as controller:
        them = [await running(site, controller) for _ in range(many)]
        for it in them[:6]:
            site.world.lose_volume(it)
        await ticks(controller, 4)
        await site.accept_losses(InstanceBackend.PROCESS)
        await controller.tick()
    assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}
    return them


async def test_an_administrators_word_on_losses_outlives_the_leader_who_read_it(site: Installation) -> None:
    them = await accepted_and_then_dead(site)
    async with site.controller() as controller:
        for it in them:
            row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
            assert row.status.error_reason is ErrorReason.DATA_LOST


async def test_to_the_next_leader_too_it_is_about_those_that_were_missing_then(site: Installation) -> None:
    them = await accepted_and_then_dead(site, many=12)
    for it in them[6:]:
        site.world.lose_volume(it)
    async with site.controller() as controller:
        for it in them[:6]:
            await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them[6:]} == {Phase.RUNNING}


async def test_one_that_was_back_meanwhile_is_not_lost_by_the_same_word(site: Installation) -> None:
    async with site.controller() as controller:
        them = [await running(site, controller) for _ in range(6)]
        with hidden_homes(site, them):
            await ticks(controller, 4)
            await site.accept_losses(InstanceBackend.PROCESS)
            await ticks(controller, 2)
        await site.ticked_until(controller, them[0], lambda _: not controller.outages)
        await ticks(controller, 2)
    for it in them:
        site.world.lose_volume(it)
    async with site.controller() as controller:
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}


async def test_one_that_was_back_under_the_next_leader_is_not_lost_by_the_same_word(site: Installation) -> None:
    with ExitStack() as hiding:
        async with site.controller() as controller:
            them = [await running(site, controller) for _ in range(6)]
            hiding.enter_context(hidden_homes(site, them))
            await ticks(controller, 4)
            await site.accept_losses(InstanceBackend.PROCESS)
            await controller.tick()  # the word is read, and whom it is about is noted
    async with site.controller() as controller:
        await ticks(controller, 4)
        assert not controller.outages
        for it in them:
            site.world.lose_volume(it)
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}
        assert controller.outages


async def test_a_word_given_through_an_older_version_has_no_list_of_the_word_before(site: Installation) -> None:
    them = await accepted_and_then_dead(site)
    await site.owner.execute("UPDATE accepted_losses SET accepted_at = now()")  # all that it writes
    async with site.controller() as controller:
        await ticks(controller, 8)
        assert {(await site.row(it)).status.phase for it in them} == {Phase.RUNNING}


async def test_a_loss_that_cannot_be_judged_yet_is_looked_at_ever_more_rarely(site: Installation) -> None:
    """The end of each look makes for a tick: two such workspaces had each other looked at without a pause."""
    async with site.controller() as controller:
        it = await running(site, controller)
        failing = site.world.misbehave("jobs.archive", Misbehaviour.LIES, workspace_id=it)
        await site.wish(it, Desired.ARCHIVED)
        await site.ticked_until(controller, it, lambda _: failing.struck > 0)
        site.world.misbehave("archives.*", Misbehaviour.UNREACHABLE)
        site.world.lose_volume(it)
        await ticks(controller, 10)
        row = await site.row(it)
        state = (row.status.operation, row.status.phase)
        assert state == (Operation.ARCHIVING, Phase.STANDBY), "the archive may be whole"
        looks = 0
        for _ in range(100):
            await controller.tick()
            looks += controller.errands
            await rest(controller)
        assert looks < 10
