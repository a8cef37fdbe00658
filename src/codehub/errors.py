"""Every error that CodeHub raises on purpose.

    CodeHubError              public text in `message`; what to do about it in `hint`
    ├── StartError            a program cannot start: shown as one line, exit code 1
    │   └── SettingsError     … because of its settings: one line per mistake, exit code 2
    ├── Unavailable           a dependency did not answer in time; trying again may help
    ├── StaleLeader           a controller write came from a leader that has been replaced
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


class InvalidName(CodeHubError):
    """The text does not have the form that names of this kind have."""
