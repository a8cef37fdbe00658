"""One's own API tokens."""

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from codehub.services import tokens
from codehub.services.actors import Scope
from codehub.web.api.session import Strict
from codehub.web.auth import CurrentActor, WritingActor
from codehub.web.context import InContext

router = APIRouter(tags=["tokens"])


class TokenRequest(Strict):
    """What it is for, what it may do, and for how long."""

    name: Annotated[str, Field(min_length=1, max_length=255, examples=["nightly backup"])]
    scope: Scope = Scope.READ
    expires_in_days: Annotated[int, Field(ge=1, le=3650)] | None = None


class ShownToken(BaseModel):
    """A token, without what it is."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class CreatedToken(ShownToken):
    """A token with what it is, this once."""

    token: Annotated[str, Field(examples=["chp_…"])]


class OwnTokens(BaseModel):
    """All of them, oldest first."""

    items: list[ShownToken]


@router.get("/tokens")
async def list_tokens(actor: CurrentActor, context: InContext) -> OwnTokens:
    """One's tokens that are not revoked."""
    return OwnTokens(items=[ShownToken.model_validate(row) for row in await tokens.mine(context.pool, actor)])


@router.post("/tokens", status_code=201)
async def create_token(given: TokenRequest, actor: WritingActor, context: InContext) -> CreatedToken:
    """A new token. It is shown in this answer and never again; made with a token, it ends no later than that one."""
    lifetime = None if given.expires_in_days is None else timedelta(days=given.expires_in_days)
    made = await tokens.create(context.pool, actor, given.name, given.scope, lifetime)
    shown = ShownToken.model_validate(made.row)
    return CreatedToken(**shown.model_dump(), token=made.secret)


@router.delete("/tokens/{token_id}", status_code=204)
async def revoke_token(token_id: UUID, actor: WritingActor, context: InContext) -> None:
    """End a token at once."""
    await tokens.revoke(context.pool, actor, token_id)
