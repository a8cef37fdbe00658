"""Who asks: every verb of a service is given an actor, and decides by it what there is and what may be done."""

from dataclasses import dataclass
from enum import StrEnum

from codehub.errors import NotAllowed
from codehub.model.workspace import UserId


class UserRole(StrEnum):
    USER = "user"
    ADMIN = "admin"


class Scope(StrEnum):
    """What a token may be used for; a session may do everything its user may."""

    READ = "read"
    WRITE = "write"


class ActorKind(StrEnum):
    """How whoever asks proved who they are."""

    USER = "user"  # a session
    TOKEN = "token"  # noqa: S105 - a kind, not a secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """One user, for the length of one request."""

    user_id: UserId
    username: str
    role: UserRole
    kind: ActorKind
    scope: Scope = Scope.WRITE
    credential_id: str  # of the session or token: what ends when it is revoked
    address: str | None = None
    is_proven: bool = False  # a fresh proof came with the request (proofs.py)

    @property
    def is_admin(self) -> bool:
        return self.role is UserRole.ADMIN

    @property
    def asked_by(self) -> str:
        """For the history: who asked."""
        return f"user {self.username}"

    def require_write(self) -> None:
        if self.scope is not Scope.WRITE:
            raise NotAllowed("This token may only read.", "Use one with the scope `write`.", code="read_only_token")

    def require_session(self) -> None:
        if self.kind is not ActorKind.USER:
            raise NotAllowed("A token cannot be used for this.", "Log in with a password instead.", code="session_only")

    def require_proof(self) -> None:
        """Of somebody in a browser."""
        if self.kind is ActorKind.USER and not self.is_proven:
            raise NotAllowed(
                "This needs a fresh proof that it is you.",
                "Give your password at POST /api/v1/session/proof, and send what it returns as Login-Proof.",
                code="proof_required",
            )

    def require_admin(self) -> None:
        if not self.is_admin:
            raise NotAllowed("Only administrators may do this.", code="admin_only")
