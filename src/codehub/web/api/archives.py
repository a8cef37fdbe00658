"""A workspace's archives: /workspaces/{id}/archives, and each as a file."""

import base64
from contextlib import ExitStack
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from codehub.model.workspace import OpId, WorkspaceId
from codehub.services import sessions
from codehub.services.actors import ActorKind
from codehub.services.workspaces import archives
from codehub.web.api import schemas
from codehub.web.api.answers import Responses, errors
from codehub.web.api.workspaces import json_answer
from codehub.web.auth import CurrentActor, WritingActor
from codehub.web.context import InContext
from codehub.web.csrf import check_same_origin
from codehub.web.downloads import FileStream, while_alive

router = APIRouter(tags=["workspaces"])

MEDIA_TYPE = "application/zstd"
_FILE: Responses = {
    200: {
        "description": "The archive: a tar file, compressed with Zstandard.",
        "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}},
        "headers": {"Repr-Digest": {"description": "Its SHA-256, as in RFC 9530.", "schema": {"type": "string"}}},
    }
}


@router.get("/workspaces/{workspace_id}/archives", response_model=schemas.Archives, responses=errors(404))
async def workspace_archives(workspace_id: UUID, actor: CurrentActor, context: InContext) -> Response:
    """The archives that the store has of it, newest first."""
    found = await archives.archives_of(context.pool, context.redis, context.terms, actor, WorkspaceId(workspace_id))
    items = [
        {"op_id": str(each.op_id), "at": each.at.isoformat(), "bytes": each.size, "is_current": each.is_current}
        for each in found
    ]
    return json_answer({"items": items})


@router.get(
    "/workspaces/{workspace_id}/archive", response_class=StreamingResponse, responses=_FILE | errors(404, 409, 410, 429)
)
async def download_archive(
    workspace_id: UUID,
    actor: WritingActor,
    request: Request,
    context: InContext,
    op_id: Annotated[UUID | None, Query(description="Which of …/archives; without it, the last one.")] = None,
) -> Response:
    """An archive of its home as a file, also of one in the trash. What is on disk only is to be archived first."""
    if actor.kind is ActorKind.USER:
        check_same_origin(request, context.settings.accounts)  # it is audited, and a user has only so many
    which = None if op_id is None else OpId(op_id)
    with ExitStack() as place:
        place.enter_context(context.downloads.place_of(actor.user_id))
        found = await archives.download(
            context.pool, context.redis, context.terms, actor, WorkspaceId(workspace_id), op_id=which
        )
        parts = while_alive(found.parts, lambda: sessions.is_alive(context.pool, context.settings.accounts, actor))
        return FileStream(parts, place.pop_all(), _headers(found), MEDIA_TYPE)


def _headers(found: archives.Download) -> dict[str, str]:
    digest = base64.b64encode(bytes.fromhex(found.sha256)).decode()
    return {
        "Content-Length": str(found.size),
        "Content-Disposition": f"attachment; filename=\"home.tar.zst\"; filename*=UTF-8''{_quoted(found.name)}.tar.zst",
        "Repr-Digest": f"sha-256=:{digest}:",
        "Cache-Control": "no-store",
    }


def _quoted(name: str) -> str:
    """As a file's name: browsers replace what their system does not take, but a separator is not theirs to see."""
    return quote(name.replace("/", "-").replace("\\", "-").strip(". ") or "home", safe="")
