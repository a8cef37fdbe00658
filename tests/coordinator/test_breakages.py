"""A look or a decision that breaks harms one workspace only, and ends where a person sees it."""

from uuid import uuid4

from codehub.drivers.memory import MemoryWorld
from codehub.drivers.memory.archives import MemoryArchives
from codehub.model.failure import Rules
from codehub.model.observation import ArchiveSeen
from codehub.model.workspace import ArchiveKey, Desired, ErrorReason, Operation, Phase, WorkspaceId
from tests.coordinator.installation import Installation, is_at, running, ticks
from tests.coordinator.test_controller import archived

TWICE = Rules(max_retry=2)


class OddArchives(MemoryArchives):
    """A store that answers one question in a way that nobody expected."""

    def __init__(self, world: MemoryWorld, odd: set[ArchiveKey]) -> None:
        super().__init__(world)
        self._odd = odd

    async def look(self, key: ArchiveKey) -> ArchiveSeen:
        if key in self._odd:
            raise LookupError("something with a password in it")
        return await super().look(key)


async def odd(site: Installation) -> WorkspaceId:
    """An operation without an op_id: no version has ever written such a row."""
    return await site.add(phase="ARCHIVED", operation="RESTORING", desired_state="RUNNING", archive_key="a/b/home.tar")


async def test_a_row_that_nobody_expected_does_not_hold_up_the_others(site: Installation) -> None:
    it = await odd(site)
    async with site.controller() as controller:
        await running(site, controller)
        assert controller.broken > 0
        await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)


async def test_a_decision_that_breaks_ends_in_an_error_with_the_cause(site: Installation) -> None:
    it = await odd(site)
    async with site.controller(rules=TWICE) as controller:
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert (row.status.operation, row.status.error_reason) == (Operation.NONE, ErrorReason.RETRY_EXCEEDED)
        assert "AssertionError" in row.status.conditions.healthy.message
        assert "Recover the workspace" in row.status.conditions.healthy.message
        found = await site.owner.execute("SELECT phase, reason FROM workspace_history WHERE workspace_id = %s", [it])
        ((phase, reason),) = await found.fetchall()
        assert phase == "ERROR"
        assert "AssertionError" in reason


async def test_what_breaks_rests_before_it_is_tried_again(site: Installation) -> None:
    await odd(site)
    async with site.controller(rules=Rules(max_retry=1000)) as controller:
        await ticks(controller, 50)
        assert 1 <= controller.broken <= 10


async def test_a_row_that_was_mended_goes_on(site: Installation) -> None:
    it = await odd(site)
    async with site.controller(rules=Rules(max_retry=1000)) as controller:
        await ticks(controller, 3)
        await site.owner.execute("UPDATE workspaces SET operation = 'NONE', archive_key = NULL WHERE id = %s", [it])
        await site.ticked_until(controller, it, is_at(Phase.RUNNING))


async def test_a_look_that_breaks_ends_in_an_error_without_what_it_said(site: Installation) -> None:
    strange: set[ArchiveKey] = set()
    async with site.controller(rules=TWICE, archives=OddArchives(site.world, strange)) as controller:
        it, other = await archived(site, controller), await archived(site, controller)
        key = (await site.row(it)).status.archive_key
        assert key is not None
        strange.add(key)
        await site.wish(it, Desired.RUNNING)
        await site.wish(other, Desired.RUNNING)
        await site.ticked_until(controller, other, is_at(Phase.RUNNING))
        row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        assert "LookupError" in row.status.conditions.healthy.message
        assert "password" not in row.status.conditions.healthy.message


async def test_an_error_of_ours_can_be_recovered_from_once_it_is_mended(site: Installation) -> None:
    it = await odd(site)
    async with site.controller(rules=TWICE) as controller:
        await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
        await site.owner.execute(
            "UPDATE workspaces SET archive_key = NULL, recover_request ="
            " jsonb_build_object('id', %s::text, 'answers', error_reason) WHERE id = %s",
            [str(uuid4()), it],
        )
        await site.ticked_until(controller, it, is_at(Phase.RUNNING))


async def test_a_row_that_cannot_even_be_read_is_left_alone(site: Installation) -> None:
    await site.add(recover_request={"id": 5})
    async with site.controller() as controller:
        await running(site, controller)
