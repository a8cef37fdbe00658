"""GET /admin/health: every dependency with its state and what to do, as /readyz has it, for the dashboard."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from codehub import __version__
from codehub.web.auth import AdminActor
from codehub.web.health import Looks

router = APIRouter(prefix="/admin", tags=["administration"])


class Dependency(BaseModel):
    """Something CodeHub needs."""

    name: Annotated[str, Field(examples=["postgresql"])]
    state: Annotated[Literal["up", "down"], Field(examples=["up"])]
    detail: Annotated[
        str, Field(description="What is wrong and what to do; a warning, when it is up.", examples=["", "No answer."])
    ]


class Health(BaseModel):
    """How this process is; `isolation` says for each backend what keeps workspaces apart."""

    version: Annotated[str, Field(examples=["0.1.0"])]
    ready: bool
    dependencies: list[Dependency]
    isolation: Annotated[dict[str, list[str]], Field(examples=[{"process": ["Each workspace runs in a sandbox."]}])]


@router.get("/health")
async def system_health(_actor: AdminActor, request: Request) -> Health:
    """Every dependency, whether it works, and what to do about it; what keeps workspaces apart."""
    looks: Looks = request.app.state.looks
    states = await looks.latest()
    return Health(
        version=__version__,
        ready=all(state.up for state in states.values()),
        dependencies=[
            Dependency(name=name, state="up" if state.up else "down", detail=state.detail)
            for name, state in states.items()
        ],
        isolation={name: list(lines) for name, lines in request.app.state.isolation().items()},
    )
