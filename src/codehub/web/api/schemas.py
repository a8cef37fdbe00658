"""What is sent to the routes of workspaces and what they answer: the contract, as models with examples.

Input is strict: a field that does not exist is a mistake, and a number is not a text. Answers are written by
services/workspaces/showing.py; these models describe them to others, and tests hold both together.
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from codehub.config.values import LONGEST
from codehub.model import ttl
from codehub.model.workspace import Desired, InstanceBackend, Operation, Phase, RecoverFrom

# No control characters, nor those that turn the text around them.
NAME_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]*$"
TEXT_PATTERN = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"


def _ttl(seconds: int) -> int:
    if not ttl.is_valid_ttl(seconds):
        raise ValueError(f"must be 0 (never) or at least {ttl.SHORTEST_SECONDS} seconds")
    return seconds


Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=255, pattern=NAME_PATTERN),
    Field(description="1 to 255 characters, no control characters.", examples=["thesis"]),
]  # fmt: skip
Description = Annotated[
    str, StringConstraints(max_length=2000, pattern=TEXT_PATTERN),
    Field(examples=["Everything for chapter 3"]),
]  # fmt: skip
Memo = Annotated[
    str, StringConstraints(max_length=20_000, pattern=TEXT_PATTERN), Field(examples=["ask Grace about the data"])
]
ImageRef = Annotated[
    str, StringConstraints(min_length=1, max_length=512, pattern=NAME_PATTERN),
    Field(description="One of GET /images.", examples=["code-server"]),
]  # fmt: skip
Ttl = Annotated[
    int, Field(ge=0, le=LONGEST, strict=True, description="Seconds; 0 is never, else at least 60.", examples=[3600]),
    AfterValidator(_ttl),
]  # fmt: skip
Reachable = Literal[Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED]
Search = Annotated[str, StringConstraints(max_length=255, pattern=NAME_PATTERN)]


class Strict(BaseModel):
    """Input."""

    model_config = ConfigDict(extra="forbid")


def _left_out(schema: dict[str, Any]) -> None:
    """What is left out is not changed: there is no default to show."""
    schema.pop("default", None)


class NewWorkspace(Strict):
    """A workspace to make. What is left out is as this installation does it."""

    name: Name
    description: Description | None = None
    memo: Memo | None = None
    image_ref: ImageRef | None = None
    backend: InstanceBackend | None = None
    standby_ttl_seconds: Ttl | None = None
    archive_ttl_seconds: Ttl | None = None
    desired_state: Reachable = Desired.RUNNING
    from_archive: Annotated[
        UUID | None,
        Field(description="A workspace of yours, living or in the trash: the new one begins with its newest archive."),
    ] = None


class WorkspaceChange(Strict):
    """What to change; what is left out stays as it is. A new image is used from the next start on."""

    name: Annotated[Name, Field(json_schema_extra=_left_out)] = ""
    description: Description | None = None
    memo: Memo | None = None
    image_ref: Annotated[ImageRef, Field(json_schema_extra=_left_out)] = ""
    standby_ttl_seconds: Annotated[Ttl, Field(json_schema_extra=_left_out)] = 0
    archive_ttl_seconds: Annotated[Ttl, Field(json_schema_extra=_left_out)] = 0
    desired_state: Annotated[Reachable, Field(json_schema_extra=_left_out)] = Desired.RUNNING


class Recovery(Strict):
    """Where the home is to come from. `as_is` only clears the error and looks again."""

    source: Annotated[RecoverFrom, Field(alias="from", examples=["archive"])] = RecoverFrom.AS_IS
    forced: Annotated[
        bool, Field(strict=True, description="Give up a whole volume that is there. It is gone for good then.")
    ] = False


class KeepAwake(Strict):
    """For how long it is not to be stopped for being idle."""

    hours: Annotated[
        float, Field(strict=True, ge=0, le=24, allow_inf_nan=False, description="0 ends it.", examples=[8])
    ]


class GcOrder(Strict):
    """A collection of archives that nobody needs."""

    dry_run: Annotated[bool, Field(strict=True, description="Only say what would be deleted.")] = False
    override: Annotated[
        bool, Field(strict=True, description="Delete although an implausible share looks orphaned.")
    ] = False
    unknown_too: Annotated[
        bool, Field(strict=True, description="Delete archives of workspaces that the database does not know, too.")
    ] = False


class AcceptedLosses(Strict):
    """Homes that are missing, and are not coming back."""

    backend: Annotated[InstanceBackend, Field(description="Where they were.")]


# -- answers ----------------------------------------------------------------------------------------------------------


class Person(BaseModel):
    """A user."""

    id: UUID
    username: Annotated[str, Field(examples=["ada"])]


class Progress(BaseModel):
    """How far the operation has got."""

    bytes: Annotated[int, Field(examples=[1048576])]
    files: Annotated[int, Field(examples=[12])]


class Trouble(BaseModel):
    """What is wrong: until a person recovers it (ERROR), or until the next attempt."""

    reason: Annotated[str, Field(examples=["RetryExceeded"])]
    count: Annotated[int, Field(description="Failed attempts.", examples=[3])]
    retry_at: datetime | None
    message: Annotated[str, Field(description="One sentence with the next step.")]
    can_recover_from: Annotated[list[RecoverFrom], Field(description="What POST …/recover takes now, unforced.")]


class Condition(BaseModel):
    """One observed fact."""

    status: bool
    reason: Annotated[str, Field(examples=["ContainerRunning"])]
    message: str = ""
    last_transition_time: datetime | None = None


class Transition(BaseModel):
    """What will happen by itself, when, and why."""

    to: Desired
    at: datetime
    because: Annotated[str, Field(examples=["600 s since it was last used"])]


class Workspace(BaseModel):
    """A workspace."""

    id: UUID
    owner: Person
    name: Annotated[str, Field(examples=["thesis"])]
    description: str | None
    memo: str | None
    image_ref: Annotated[str, Field(examples=["code-server"])]
    backend: InstanceBackend
    created_at: datetime
    updated_at: datetime
    desired_state: Annotated[Desired, Field(description="What was asked for.")]
    phase: Annotated[Phase, Field(description="What it is.")]
    phase_changed_at: datetime
    operation: Annotated[Operation, Field(description="The transition in progress.")]
    op_started_at: datetime | None
    progress: Progress | None
    error: Trouble | None
    conditions: dict[str, Condition]
    standby_ttl_seconds: Annotated[int, Field(description="Seconds unused until it stops; 0 is never.")]
    archive_ttl_seconds: Annotated[int, Field(description="Seconds stopped until it is archived; 0 is never.")]
    last_access_at: datetime | None
    keep_awake_until: datetime | None
    next_transition: Transition | None
    deleted_at: datetime | None
    undelete_until: Annotated[datetime | None, Field(description="Until when POST …/undelete can bring it back.")]
    archived: Annotated[bool, Field(description="Whether there is an archive of it.")]
    url: Annotated[str, Field(examples=["/w/0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11/"])]


class Workspaces(BaseModel):
    """A page of workspaces, newest first."""

    items: list[Workspace]
    next_cursor: str | None


class HistoryLine(BaseModel):
    """A change: what it led to (`phase`, `operation`), why, who or what asked, and how long what ended had taken."""

    at: datetime
    phase: Phase
    operation: Operation
    error_reason: str | None
    reason: str
    cause: Annotated[str, Field(examples=["user ada", "ttl: 600 s since it was last used"])]
    duration_ms: int | None


class History(BaseModel):
    """A page of what happened, newest first."""

    items: list[HistoryLine]
    next_cursor: str | None


class VisitLine(BaseModel):
    """Somebody else entered the workspace."""

    at: datetime
    by: Annotated[str | None, Field(description="Which administrator; null when the account is gone.")]


class Visits(BaseModel):
    """The latest, newest first."""

    items: list[VisitLine]


class Logs(BaseModel):
    """The newest lines that the workspace has written."""

    text: Annotated[str, Field(examples=["Listening on port 8080\n"])]
    cut: Annotated[bool, Field(description="Whether lines that were asked for had to be left out.")]


class Image(BaseModel):
    """Something a workspace can run."""

    name: Annotated[str, Field(examples=["code-server"])]
    backends: list[InstanceBackend]


class Images(BaseModel):
    """What is offered."""

    items: list[Image]
    default_backend: InstanceBackend


class QuotaInUse(BaseModel):
    """How many may run, and how many do."""

    running: int
    limit: int


class UserInUse(BaseModel):
    """One user's share."""

    user: Person
    running: int


class Limits(BaseModel):
    """Running workspaces in all and by user; those who use most come first."""

    total: QuotaInUse
    per_user_limit: int
    users: list[UserInUse]


class AuditLine(BaseModel):
    """Who did what, when and from where."""

    id: int
    at: datetime
    kind: Annotated[Literal["user", "token", "system"], Field(description="How whoever did it proved who they are.")]
    user: Person | None
    action: Annotated[str, Field(examples=["workspace.delete"])]
    workspace_id: UUID | None
    address: str | None
    details: dict[str, Any]


class Audit(BaseModel):
    """A page of the audit log, newest first."""

    items: list[AuditLine]
    next_cursor: str | None


class GcRun(BaseModel):
    """A collection: who asked for it (null: nobody, it was its time), and its report once it is finished."""

    id: UUID
    requested_by: Person | None
    requested_at: datetime
    dry_run: bool
    override: bool
    unknown_too: bool
    started_at: datetime | None
    finished_at: datetime | None
    report: dict[str, Any] | None


class GcRuns(BaseModel):
    """A page of collections, newest first."""

    items: list[GcRun]
    next_cursor: str | None


class GcAccepted(BaseModel):
    """The collection begins when the leader hears of it: at once. GET /admin/gc says what came of it."""

    id: UUID
