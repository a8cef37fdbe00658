"""The runbook's way to bring an archive back, tried: the object uploaded again, and an older one named in the row."""

import re
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.coordinator.controller import Controller
from codehub.model.names import archive_key
from codehub.model.workspace import ArchiveKey, Desired, ErrorReason, OpId, Phase, Workspace, WorkspaceId
from tests.coordinator.installation import Installation, is_at, running
from tests.db.support import change

RUNBOOK = Path(__file__).parents[2] / "docs/runbook.md"
(RENAME,) = re.findall(r"```sql\n(UPDATE workspaces SET archive_key.*?)```", RUNBOOK.read_text(), re.DOTALL)


async def lost(site: Installation, controller: Controller, harm: Callable[[ArchiveKey], None]) -> Workspace:
    """A workspace in ERROR, because its archive is no good."""
    it = await running(site, controller)
    site.world.home(it)["notes"] = b"kept"
    await site.wish(it, Desired.ARCHIVED)
    row = await site.ticked_until(controller, it, is_at(Phase.ARCHIVED))
    assert row.status.archive_key is not None
    harm(row.status.archive_key)
    await site.wish(it, Desired.RUNNING)
    row = await site.ticked_until(controller, it, lambda row: row.status.phase is Phase.ERROR)
    assert row.status.error_reason in (ErrorReason.ARCHIVE_CORRUPTED, ErrorReason.ARCHIVE_ACCESS_ERROR)
    return row


async def recovered(site: Installation, controller: Controller, row: Workspace) -> None:
    assert row.status.error_reason is not None
    request = {"id": str(UUID(int=5)), "from": "as_is", "answers": row.status.error_reason.value}
    await change(site.owner, row.id, recover_request=request)
    await site.ticked_until(controller, row.id, is_at(Phase.RUNNING))
    assert site.world.home(row.id) == {"notes": b"kept"}


@pytest.mark.parametrize("part", ["object", "meta"])
async def test_an_archive_that_is_uploaded_again_needs_only_a_plain_recovery(site: Installation, part: str) -> None:
    async with site.controller() as controller:
        row = await lost(site, controller, lambda key: site.world.lose_archive(key, part))
        assert row.status.archive_key is not None
        site.world.put_archive(row.status.archive_key, {"notes": b"kept"})
        await recovered(site, controller, row)


async def test_an_older_archive_can_be_named_in_the_row(site: Installation) -> None:
    async with site.controller() as controller:
        row = await lost(site, controller, lambda key: site.world.lose_archive(key, "object"))
        older = archive_key(row.id, OpId(uuid4()))
        site.world.put_archive(older, {"notes": b"kept"})
        await site.owner.execute(_filled(row.id, older))
        assert (await site.row(row.id)).status.archive_key == older
        await recovered(site, controller, row)


async def test_no_other_workspaces_archive_can_be(site: Installation) -> None:
    async with site.controller() as controller:
        row = await lost(site, controller, lambda key: site.world.lose_archive(key, "object"))
        others = archive_key(WorkspaceId(uuid4()), OpId(uuid4()))
        await site.owner.execute(_filled(row.id, others))
        assert (await site.row(row.id)).status.archive_key == row.status.archive_key


def _filled(identity: WorkspaceId, key: ArchiveKey) -> bytes:
    return str(RENAME).replace("OLDER_KEY", key).replace("WORKSPACE_ID", str(identity)).encode()
