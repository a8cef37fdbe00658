"""A restore as the command does it, and its report: what the older database lacks, what the world has beyond it, and
what to do about each.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from codehub.backup import adopting, database, standing
from codehub.backup.adopting import Chosen
from codehub.backup.file import Manifest
from codehub.backup.restoring import gone_on_with, restored
from codehub.backup.standing import Standing
from codehub.backup.unknown import Unknown, unknown
from codehub.config import Settings
from codehub.db import adopting as adopting_rows
from codehub.db import adoption, backups
from codehub.db.adoption import WAY_ON, AdoptionDue
from codehub.drivers.base import Archives, Backend
from codehub.drivers.load import open_drivers, open_store
from codehub.drivers.places import known_installation
from codehub.errors import CodeHubError
from codehub.model.workspace import InstanceBackend, WorkspaceId

NOTHING_CHOSEN = Chosen((), (), ())
_MOST = 20  # lines of one kind


@dataclass(frozen=True, slots=True)
class Restored:
    manifest: Manifest | None  # None: it went on with an earlier restore
    due: AdoptionDue | None  # what is still to be adopted
    archives: Standing
    unknown: Unknown
    chosen: Chosen
    adopted: Sequence[WorkspaceId]
    on_volumes: Collection[WorkspaceId]  # whose home is there, live and whole: they were given nothing
    archive_store: str
    installation: str | None

    def as_dict(self) -> dict[str, object]:
        return {
            "made_at": self.manifest.made_at if self.manifest else None,
            "counts": self.manifest.counts if self.manifest else None,
            "adoption_due": self.due is not None,
            "missing": [
                {"workspace": str(one.workspace), "key": one.key, "newest": one.newest} for one in self.archives.missing
            ],
            "newer": [
                {"key": one.key, "modified_at": one.modified_at.isoformat(), "workspace_known": one.of_known}
                for one in self.archives.newer
            ],
            "adopted": [str(one) for one in self.adopted],
            "not_adopted": [str(one) for one in self._left_out],
            "on_volumes": [str(one) for one in sorted(self.on_volumes)],
            "damaged": self.chosen.damaged,
            "unreadable": [str(one) for one in self.chosen.undecided],
            "store_trouble": self.archives.trouble,
            "unknown_instances": self.unknown.instances,
            "unknown_volumes": self.unknown.volumes,
            "backend_troubles": dict(self.unknown.troubles),
        }

    @property
    def _left_out(self) -> Sequence[WorkspaceId]:
        """Whose row names an older archive than the store has."""
        return sorted(set(self.archives.adoptable) - set(self.adopted) - set(self.on_volumes))

    def lines(self) -> list[str]:
        about = [*self._about_archives(), *self._about_the_infrastructure()]
        due = [f"WARNING: {self.due.told}", f"→ {WAY_ON}"] if self.due is not None else []
        if self.manifest is None:
            return [*about, *due]
        counts = self.manifest.counts
        first = (
            f"Restored: {counts.get('users', 0)} users and {counts.get('workspaces', 0)} workspaces, as of "
            f"{self.manifest.made_at}. Everybody is logged out; API tokens are as they were then."
        )
        return [first, *self._about_the_places(self.manifest), *about, *due]

    def _about_the_places(self, manifest: Manifest) -> list[str]:
        found = []
        if manifest.archive_store != self.archive_store:
            found.append(
                f"WARNING: the backup's archives were in {manifest.archive_store}; this installation looks in "
                f"{self.archive_store}. Set ARCHIVE_URL, or move them."
            )
        was = manifest.installation
        if was is not None and was != self.installation:
            found.append(
                f"WARNING: containers and volumes carry the name {was}; this installation would not see them. If that "
                f"one runs no more, set CODEHUB_INSTALLATION={was}."
            )
        return found

    def _about_archives(self) -> list[str]:
        if self.archives.trouble:
            why = f"WARNING: the archive store could not be asked: {self.archives.trouble}"
            then = "See below." if self.due is not None else "Start nothing: restore again once it answers."
            return [why, f"→ It may have newer homes than the rows name. {then}"]
        adopted = set(self.adopted)
        found = (
            [f"{len(adopted)} workspaces were given their newest archive; their owners are told."] if adopted else []
        )
        found += _some(
            f"{len(self.on_volumes)} workspaces have their home whole on a volume, and a newer archive that the "
            "database lost. They go on with the volume; GC keeps the archive until somebody decides:",
            [f"{one}: {self.archives.adoptable[one].archives[0].key}" for one in sorted(self.on_volumes)],
            "→ Ask their owners. A copy beside the workspace: codehub adopt KEY --owner USERNAME",
        )
        found += _some(
            f"WARNING: {len(self._left_out)} workspaces have a newer archive than their row says. If they are opened "
            "now, an older home is restored:",
            [f"{one}: {self.archives.adoptable[one].archives[0].key}" for one in self._left_out],
            "→ Before anything is started, restore again with --force, without --no-adopt-newer and with a store that "
            "can be read."
            if self.due is None
            else "→ See below.",
        )
        found += _some(
            f"{len(self.chosen.damaged)} newer archives are damaged, and were not taken:",
            list(self.chosen.damaged),
            "→ See whether the store has a whole version of them.",
        )
        missing = [one for one in self.archives.missing if one.workspace not in adopted]
        found += _some(
            f"{len(missing)} workspaces need an archive that is not in the store:",
            [f"{one.workspace}: {f'newest there: {one.newest}' if one.newest else 'none is there'}" for one in missing],
            "→ Put the archive back and `codehub ws recover`.",
        )
        taken = {one.new for one in self.chosen.adoptions if one.workspace in adopted}
        known = [one.key for one in self.archives.newer if one.of_known and one.key not in taken]
        found += _some(
            f"{len(known)} archives are newer than the backup and no workspace names them. GC keeps each of them until "
            "somebody decides:",
            known,
            "→ codehub adopt KEY --owner USERNAME, or codehub gc --discard KEY",
        )
        strange = [one.key for one in self.archives.newer if not one.of_known]
        return found + _some(
            f"{len(strange)} archives are of workspaces that the database does not know; nothing collects them:",
            strange,
            "→ Give one to its owner: codehub adopt KEY --owner USERNAME",
        )

    def _about_the_infrastructure(self) -> list[str]:
        found = [f"WARNING: {name} could not be looked at: {why}" for name, why in self.unknown.troubles.items()]
        things = [*self.unknown.instances, *self.unknown.volumes]
        return found + _some(
            f"{len(things)} instances and volumes belong to no workspace; nothing touches them:",
            things,
            "→ Look into them and remove them by hand.",
        )


def _some(head: str, things: Sequence[str], advice: str) -> list[str]:
    if not things:
        return []
    shown = [f"    {thing}" for thing in things[:_MOST]]
    more = [f"    … and {len(things) - _MOST} more (--json shows all)"] if len(things) > _MOST else []
    return [head, *shown, *more, advice]


@dataclass(frozen=True, slots=True)
class _Adopted:
    """What was adopted, and why the rest was not."""

    chosen: Chosen = NOTHING_CHOSEN
    adopted: Sequence[WorkspaceId] = ()
    on_volumes: Collection[WorkspaceId] = ()


async def restore(
    settings: Settings, file: Path | None, *, force: bool, adopt_newer: bool, say: Callable[[str], None]
) -> Restored:
    """Raises StartError, with nothing changed, when it is not possible. Without a file: go on with a restore."""
    data_dir = database.data_dir_of(settings)
    store_url = settings.store.url or (data_dir / "archives").as_uri()
    archives = open_store(settings.store, store_url)
    async with database.alone(settings, say) as url, AsyncExitStack() as stack:
        # Adopted before anybody leads. Whatever ends this early, coordinators hold back what the rest of it is about.
        manifest = None
        if file is None:
            moment = await stack.enter_async_context(gone_on_with(url))
        else:
            manifest = await stack.enter_async_context(restored(file, url, force=force, adopting=adopt_newer))
            moment = manifest.moment
        known = await backups.known(url)
        found = await standing.compare(known, archives, moment, await backups.remembered(url))
        backends, trouble = await _backends(stack, settings, data_dir)
        done = _Adopted()
        if not adopt_newer:
            await adoption.give_up(url)
        elif not found.trouble:
            done = await _adopt(url, found, archives, moment, backends if trouble is None else None, say=say)
        strange = await unknown(backends, {row.id for row in known})
        if trouble is not None:
            strange = replace(strange, troubles={"the backends": trouble})
        return Restored(
            manifest,
            await adoption.read(url),
            found,
            strange,
            done.chosen,
            done.adopted,
            done.on_volumes,
            store_url,
            settings.docker.installation or known_installation(data_dir),
        )


async def _adopt(
    url: str,
    found: Standing,
    archives: Archives,
    moment: datetime,
    backends: Mapping[InstanceBackend, Backend] | None,
    *,
    say: Callable[[str], None],
) -> _Adopted:
    """The rows are written in one transaction, which says too whose newest archive could not be read."""
    homes = await adopting.look_for_homes(backends or {}, await adopting_rows.homes(url, found.adoptable))
    wanted = {who: better for who, better in found.adoptable.items() if who not in homes.live}
    if wanted:
        say(f"Reading {len(wanted)} archives that are newer than the backup.")
    chosen = await adopting.choose(wanted, archives)
    absent = homes.absent if backends is not None else ()
    looked_at = (backends or {}).keys() or {InstanceBackend.PROCESS}  # whose homes are in the data directory
    adopted = await adopting_rows.adopt(url, chosen.adoptions, moment, absent, looked_at, undecided=chosen.undecided)
    return _Adopted(chosen, adopted, homes.live)


async def _backends(
    stack: AsyncExitStack, settings: Settings, data_dir: Path
) -> tuple[Mapping[InstanceBackend, Backend], str | None]:
    """Where this machine runs workspaces, and why that is not known; one that has no data directory runs none."""
    if not await asyncio.to_thread(data_dir.is_dir):
        return {}, None
    try:
        return (await stack.enter_async_context(open_drivers(settings, data_dir))).backends, None
    except CodeHubError as error:
        return {}, str(error)
