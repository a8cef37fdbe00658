"""Changing a workspace: its names and notes, its image and TTLs, and what is wanted of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from codehub.db.listing import ShownWorkspace
from codehub.db.pool import Pool
from codehub.errors import Invalid
from codehub.model import wishes
from codehub.model.images import is_allowed
from codehub.model.workspace import Desired, InstanceBackend, WorkspaceId
from codehub.services.actors import Actor
from codehub.services.workspaces.deciding import Verb, carry_out, refused, wished
from codehub.services.workspaces.showing import Encoded
from codehub.services.workspaces.terms import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What to change. `given` names the fields that are meant: a description can be set to nothing, too."""

    given: frozenset[str]
    name: str = ""
    description: str | None = None
    memo: str | None = None
    tags: tuple[str, ...] = ()
    is_favorite: bool = False
    image_ref: str = ""
    standby_ttl_seconds: int = 0
    archive_ttl_seconds: int = 0
    desired_state: Desired = Desired.RUNNING
    safe_mode: bool | None = None


_LABELS = ("name", "description", "memo", "tags", "is_favorite")
_WISHES = ("image_ref", "standby_ttl_seconds", "archive_ttl_seconds")


async def update(
    pool: Pool,
    terms: Terms,
    actor: Actor,
    identity: WorkspaceId,
    changes: Changes,
    *,
    if_match: str | None = None,
) -> Encoded:
    """All of it or nothing. A new image is used from the next start on."""

    def decide(was: ShownWorkspace, now: datetime) -> ShownWorkspace:
        refusal = wishes.edit(was.workspace)
        if refusal is not None:
            raise refused(refusal, was.workspace)
        if "image_ref" in changes.given and changes.image_ref != was.workspace.wish.image_ref:
            check_image(terms.images(), was.workspace.instance_backend, changes.image_ref)
        new = was
        if "desired_state" in changes.given:
            wish = wishes.request_state(was.workspace, changes.desired_state, now, changes.safe_mode)
            new = wished(was, wish, actor)
        edited = replace(new.workspace.wish, **_picked(changes, _WISHES))
        return replace(new, workspace=replace(new.workspace, wish=edited), **_picked(changes, _LABELS))

    details: dict[str, object] = {"fields": sorted(changes.given)}
    if "desired_state" in changes.given:
        details["desired_state"] = changes.desired_state
    if changes.safe_mode is not None:
        details["safe_mode"] = changes.safe_mode
    return await carry_out(pool, terms, actor, identity, Verb("workspace.update", decide, details), if_match=if_match)


async def request_state(
    pool: Pool,
    terms: Terms,
    actor: Actor,
    identity: WorkspaceId,
    desired: Desired,
    *,
    safe_mode: bool | None = None,
) -> Encoded:
    """Start, stop or archive it: what a visit, a button and a command ask for alike."""

    def decide(was: ShownWorkspace, now: datetime) -> ShownWorkspace:
        return wished(was, wishes.request_state(was.workspace, desired, now, safe_mode), actor)

    details: dict[str, object] = {"fields": ["desired_state"], "desired_state": desired}
    if safe_mode is not None:
        details["safe_mode"] = safe_mode
    verb = Verb("workspace.update", decide, details)
    return await carry_out(pool, terms, actor, identity, verb)


def check_image(images: Mapping[InstanceBackend, Sequence[str]], backend: InstanceBackend, image_ref: str) -> None:
    offered = images.get(backend, ())
    if not is_allowed(image_ref, offered):
        names = ", ".join(offered) or "none at the moment"
        raise Invalid(f"image_ref: {image_ref} is not offered for {backend} workspaces.", f"Choose one of: {names}.")


def _picked(changes: Changes, fields: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(changes, name) for name in fields if name in changes.given}
