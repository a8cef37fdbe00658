"""GET /admin/health: every dependency as /readyz has it, and what the doctor finds from here, for the dashboard.

A serving process looks at what it can see without secrets and without touching anything: what it depends on, how
things stand in the database, its disks and the addresses that browsers use. The rest of the machine (secrets, ports,
engines) is looked at by `codehub doctor`. However many ask, things are looked at once in a few seconds.
"""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from codehub import __version__
from codehub.services.doctor import codes, standing
from codehub.services.doctor.finding import Finding
from codehub.services.doctor.serving import Surroundings
from codehub.web.auth import AdminActor
from codehub.web.context import Context
from codehub.web.health import DependencyState, Kept, Looks

router = APIRouter(prefix="/admin", tags=["administration"])

SURROUNDINGS_SECONDS = 15.0  # names, certificates and disks change slowly, and asking about them takes long


class Findings:
    """What the doctor finds from here: one for the whole application."""

    def __init__(self, context: Context) -> None:
        accounts = context.settings.accounts
        reserve = context.settings.process.disk_reserve
        around = Surroundings(context.folders, accounts.public_url, accounts.workspace_host, reserve=reserve)
        self._standing = Kept(lambda: standing.look(context.pool, datetime.now(UTC)))
        self._around = Kept(around.look, SURROUNDINGS_SECONDS)

    async def latest(self) -> list[Finding]:
        how_things_stand, around = await asyncio.gather(self._standing.latest(), self._around.latest())
        return [*how_things_stand, *around]


class Dependency(BaseModel):
    """Something CodeHub needs."""

    name: Annotated[str, Field(examples=["postgresql"])]
    state: Annotated[Literal["up", "down"], Field(examples=["up"])]
    detail: Annotated[
        str, Field(description="What is wrong and what to do; a warning, when it is up.", examples=["", "No answer."])
    ]
    code: Annotated[str | None, Field(description="Of the runbook, if it is not well.", examples=["CH-SRV-3"])] = None


class Found(BaseModel):
    """What one check found; one that is not well has a code, which docs/runbook.md explains."""

    check: Annotated[str, Field(examples=["operations"])]
    state: Annotated[Literal["ok", "warning", "failed"], Field(examples=["warning"])]
    detail: Annotated[str, Field(examples=["3 workspaces are in ERROR."])]
    advice: Annotated[str, Field(description="What to do.", examples=["Each says why and what to do."])]
    code: Annotated[str | None, Field(examples=["CH-OP-2"])]
    link: Annotated[str | None, Field(examples=["docs/runbook.md#ch-op-2"])]


class Health(BaseModel):
    """How this process is; `isolation` says for each backend what keeps workspaces apart."""

    version: Annotated[str, Field(examples=["0.2.0"])]
    ready: bool
    dependencies: list[Dependency]
    findings: list[Found]
    isolation: Annotated[dict[str, list[str]], Field(examples=[{"process": ["Each workspace runs in a sandbox."]}])]


@router.get("/health")
async def system_health(_actor: AdminActor, request: Request) -> Health:
    """Every dependency, whether it works, and what to do about it; how things stand; what keeps workspaces apart."""
    looks: Looks = request.app.state.looks
    findings: Findings = request.app.state.findings
    states, found = await asyncio.gather(looks.latest(), findings.latest())
    return Health(
        version=__version__,
        ready=all(state.up for state in states.values()),
        dependencies=[_dependency(name, state) for name, state in states.items()],
        findings=[_found(one) for one in found],
        isolation={name: list(lines) for name, lines in request.app.state.isolation().items()},
    )


def _dependency(name: str, state: DependencyState) -> Dependency:
    code = (codes.WEAK if state.up else codes.DEPENDENCY) if state.detail or not state.up else None
    return Dependency(
        name=name, state="up" if state.up else "down", detail=state.detail, code=None if code is None else code.id
    )


def _found(one: Finding) -> Found:
    code, link = (None, None) if one.code is None else (one.code.id, one.code.link)
    return Found(check=one.check, state=one.state.value, detail=one.detail, advice=one.advice, code=code, link=link)
