"""Every error that CodeHub raises on purpose.

    CodeHubError              public text in `message`; what to do about it in `hint`
    ├── StartError            a program cannot start: shown as one line, exit code 1
    │   └── SettingsError     … because of its settings: one line per mistake, exit code 2
    ├── Unavailable           a dependency did not answer in time; trying again may help
    ├── StaleLeader           a controller write came from a leader that has been replaced
    ├── DriverError           what was asked of the infrastructure was not done
    │   ├── Unreachable       … nor could be looked at: an outage, waited for and never counted
    │   ├── ActionFailed      … this time: trying again may help, and is counted
    │   ├── TerminalError     … and trying again will not help: `reason` says which kind
    │   └── Refused           … because the caller named something else than what is there
    ├── InvalidName           a text that is no name, key or id of ours
    └── ServiceError          a service refuses what it was asked for; `code` for programs, `details` beside it
        ├── NotLoggedIn       … because nobody is logged in, or no longer
        ├── NotAllowed        … because whoever asks may not do that at all
        ├── NotFound          … because there is no such thing, or it is none of theirs
        ├── Invalid           … because of what was given
        ├── Conflict          … in the present state; it may be possible later
        ├── Gone              … for good
        ├── Outdated          … because it changed since whoever asks has read it
        └── OverLimit         … because it is too much, or too often; `retry_after` seconds when waiting helps

Nothing else may reach a user: an exception outside this tree is a bug.
"""

from collections.abc import Mapping


class CodeHubError(Exception):
    """The root: `message` says what is wrong, `hint` what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class StartError(CodeHubError):
    """The program cannot start; nothing was changed or damaged."""

    exit_code = 1


class SettingsError(StartError):
    """One or more settings are wrong; the message has one line for each."""

    exit_code = 2


class Unavailable(CodeHubError):
    """PostgreSQL, Redis or another dependency did not answer in time."""


class StaleLeader(CodeHubError):
    """A newer leader has taken over since; whatever was to be written is its business now."""


class DriverError(CodeHubError):
    """A driver or the archive store did not do what it was asked; `reason` is the row's error_reason."""

    reason = "ActionFailed"


class Unreachable(DriverError):
    """The infrastructure could not be reached: nothing is known, which is not the same as nothing being there."""

    reason = "Unreachable"


class ActionFailed(DriverError):
    """It failed this time."""


class TerminalError(DriverError):
    """It will fail every time until a person does something."""

    def __init__(self, reason: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason


class Refused(DriverError):
    """What was named is not what is there (another volume, an old operation, a thing in use): look again."""


class InvalidName(CodeHubError):
    """The text does not have the form that names of this kind have."""


class ServiceError(CodeHubError):
    """What was asked for is refused, and nothing was changed. `code` names the case for programs."""

    code = "refused"

    def __init__(
        self, message: str, hint: str = "", *, code: str | None = None, details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message, hint)
        self.code = code or self.code
        self.details = dict(details or {})


class NotLoggedIn(ServiceError):
    """There is no session or token, or it has ended."""

    code = "not_logged_in"


class NotAllowed(ServiceError):
    """Whoever asks may not do this."""

    code = "not_allowed"


class NotFound(ServiceError):
    """There is no such thing; what belongs to somebody else is not there either."""

    code = "not_found"


class Invalid(ServiceError):
    """What was given cannot be used."""

    code = "invalid"


class Conflict(ServiceError):
    """It does not go together with the present state."""

    code = "conflict"


class Gone(ServiceError):
    """It was possible once."""

    code = "gone"


class Outdated(ServiceError):
    """It changed since it was read: read it again."""

    code = "outdated"


class OverLimit(ServiceError):
    """Too much, or too often."""

    code = "over_limit"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        code: str | None = None,
        details: Mapping[str, object] | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message, hint, code=code, details=details)
        self.retry_after = retry_after
