"""What a check found: how it is, and what to do about it."""

from dataclasses import asdict, dataclass
from enum import StrEnum

from codehub.errors import CodeHubError


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, and could be better
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `advice` is what to do."""

    check: str
    state: State
    detail: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        return {name: str(value) for name, value in asdict(self).items()}


def ok(check: str, detail: str) -> Finding:
    return Finding(check, State.OK, detail)


def warning(check: str, detail: str, advice: str = "") -> Finding:
    return Finding(check, State.WARNING, detail, advice)


def failed(check: str, detail: str, advice: str = "") -> Finding:
    return Finding(check, State.FAILED, detail, advice)


def failed_by(check: str, error: CodeHubError) -> Finding:
    return Finding(check, State.FAILED, error.message, error.hint)
