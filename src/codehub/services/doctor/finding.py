"""What a check found: how it is, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum

from codehub.errors import CodeHubError
from codehub.services.doctor.codes import Code


class State(StrEnum):
    OK = "ok"
    WARNING = "warning"  # works, and could be better
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `advice` is what to do. Whatever is not well has a code."""

    check: str
    state: State
    detail: str
    advice: str = ""
    code: Code | None = None

    def as_dict(self) -> dict[str, str]:
        found = {"check": self.check, "state": str(self.state), "detail": self.detail, "advice": self.advice}
        return found if self.code is None else {**found, "code": self.code.id, "link": self.code.link}


def ok(check: str, detail: str) -> Finding:
    return Finding(check, State.OK, detail)


def warning(code: Code, detail: str, advice: str = "", *, check: str | None = None) -> Finding:
    return Finding(check or code.check, State.WARNING, detail, advice, code)


def failed(code: Code, detail: str, advice: str = "", *, check: str | None = None) -> Finding:
    return Finding(check or code.check, State.FAILED, detail, advice, code)


def failed_by(code: Code, error: CodeHubError, *, check: str | None = None) -> Finding:
    return failed(code, error.message, error.hint, check=check)
