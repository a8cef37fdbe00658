"""Homes as PersistentVolumeClaims; the uid of a home is the uid that the cluster gave its claim.

A claim that is deleted while a pod uses it is doomed: it goes when the pod does. So a home is deleted only when nothing
of ours refers to it, and the deletion names the uid and the version of the claim that was looked at. Whoever makes a
pod writes its uid on the claim before opening it (`enter`): that changes the version, so of a deletion that looked
before the pod was there and an opening that looked before the deletion, one fails.
"""

import asyncio
from collections.abc import Mapping

import structlog

from codehub.drivers.kubernetes import manifests as m
from codehub.drivers.kubernetes import seen
from codehub.drivers.kubernetes.api import CONFLICT, NOT_FOUND, ApiError, Cluster, Json
from codehub.drivers.kubernetes.explain import not_taken, refusal
from codehub.drivers.kubernetes.options import KubernetesOptions
from codehub.errors import ActionFailed, Refused
from codehub.model.names import volume_name
from codehub.model.observation import VolumeSeen
from codehub.model.workspace import Incarnation, OpId, VolumeRef, WorkspaceId

log = structlog.get_logger()

CLAIMS = "persistentvolumeclaims"
_TRIES = 5  # of a deletion whose claim was changed meanwhile, by us or by the cluster
_POLL_SECONDS = (0.02, 1.0)


class KubernetesVolumes:
    """Implements drivers.base.Volumes."""

    def __init__(self, cluster: Cluster, options: KubernetesOptions) -> None:
        self._cluster = cluster
        self._options = options

    async def observe(self) -> Mapping[WorkspaceId, VolumeSeen]:
        return seen.volumes_of(await self._cluster.all(CLAIMS, m.selector(self._options.installation, m.HOME_ROLE)))

    async def look(self, workspace_id: WorkspaceId) -> VolumeSeen:
        claim = await self._find(workspace_id)
        return VolumeSeen(exists=False, confirmed=True) if claim is None else seen.volume_of(claim)

    async def create(self, workspace_id: WorkspaceId, incarnation: Incarnation) -> None:
        name = volume_name(workspace_id)
        try:
            made = await self._cluster.create(CLAIMS, m.claim(self._options, workspace_id, incarnation))
        except ApiError as error:
            if error.status != CONFLICT:
                raise not_taken(f"{name} is not made.", error.message) from error
        else:
            log.info("volume made", workspace_id=str(workspace_id), uid=made["metadata"]["uid"])
            return
        claim = await self._cluster.get(CLAIMS, name)
        if claim is None or "deletionTimestamp" in claim["metadata"]:
            raise ActionFailed(f"{name} was just being removed.")
        found = seen.volume_of(claim)
        if not seen.is_ours(claim, self._options.installation) or found.incarnation != incarnation:
            raise Refused(f"{name} is there already, of incarnation {found.incarnation!r}.")

    async def mark_whole(self, workspace_id: WorkspaceId, volume: VolumeRef) -> None:
        claim = await self.hold(workspace_id, volume)
        uid = claim["metadata"]["uid"]
        await self._note(volume_name(workspace_id), uid, {m.WHOLE: uid})

    async def delete(
        self,
        workspace_id: WorkspaceId,
        volume: VolumeRef,
        *,
        archived: OpId | None = None,  # noqa: ARG002 - who else has a volume is not seen from here
    ) -> None:
        name = volume_name(workspace_id)
        for _ in range(_TRIES):
            claim = await self._find(workspace_id)
            if claim is None:
                return
            self._check(name, claim, volume)
            if users := await self.users(workspace_id):
                raise Refused(f"{name} is in use by {', '.join(pod.name for pod in users)}.")
            meta = claim["metadata"]
            try:
                await self._cluster.delete(CLAIMS, name, uid=meta["uid"], version=meta["resourceVersion"])
            except ApiError as error:
                if error.status == CONFLICT:
                    continue  # it is another one, or somebody just wrote on it: look again
                raise ActionFailed(f"{name} is not removed. {refusal(error.message)}") from error
            await self._gone(name, meta["uid"])
            log.info("volume removed", workspace_id=str(workspace_id), uid=meta["uid"])
            return
        raise ActionFailed(f"{name} was changed by somebody else each time it was to be removed.")

    async def users(self, workspace_id: WorkspaceId) -> list[seen.Pod]:
        """Every pod of ours that refers to the home, ended ones included."""
        selector = m.selector(self._options.installation, workspace_id=workspace_id)
        return seen.pods_of(await self._cluster.all("pods", selector), self._options.installation)

    async def hold(self, workspace_id: WorkspaceId, volume: VolumeRef) -> Json:
        """The claim of exactly this volume; Refused if that is not what is there."""
        name = volume_name(workspace_id)
        claim = await self._find(workspace_id)
        if claim is None:
            raise Refused(f"{name} is not there.")
        self._check(name, claim, volume)
        if "deletionTimestamp" in claim["metadata"]:
            raise Refused(f"{name} is being removed.")
        return claim

    async def enter(self, pod: seen.Pod) -> None:
        """Note on the claim who is about to use it; Refused if it is another one by now, or is being removed."""
        name = volume_name(pod.workspace_id)
        if "deletionTimestamp" in (await self._note(name, pod.volume_uid, {m.USED_BY: pod.uid}))["metadata"]:
            raise Refused(f"{name} is being removed.")

    async def note_owner(self, pod: seen.Pod) -> None:
        """Remember that uid 1000 owns the home, so that the next pod need not see to it."""
        await self._note(volume_name(pod.workspace_id), pod.volume_uid, {m.OWNED: str(m.USER)})

    # -- how ---------------------------------------------------------------------------------------------------------

    async def _note(self, name: str, uid: str, annotations: dict[str, str]) -> Json:
        try:
            return await self._cluster.patch(CLAIMS, name, m.touch(uid, annotations))
        except ApiError as error:
            if error.status in (NOT_FOUND, CONFLICT):
                raise Refused(f"{name} went away, or is another one.") from error
            raise ActionFailed(f"{name} cannot be used. {refusal(error.message)}") from error

    async def _find(self, workspace_id: WorkspaceId) -> Json | None:
        claim = await self._cluster.get(CLAIMS, volume_name(workspace_id))
        return claim if claim is not None and seen.is_ours(claim, self._options.installation) else None

    def _check(self, name: str, claim: Json, volume: VolumeRef) -> None:
        found = seen.volume_of(claim)
        if found.incarnation != volume.incarnation or volume.uid not in (None, found.uid):
            raise Refused(f"{name} is another one: {found.incarnation!r}, {found.uid!r}; {volume} was meant.")

    async def _gone(self, name: str, uid: str) -> None:
        pause, longest = _POLL_SECONDS
        try:
            async with asyncio.timeout(self._options.patience.act):
                while True:
                    claim = await self._cluster.get(CLAIMS, name)
                    if claim is None or claim["metadata"]["uid"] != uid:
                        return
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, longest)
        except TimeoutError:
            raise ActionFailed(
                f"{name} is being removed, and does not go: a pod that CodeHub did not make may be using it."
            ) from None
