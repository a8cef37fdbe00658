"""What the API answers, as frozen values. Fields that a newer server adds are ignored; words stay words, so that a new
phase or reason does not break an old client.
"""

from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Owner(Model):
    id: UUID
    username: str


class Progress(Model):
    """How far the operation under way has got."""

    bytes: int = 0
    files: int | None = None


class ErrorState(Model):
    """Why the workspace is in ERROR, or will try again."""

    reason: str
    count: int = 0
    retry_at: datetime | None = None
    message: str = ""
    can_recover_from: tuple[str, ...] = ()


class Condition(Model):
    status: bool
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class NextTransition(Model):
    """What will happen by itself, when, and why."""

    to: str
    at: datetime
    because: str = ""


class Workspace(Model):
    """The workspace object of ADR 7."""

    id: UUID
    owner: Owner
    name: str
    description: str | None = None
    memo: str | None = None
    tags: tuple[str, ...] = ()
    is_favorite: bool = False
    image_ref: str
    backend: str
    storage_backend: str | None = None
    home_store_key: str | None = None
    archive_key: str | None = None
    op_id: UUID | None = None
    observed_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    desired_state: str
    safe_mode: bool = False
    phase: str
    phase_changed_at: datetime | None = None
    operation: str = "NONE"
    op_started_at: datetime | None = None
    progress: Progress | None = None
    error: ErrorState | None = None
    conditions: dict[str, Condition] = Field(default_factory=dict)
    standby_ttl_seconds: int = 0
    archive_ttl_seconds: int = 0
    last_access_at: datetime | None = None
    keep_awake_until: datetime | None = None
    next_transition: NextTransition | None = None
    deleted_at: datetime | None = None
    undelete_until: datetime | None = None
    archived: bool = False
    url: str = ""


class Archive(Model):
    """A home as it was when it was archived."""

    op_id: UUID
    at: datetime
    bytes: int
    is_current: bool = False


class Page(Model, Generic[T]):
    """A piece of a list; the cursor, if any, leads to the next one."""

    items: tuple[T, ...]
    next_cursor: str | None = None


class User(Model):
    id: UUID
    username: str
    role: str
    created_at: datetime | None = None
    disabled: bool = False
    disabled_at: datetime | None = None
    login: str = ""  # how: password, oidc or none


class Session(Model):
    """Who the caller is, by what, and until when."""

    user: User
    kind: str = ""
    scope: str = ""
    expires_at: datetime | None = None


class Token(Model):
    """A token without its secret."""

    id: UUID
    name: str
    scope: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


class NewToken(Token):
    """A token that was just made: the only time that its secret is shown."""

    token: str = Field(repr=False)


class Image(Model):
    name: str
    backends: tuple[str, ...] = ()
    is_pattern: bool = False


class Images(Model):
    """What new workspaces may be."""

    items: tuple[Image, ...]
    default_backend: str | None = None


class HistoryEntry(Model):
    """A change: what it led to, why, who or what asked, and how long what ended had taken."""

    at: datetime
    phase: str
    operation: str = "NONE"
    error_reason: str | None = None
    reason: str = ""
    cause: str = ""
    duration_ms: int | None = None


class Logs(Model):
    """The newest lines that a workspace has written; `cut` when some that were asked for are left out."""

    text: str
    cut: bool = False


class Measurement(Model):
    """What a workspace used at a moment."""

    at: datetime
    cpus: float | None = None
    memory_bytes: int | None = None


class ListeningPort(Model):
    port: int
    url: str = ""


class UsageLimits(Model):
    cpus: float | None = None
    memory_bytes: int | None = None


class HomeSize(Model):
    """What a home took on disk when it was measured last; None could not be measured."""

    at: datetime
    bytes: int | None = None


class Usage(Model):
    """What a workspace uses, now and in the last day."""

    now: Measurement | None = None
    day: tuple[Measurement, ...] = ()
    ports: tuple[ListeningPort, ...] | None = None
    limits: UsageLimits = UsageLimits()
    home: HomeSize | None = None
    archive_bytes: int | None = None


class InUse(Model):
    running: int
    limit: int


class UserInUse(Model):
    user: Owner
    running: int


class SetLimits(Model):
    """Limits for all users; None is what is configured."""

    max_running_global: int | None = None
    max_running_per_user: int | None = None
    max_workspaces_per_user: int | None = None


class Limits(Model):
    """How many workspaces run, in all and by user, and how many may."""

    total: InUse
    per_user_limit: int
    users: tuple[UserInUse, ...] = ()
    set: SetLimits = SetLimits()
    configured: SetLimits = SetLimits()


class AuditEntry(Model):
    """Who did what."""

    id: int
    at: datetime
    kind: str
    user: Owner | None = None
    action: str
    workspace_id: UUID | None = None
    address: str | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class GcRun(Model):
    """A collection of archives that nobody needs: who asked for it, and its report once it is finished."""

    id: UUID
    requested_by: Owner | None = None
    requested_at: datetime
    dry_run: bool = False
    override: bool = False
    unknown_too: bool = False
    orphans: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    report: dict[str, Any] | None = None


class GcAccepted(Model):
    id: UUID


Json = dict[str, Any]
