"""What is sent to the routes of workspaces and what they answer: the contract, as models with examples.

Input is strict: a field that does not exist is a mistake, and a number is not a text. Answers are written by
services/workspaces/showing.py; these models describe them to others, and tests hold both together.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from codehub.config.values import LONGEST
from codehub.model import ttl
from codehub.model.names import ARCHIVE_KEY
from codehub.model.removal import RemovalReason
from codehub.model.suspicion import Place
from codehub.model.workspace import Desired, InstanceBackend, Operation, Phase, RecoverFrom, StorageBackend

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
Tag = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50, pattern=NAME_PATTERN)]


def _once_each(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tags))


Tags = Annotated[
    tuple[Tag, ...], Field(max_length=20, description="At most 20, each of at most 50 characters.", examples=[["gpu"]]),
    AfterValidator(_once_each),
]  # fmt: skip
ImageRef = Annotated[
    str, StringConstraints(min_length=1, max_length=512, pattern=NAME_PATTERN),
    Field(description="One of GET /images, or an image reference that one of its patterns allows.",
          examples=["code-server", "registry.example:5000/team/ide:1"]),
]  # fmt: skip
Ttl = Annotated[
    int, Field(ge=0, le=LONGEST, strict=True, description="Seconds; 0 is never, else at least 60.", examples=[3600]),
    AfterValidator(_ttl),
]  # fmt: skip
LimitValue = Annotated[int, Field(ge=1, le=1_000_000, strict=True, examples=[2])]
Reachable = Literal[Desired.RUNNING, Desired.STANDBY, Desired.ARCHIVED]
SafeMode = Annotated[
    bool | None,
    Field(
        strict=True,
        description="With the desired_state RUNNING: start a shell with the home in its place, but read no settings "
        "from it, for when they keep it from starting. The next start is an ordinary one again.",
    ),
]
Search = Annotated[str, StringConstraints(max_length=255, pattern=NAME_PATTERN)]


class Strict(BaseModel):
    """Input."""

    model_config = ConfigDict(extra="forbid")


def _left_out(schema: dict[str, Any]) -> None:
    """What is left out is not changed: there is no default to show."""
    schema.pop("default", None)


def _merged(given: Any, name: str, other: str) -> Any:  # noqa: ANN401 - whatever was sent
    """`other` is another name of `name`; whoever gives both must mean the same."""
    if not isinstance(given, dict) or other not in given:
        return given
    if name in given and given[name] != given[other]:
        raise ValueError(f"{name} and {other} are the same, and were given different values")
    return {key: each for key, each in given.items() if key != other} | {name: given[other]}


def _check_mode(safe_mode: bool | None, desired: Desired | None) -> None:
    if safe_mode is not None and desired is not Desired.RUNNING:
        raise ValueError("safe_mode goes with the desired_state RUNNING")


class NewWorkspace(Strict):
    """A workspace to make. What is left out is as this installation does it."""

    name: Name
    description: Description | None = None
    memo: Memo | None = None
    tags: Tags = ()
    image_ref: ImageRef | None = None
    instance_backend: Annotated[
        InstanceBackend | None, Field(description="One that this installation has; GET /images names them.")
    ] = None
    backend: Annotated[InstanceBackend | None, Field(description="The same as instance_backend.")] = None
    storage_backend: Annotated[
        StorageBackend | None, Field(description="What belongs to the instance_backend: there is one for each.")
    ] = None
    standby_ttl_seconds: Ttl | None = None
    archive_ttl_seconds: Ttl | None = None
    desired_state: Reachable = Desired.RUNNING
    desired: Annotated[Reachable, Field(description="The same as desired_state.")] = Desired.RUNNING
    from_archive: Annotated[
        UUID | None,
        Field(description="A workspace of yours, living or in the trash: the new one begins with its newest archive."),
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _other_names(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was sent
        return _merged(_merged(given, "backend", "instance_backend"), "desired_state", "desired")


class WorkspaceChange(Strict):
    """What to change; what is left out stays as it is. A new image is used from the next start on."""

    name: Annotated[Name, Field(json_schema_extra=_left_out)] = ""
    description: Description | None = None
    memo: Memo | None = None
    tags: Annotated[Tags, Field(json_schema_extra=_left_out)] = ()
    is_favorite: Annotated[bool, Field(strict=True, json_schema_extra=_left_out)] = False
    image_ref: Annotated[ImageRef, Field(json_schema_extra=_left_out)] = ""
    standby_ttl_seconds: Annotated[Ttl, Field(json_schema_extra=_left_out)] = 0
    archive_ttl_seconds: Annotated[Ttl, Field(json_schema_extra=_left_out)] = 0
    desired_state: Annotated[Reachable, Field(json_schema_extra=_left_out)] = Desired.RUNNING
    desired: Annotated[Reachable, Field(description="The same as desired_state.", json_schema_extra=_left_out)] = (
        Desired.RUNNING
    )
    safe_mode: SafeMode = None

    @model_validator(mode="before")
    @classmethod
    def _other_names(cls, given: Any) -> Any:  # noqa: ANN401 - whatever was sent
        return _merged(given, "desired_state", "desired")

    @model_validator(mode="after")
    def _starts(self) -> Self:
        _check_mode(self.safe_mode, self.desired_state if "desired_state" in self.model_fields_set else None)
        return self


class Recovery(Strict):
    """Where the home is to come from. `as_is` only clears the error and looks again."""

    source: Annotated[RecoverFrom, Field(alias="from", examples=["archive"])] = RecoverFrom.AS_IS
    forced: Annotated[
        bool, Field(strict=True, description="Give up a whole volume that is there. It is gone for good then.")
    ] = False
    desired_state: Annotated[
        Reachable | None, Field(description="What it is to be afterwards; left out, that stays as it was.")
    ] = None
    safe_mode: SafeMode = None

    @model_validator(mode="after")
    def _starts(self) -> Self:
        _check_mode(self.safe_mode, self.desired_state)
        return self


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
    orphans: Annotated[
        bool, Field(strict=True, description="Instances and volumes of no workspace, instead of archives.")
    ] = False


class AcceptedLosses(Strict):
    """Homes or archives that are missing, and are not coming back."""

    backend: Annotated[Place, Field(description="Where they were: a backend, or archives for the archive store.")]


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


class Removal(BaseModel):
    """Why something of a deleted workspace is still there, and when it goes on by itself, as far as that is known.

    trash: it can be undeleted until then. backend: its instance or volume is being removed. archive: its archive is
    being removed. store: the archive store does not answer. unremembered: the database did not make its archive; an
    administrator discards it.
    """

    reason: RemovalReason
    at: datetime | None


class Workspace(BaseModel):
    """A workspace. `backend` and `error` say again, in one place, what fields of their own say."""

    id: UUID
    owner_user_id: UUID
    owner: Person
    name: Annotated[str, Field(examples=["thesis"])]
    description: str | None
    memo: str | None
    tags: list[str]
    is_favorite: bool
    image_ref: Annotated[str, Field(examples=["code-server"])]
    instance_backend: InstanceBackend
    storage_backend: StorageBackend
    backend: Annotated[InstanceBackend, Field(description="The same as instance_backend.")]
    home_store_key: Annotated[
        str, Field(description="The volume's name.", examples=["ws-0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11-home"])
    ]
    created_at: datetime
    updated_at: datetime
    desired_state: Annotated[Desired, Field(description="What was asked for.")]
    safe_mode: Annotated[bool, Field(description="Whether it was last started in safe mode.")]
    phase: Annotated[Phase, Field(description="What it is.")]
    phase_changed_at: datetime
    operation: Annotated[Operation, Field(description="The transition in progress.")]
    op_started_at: datetime | None
    op_id: Annotated[UUID | None, Field(description="Of the operation in progress, or of the last one.")]
    observed_at: Annotated[datetime | None, Field(description="When a look last changed something, at least.")]
    progress: Progress | None
    error_reason: Annotated[str | None, Field(examples=["RetryExceeded"])]
    error_count: Annotated[int, Field(description="Failed attempts.")]
    error: Trouble | None
    conditions: dict[str, Condition]
    standby_ttl_seconds: Annotated[int, Field(description="Seconds unused until it stops; 0 is never.")]
    archive_ttl_seconds: Annotated[int, Field(description="Seconds stopped until it is archived; 0 is never.")]
    last_access_at: datetime | None
    keep_awake_until: datetime | None
    next_transition: Transition | None
    deleted_at: datetime | None
    undelete_until: Annotated[datetime | None, Field(description="Until when POST …/undelete can bring it back.")]
    removal: Annotated[Removal | None, Field(description="What a deleted one waits for until nothing is left of it.")]
    archive_key: Annotated[
        str | None,
        Field(
            description="Where its archive is, below the store's prefix.",
            examples=["0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11/5d9d4c5e-7f9e-4a54-a4be-6f2f3c1e0a77/home.tar.zst"],
        ),
    ]
    archived: Annotated[bool, Field(description="Whether it has an archive that can be restored, by the last look.")]
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


class Archive(BaseModel):
    """A home as it was when it was archived."""

    op_id: Annotated[UUID, Field(description="The operation that made it.")]
    at: datetime
    bytes: Annotated[int, Field(description="Compressed.", examples=[1048576])]
    is_current: Annotated[bool, Field(description="Whether it is the workspace's archive_key.")]


class Archives(BaseModel):
    """What the archive store has of a workspace, newest first."""

    items: list[Archive]


class Logs(BaseModel):
    """The newest lines that the workspace has written."""

    text: Annotated[str, Field(examples=["Listening on port 8080\n"])]
    cut: Annotated[bool, Field(description="Whether lines that were asked for had to be left out.")]


class UsageLimits(BaseModel):
    """What a workspace may use at most; null is no limit."""

    cpus: float | None
    memory_bytes: int | None


class Measurement(BaseModel):
    """What the workspace used at a moment, or in the minutes before it; null is not known."""

    at: datetime
    cpus: Annotated[float | None, Field(description="Processors in use.", examples=[0.4])]
    memory_bytes: Annotated[int | None, Field(examples=[412_000_000])]


class ListeningPort(BaseModel):
    """A port that a program in the workspace listens on."""

    port: Annotated[int, Field(examples=[8000])]
    url: Annotated[str, Field(description="Where its owner opens it.", examples=["/w/…/.codehub/port/8000/"])]


class HomeSize(BaseModel):
    """What a home took on disk when it was measured last."""

    at: datetime
    bytes: Annotated[int | None, Field(description="Null: it took too long to measure.", examples=[2_400_000_000])]


class Usage(BaseModel):
    """What a workspace uses. Null or empty is what is not there, or cannot be measured."""

    now: Measurement | None
    day: Annotated[list[Measurement], Field(description="The last day, oldest first; the most memory of each time.")]
    ports: Annotated[list[ListeningPort] | None, Field(description="Null where they cannot be seen.")]
    limits: UsageLimits
    home: Annotated[
        HomeSize | None, Field(description="Null without a home on disk, and on backends that do not measure it.")
    ]
    archive_bytes: Annotated[
        int | None, Field(description="The size of its last archive, compressed.", examples=[812_000_000])
    ]


class Image(BaseModel):
    """Something a workspace can run: what `image_ref` may be, or a pattern of that."""

    name: Annotated[str, Field(examples=["code-server", "registry.example/team/*"])]
    backends: list[InstanceBackend]
    is_pattern: Annotated[
        bool, Field(description="Whether it stands for many: `image_ref` names one that it allows.")
    ] = False


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
    limit: int


class SetLimits(BaseModel):
    """Limits for all users; null is what is configured."""

    model_config = ConfigDict(extra="forbid")

    max_running_global: LimitValue | None = None
    max_running_per_user: LimitValue | None = None
    max_workspaces_per_user: LimitValue | None = None


class Limits(BaseModel):
    """Running workspaces in all and by user; those who use most come first."""

    total: QuotaInUse
    per_user_limit: int
    workspaces_per_user_limit: int
    users: list[UserInUse]
    set: Annotated[SetLimits, Field(description="What administrators set.")]
    configured: Annotated[SetLimits, Field(description="What holds where nothing is set.")]


class AuditLine(BaseModel):
    """Who did what, when and from where."""

    id: int
    at: datetime
    kind: Annotated[Literal["user", "token", "system"], Field(description="How whoever did it proved who they are.")]
    user: Person | None
    action: Annotated[str, Field(examples=["workspace.delete"])]
    workspace_id: UUID | None
    workspace_name: Annotated[str | None, Field(description="As it is called now; null when it is gone.")]
    address: str | None
    details: dict[str, Any]
    names: Annotated[
        dict[str, str], Field(description="Names of what the details name by an id.", examples=[{"user": "ada"}])
    ]


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
    orphans: bool
    started_at: datetime | None
    finished_at: datetime | None
    report: dict[str, Any] | None


class GcRuns(BaseModel):
    """A page of collections, newest first."""

    items: list[GcRun]
    next_cursor: str | None


class DiscardedArchives(BaseModel):
    """Archives that the database does not remember, and that nobody wants."""

    keys: Annotated[
        list[Annotated[str, Field(pattern=f"^{ARCHIVE_KEY}$")]],
        Field(min_length=1, max_length=1000, description="`unremembered` of a collection's report names them."),
    ]


class GcAccepted(BaseModel):
    """The collection begins when the leader hears of it: at once. GET /admin/gc says what came of it."""

    id: UUID
