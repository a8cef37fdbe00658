"""GET /admin/figures: what administrators see plotted."""

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from codehub.services import figures
from codehub.web.auth import AdminActor
from codehub.web.context import InContext

router = APIRouter(prefix="/admin", tags=["administration"])


class _Shown(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class PhasesPoint(_Shown):
    """Workspaces in each phase, as an average over one step."""

    at: datetime
    running: Annotated[float, Field(examples=[12])]
    standby: Annotated[float, Field(examples=[31])]
    archived: Annotated[float, Field(examples=[240])]
    pending: Annotated[float, Field(examples=[0])]
    error: Annotated[float, Field(examples=[1])]


class ArchivesPoint(_Shown):
    """What the archive store held when a collection listed it."""

    at: datetime
    count: Annotated[int, Field(examples=[271])]
    bytes: Annotated[int, Field(examples=[52428800])]


class DurationsPoint(_Shown):
    """How long what ended well about this time had taken."""

    at: datetime
    count: Annotated[int, Field(examples=[17])]
    p50_ms: Annotated[float, Field(description="Half took at most this.", examples=[1300])]
    p95_ms: Annotated[float, Field(description="95 of 100 took at most this.", examples=[4200])]


class Figures(_Shown):
    """Series over one period, oldest first; a time without a point is one without data."""

    hours: Annotated[int, Field(examples=[24])]
    step_seconds: Annotated[float, Field(description="What one point of `phases` stands for.", examples=[900])]
    phases: list[PhasesPoint]
    archives: list[ArchivesPoint]
    starts: list[DurationsPoint]
    restores: list[DurationsPoint]


@router.get("/figures")
async def figures_over_time(
    actor: AdminActor,
    context: InContext,
    hours: Annotated[int, Query(ge=1, le=24 * 90, description="How far back.")] = 24,
) -> Figures:
    """Figures over time: workspaces by phase, archives, and how long starts and restores took."""
    found = await figures.over(context.pool, actor, timedelta(hours=hours))
    return Figures(
        hours=hours,
        step_seconds=found.step.total_seconds(),
        phases=[PhasesPoint.model_validate(each) for each in found.phases],
        archives=[ArchivesPoint.model_validate(each) for each in found.archives],
        starts=[DurationsPoint.model_validate(each) for each in found.starts],
        restores=[DurationsPoint.model_validate(each) for each in found.restores],
    )
