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
    └── InvalidName           a text that is no name, key or id of ours

Nothing else may reach a user: an exception outside this tree is a bug.
"""


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
