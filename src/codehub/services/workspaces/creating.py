"""Creating a workspace, blank or from an archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from codehub.db import clock, listing, wishes
from codehub.db.pool import Connection, Pool, connection
from codehub.errors import Invalid, NotFound
from codehub.model.images import usual
from codehub.model.wishes import Refusal, archive_to_copy
from codehub.model.workspace import ArchiveKey, Desired, InstanceBackend, StorageBackend, WorkspaceId
from codehub.services import audit
from codehub.services.actors import Actor
from codehub.services.workspaces.admission import admit, admit_new
from codehub.services.workspaces.changing import check_image
from codehub.services.workspaces.deciding import refused
from codehub.services.workspaces.showing import Encoded, encoded
from codehub.services.workspaces.terms import Terms

_STORAGE = {
    InstanceBackend.PROCESS: StorageBackend.DIRECTORY,
    InstanceBackend.DOCKER: StorageBackend.DOCKER_VOLUME,
    InstanceBackend.K8S: StorageBackend.K8S_PVC,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What to make. None takes what this installation does by default."""

    name: str
    description: str | None = None
    memo: str | None = None
    tags: tuple[str, ...] = ()
    image_ref: str | None = None
    backend: InstanceBackend | None = None
    storage_backend: StorageBackend | None = None
    standby_ttl_seconds: int | None = None
    archive_ttl_seconds: int | None = None
    desired_state: Desired = Desired.RUNNING
    from_archive: WorkspaceId | None = None


async def create(
    pool: Pool, terms: Terms, actor: Actor, asked: Blueprint, *, adopting: ArchiveKey | None = None
) -> Encoded:
    """The new workspace, which the controller takes from here. `adopting`: an operator's word, no request's."""
    if asked.desired_state is Desired.DELETED:
        raise Invalid("desired_state: a workspace cannot be created deleted.", "Use RUNNING, STANDBY or ARCHIVED.")
    backend, image_ref = _chosen(terms.images(), asked, terms.default_backend)
    identity = WorkspaceId(uuid4())
    async with connection(pool) as conn:
        source = adopting
        if asked.from_archive is not None:
            source = await _source(conn, terms, actor, asked.from_archive)
        await admit_new(conn, actor.user_id, terms.quota)
        if asked.desired_state is Desired.RUNNING:
            await admit(conn, actor.user_id, terms.quota)
        await wishes.insert(
            conn,
            wishes.NewWorkspace(
                id=identity,
                owner_user_id=actor.user_id,
                name=asked.name,
                description=asked.description,
                memo=asked.memo,
                tags=asked.tags,
                image_ref=image_ref,
                instance_backend=backend,
                storage_backend=_STORAGE[backend],
                standby_ttl_seconds=_or(asked.standby_ttl_seconds, terms.standby_ttl_seconds),
                archive_ttl_seconds=_or(asked.archive_ttl_seconds, terms.archive_ttl_seconds),
                source_archive=source,
                desired_state=asked.desired_state,
                asked_by=actor.asked_by,
            ),
        )
        origin = {"from_archive": str(asked.from_archive)} if asked.from_archive is not None else {}
        if adopting is not None:
            origin["adopted"] = adopting
        await audit.record(conn, actor, "workspace.create", identity, name=asked.name, **origin)
        shown = await listing.by_id(conn, identity)
    assert shown is not None
    return encoded(shown, terms.retention)


def _chosen(
    images: Mapping[InstanceBackend, Sequence[str]], asked: Blueprint, default_backend: InstanceBackend
) -> tuple[InstanceBackend, str]:
    """The backend and the image: what was named, if it is offered, else the first that is."""
    backend = asked.backend or default_backend
    offered = images.get(backend, ())
    if not offered:
        names = ", ".join(name for name, each in images.items() if each) or "none at the moment"
        raise Invalid(f"instance_backend: {backend} workspaces are not offered here.", f"Choose one of: {names}.")
    if asked.storage_backend not in (None, _STORAGE[backend]):
        raise Invalid(
            f"storage_backend: {asked.storage_backend} does not go with {backend} workspaces.",
            f"Leave it out, or say {_STORAGE[backend]}.",
        )
    image_ref = asked.image_ref or usual(offered)
    if image_ref is None:
        raise Invalid("image_ref: say which image it is to be.", f"Allowed are: {', '.join(offered)}.")
    check_image(images, backend, image_ref)
    return backend, image_ref


async def _source(conn: Connection, terms: Terms, actor: Actor, identity: WorkspaceId) -> ArchiveKey:
    """Only of the caller's own workspaces, administrator or not: a copy of a home is a home in other hands."""
    shown = await listing.by_id(conn, identity)
    if shown is None or shown.workspace.owner_user_id != actor.user_id:
        raise NotFound("from_archive: there is no such workspace of yours.", "Check its id.")
    found = archive_to_copy(shown.workspace, await clock.now(conn), terms.retention)
    if isinstance(found, Refusal):
        raise refused(found, shown.workspace)
    return found


def _or(given: int | None, default: int) -> int:
    return default if given is None else given
