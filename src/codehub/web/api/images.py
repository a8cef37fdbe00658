"""What workspaces can be made of."""

from fastapi import APIRouter

from codehub.model.images import is_pattern
from codehub.model.workspace import InstanceBackend
from codehub.web.api import schemas
from codehub.web.auth import CurrentActor
from codehub.web.context import InContext

router = APIRouter(tags=["workspaces"])


@router.get("/images")
async def list_images(_actor: CurrentActor, context: InContext) -> schemas.Images:
    """What `image_ref` may be, and on which backends. Without an `image_ref` a backend's first is taken."""
    backends: dict[str, list[InstanceBackend]] = {}
    for backend, names in context.images().items():
        for name in names:
            backends.setdefault(name, []).append(backend)
    items = [schemas.Image(name=name, backends=where, is_pattern=is_pattern(name)) for name, where in backends.items()]
    return schemas.Images(items=items, default_backend=context.default_backend)
