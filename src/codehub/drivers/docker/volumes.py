"""Homes as engine volumes, each held by an anchor (spec.py says why).

Docker has no precondition on removing a volume, and mounts a missing one by making it. The anchor closes both holes:

- a volume is made by making its anchor, in one call: there is no moment at which it is unprotected;
- removing it removes the anchor by its own id, which no other making can have, and then the volume by name, which the
  engine refuses while the anchor of a newer making is there: an old call that comes late does nothing;
- whoever needs the home asks for the anchor (`hold`) and mounts from its id, which fails once that anchor is gone.

An anchor that somebody pruned is made again for the volume that is there; if none is there any more, the one that the
engine then makes up is recognised by its label, removed, and Refused is raised.
"""

import asyncio
import contextlib
import io
import tarfile
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import structlog

from codehub.drivers.docker import seen, spec
from codehub.drivers.docker.api import Engine, EngineError, none_if_missing
from codehub.drivers.docker.options import DockerOptions
from codehub.errors import ActionFailed, Refused
from codehub.model.names import volume_name
from codehub.model.observation import VolumeSeen
from codehub.model.workspace import Incarnation, OpId, VolumeRef, WorkspaceId

log = structlog.get_logger()

NOT_FOUND, CONFLICT = 404, 409
ENDED = ("exited", "dead")  # states of a container of which nothing runs any more
_TRIES = 3  # of what another call may have changed meanwhile


class DockerVolumes:
    """Implements drivers.base.Volumes."""

    def __init__(self, engine: Engine, options: DockerOptions) -> None:
        self._engine = engine
        self._options = options

    async def observe(self) -> Mapping[WorkspaceId, VolumeSeen]:
        listed = await self._engine.get("/volumes", filters={"name": ["ws-"]})
        return seen.volumes_of(listed["Volumes"] or [], self._options.installation)

    async def look(self, workspace_id: WorkspaceId) -> VolumeSeen:
        volume = await none_if_missing(self._engine.get(f"/volumes/{volume_name(workspace_id)}"))
        if volume is None or not seen.is_ours(volume, self._options.installation):
            return VolumeSeen(exists=False, confirmed=True)
        return seen.volume_of(volume, await self._mark(workspace_id))

    async def create(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> None:
        for _ in range(_TRIES):
            uid = str(uuid4())
            anchor_id = await self._make_anchor(workspace_id, VolumeRef(incarnation, uid), if_made=uid)
            found = await self.look(workspace_id)
            if anchor_id is not None and found.uid == uid:
                log.info("volume made", workspace_id=str(workspace_id), uid=uid)
                return
            if anchor_id is not None:  # it holds a volume that was there before
                await self._remove_anchor(anchor_id)
            if found.exists and found.incarnation == incarnation:
                await self.hold(workspace_id, found.ref)
                return
            if found.exists:
                raise Refused(f"{volume_name(workspace_id)} is there already, of incarnation {found.incarnation!r}.")
            await self._remove_stale_anchor(workspace_id)
        raise ActionFailed(f"{volume_name(workspace_id)} was changed by somebody else while it was made.")

    async def mark_whole(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        await self.hold(workspace_id, volume)
        found = await self.look(workspace_id)
        if found.whole:
            return
        await self._remove_mark(workspace_id)  # another making's: the engine would give us that one
        try:
            await self._engine.post(
                "/volumes/create", spec.mark_body(self._options.installation, workspace_id, found.uid)
            )
        except EngineError as error:
            raise ActionFailed(f"The engine does not mark {volume_name(workspace_id)}: {error.message}.") from error

    async def delete(
        self,
        workspace_id: WorkspaceId,
        volume: VolumeRef,
        *,
        archived: OpId | None = None,  # noqa: ARG002 - who else has a volume is not seen from here
    ) -> None:
        found = await self.look(workspace_id)
        if not found.exists:
            await self._remove_stale_anchor(workspace_id)
            await self._remove_mark(workspace_id)
            return
        anchor_id = await self.hold(workspace_id, volume)
        if users := await self._users(workspace_id, anchor_id):
            raise Refused(f"{volume_name(workspace_id)} is in use by {', '.join(users)}.")
        await self._let_go(workspace_id, found.ref, anchor_id)
        log.info("volume removed", workspace_id=str(workspace_id), uid=found.uid)

    async def hold(self, workspace_id: WorkspaceId, volume: VolumeRef) -> str:
        """The id of the anchor of exactly this volume, to mount from; Refused if that is not what is there."""
        found = await self.look(workspace_id)
        name = volume_name(workspace_id)
        if not found.exists:
            raise Refused(f"{name} is not there.")
        if found.incarnation != volume.incarnation or volume.uid not in (None, found.uid):
            raise Refused(f"{name} is another one: {found.incarnation!r}, {found.uid!r}; {volume} was meant.")
        for _ in range(_TRIES):
            anchor = await self._anchor(workspace_id)
            if anchor is not None:
                if (anchor["Config"]["Labels"] or {}).get(spec.LABEL_UID) != found.uid:
                    raise Refused(f"{name} is held for another making of it.")
                return str(anchor["Id"])
            log.warning("anchor lost, made again", workspace_id=str(workspace_id), uid=found.uid)
            anchor_id = await self._make_anchor(workspace_id, found.ref, if_made=f"void-{uuid4()}")
            if anchor_id is not None:
                await self._check_held(workspace_id, found, anchor_id)
                return anchor_id
        raise ActionFailed(f"The anchor of {name} was changed by somebody else.")

    async def others(self, workspace_id: WorkspaceId, mine: str) -> list[str]:
        """Who else may write to the home, or is about to: asked after making one's own container, before starting it.

        So of two at once at least one sees the other. A job that has ended writes no more; a dead instance is in the
        way of jobs all the same, since a start could make it live again.
        """
        listed = await self._listed_users(workspace_id)
        roles = {line["Id"]: (line.get("Labels") or {}).get(spec.LABEL_ROLE) for line in listed}
        return [
            name_of(line)
            for line in listed
            if line["Id"] != mine
            and roles[line["Id"]] != spec.ANCHOR
            and (line["State"] not in ENDED or (roles[line["Id"]] == spec.WORKSPACE and roles.get(mine) == spec.JOB))
        ]

    async def heal(self) -> None:
        """Give every home of ours that lost its anchor one again (somebody ran `docker container prune`)."""
        filters = spec.label_filter(self._options.installation, spec.ANCHOR)
        listed = await self._engine.get("/containers/json", all=1, filters=filters)
        held = {(container["Labels"] or {}).get(spec.LABEL_WORKSPACE) for container in listed}
        for workspace_id, volume in (await self.observe()).items():
            if volume.uid and str(workspace_id) not in held:
                await self.hold(workspace_id, volume.ref)

    # -- anchors -----------------------------------------------------------------------------------------------------

    async def _anchor(self, workspace_id: WorkspaceId) -> Any:  # noqa: ANN401 - the engine's JSON
        return await none_if_missing(self._engine.get(f"/containers/{spec.anchor_name(workspace_id)}/json"))

    async def _make_anchor(self, workspace_id: WorkspaceId, volume: VolumeRef, if_made: str) -> str | None:
        """Its id, or None if there is an anchor already."""
        body = spec.anchor_body(self._options.installation, workspace_id, volume, if_made)
        for attempt in range(2):
            try:
                made = await self._engine.post("/containers/create", body, name=spec.anchor_name(workspace_id))
            except EngineError as error:
                if error.status == CONFLICT:
                    return None
                if error.status == NOT_FOUND and attempt == 0:
                    await self._make_anchor_image()
                    continue
                raise ActionFailed(f"The engine does not make {volume_name(workspace_id)}: {error.message}.") from error
            return str(made["Id"])
        raise AssertionError

    async def _make_anchor_image(self) -> None:
        repository, _, tag = spec.ANCHOR_IMAGE.partition(":")
        content = await asyncio.to_thread(anchor_image)
        try:
            await self._engine.post("/images/create", content, fromSrc="-", repo=repository, tag=tag)
        except EngineError as error:
            raise ActionFailed(f"The engine does not take the image of anchors: {error.message}.") from error

    async def _check_held(self, workspace_id: WorkspaceId, volume: VolumeSeen, anchor_id: str) -> None:
        """That the new anchor holds the volume that was seen, and not one that the engine made up for it."""
        now = await self.look(workspace_id)
        if now == volume:
            return
        await self._remove_anchor(anchor_id)
        if now.uid.startswith("void-"):
            with contextlib.suppress(
                EngineError
            ):  # gone already, or somebody holds it: it is no home of ours either way
                await self._engine.delete(f"/volumes/{volume_name(workspace_id)}")
        raise Refused(f"{volume_name(workspace_id)} went away while it was looked at.")

    async def _remove_anchor(self, anchor_id: str) -> bool:
        """Whether this very anchor was there."""
        try:
            await self._engine.delete(f"/containers/{anchor_id}")
        except EngineError as error:
            if error.status == NOT_FOUND:
                return False
            raise ActionFailed(f"The engine does not remove an anchor: {error.message}.") from error
        return True

    async def _remove_stale_anchor(self, workspace_id: WorkspaceId) -> None:
        """One whose volume is not there: it would stand in the way of the next making."""
        anchor = await self._anchor(workspace_id)
        if anchor is None:
            return
        if (anchor["Config"]["Labels"] or {}).get(spec.LABEL_INSTALLATION) != self._options.installation:
            raise Refused(f"{spec.anchor_name(workspace_id)} is not ours.")
        if not (await self.look(workspace_id)).exists:
            await self._remove_anchor(anchor["Id"])

    async def _users(self, workspace_id: WorkspaceId, anchor_id: str) -> list[str]:
        listed = await self._listed_users(workspace_id)
        return [name_of(container) for container in listed if container["Id"] != anchor_id]

    async def _listed_users(self, workspace_id: WorkspaceId) -> list[seen.Json]:
        filters = {"volume": [volume_name(workspace_id)]}
        return list(await self._engine.get("/containers/json", all=1, filters=filters))

    async def _mark(self, workspace_id: WorkspaceId) -> Any:  # noqa: ANN401 - the engine's JSON
        return await none_if_missing(self._engine.get(f"/volumes/{spec.mark_name(workspace_id)}"))

    async def _remove_mark(self, workspace_id: WorkspaceId) -> None:
        mark = await self._mark(workspace_id)
        if mark is None:
            return
        if (mark.get("Labels") or {}).get(spec.LABEL_INSTALLATION) != self._options.installation:
            raise Refused(f"{spec.mark_name(workspace_id)} is not ours.")
        try:
            await none_if_missing(self._engine.delete(f"/volumes/{spec.mark_name(workspace_id)}"))
        except EngineError as error:
            raise ActionFailed(f"The engine does not remove a mark: {error.message}.") from error

    async def _let_go(self, workspace_id: WorkspaceId, volume: VolumeRef, anchor_id: str) -> None:
        name = volume_name(workspace_id)
        await self._remove_mark(workspace_id)
        if not await self._remove_anchor(anchor_id):
            raise ActionFailed(f"{name} was changed by somebody else while it was removed.")
        try:
            await none_if_missing(self._engine.delete(f"/volumes/{name}"))
        except EngineError as error:
            if error.status != CONFLICT:
                raise ActionFailed(f"The engine does not remove {name}: {error.message}.") from error
            if (await self.look(workspace_id)).ref == volume:
                await self.hold(workspace_id, volume)
            raise Refused(f"{name} is in use.") from error


def name_of(listed: seen.Json) -> str:
    return str((listed.get("Names") or ["a container that is being removed"])[0]).lstrip("/")


def anchor_image() -> bytes:
    """A file system that holds an empty home: the engine gives a new volume the owner and mode it finds there."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, owner, mode in (("home", 0, 0o755), ("home/coder", 1000, 0o700)):
            folder = tarfile.TarInfo(path)
            folder.type, folder.uid, folder.gid, folder.mode = tarfile.DIRTYPE, owner, owner, mode
            tar.addfile(folder)
    return buffer.getvalue()
