"""Exit codes: what a script learns from a command that did not do its work."""

from enum import IntEnum

from codehub.errors import CodeHubError, Conflict, Invalid, NotFound, StartError


class Exit(IntEnum):
    """The documented codes; docs/cli.md shows them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_ALLOWED = 5
    OVER_LIMIT = 6
    UNREACHABLE = 7
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "done",
    Exit.FAILED: "it failed, or the workspace went to ERROR",
    Exit.USAGE: "wrong usage, input or settings",
    Exit.NOT_FOUND: "there is no such thing, or no longer",
    Exit.CONFLICT: "not possible in the present state",
    Exit.NOT_ALLOWED: "not logged in, or not allowed",
    Exit.OVER_LIMIT: "over a limit, or too often",
    Exit.UNREACHABLE: "the server cannot be reached, or cannot do its work now",
    Exit.INTERRUPTED: "interrupted (Ctrl-C)",
}

_OF_STATUS = {
    400: Exit.USAGE,
    401: Exit.NOT_ALLOWED,
    403: Exit.NOT_ALLOWED,
    404: Exit.NOT_FOUND,
    409: Exit.CONFLICT,
    410: Exit.NOT_FOUND,
    412: Exit.CONFLICT,
    413: Exit.USAGE,
    422: Exit.USAGE,
    429: Exit.OVER_LIMIT,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}

_OF_SERVICES = {Conflict: Exit.CONFLICT, Invalid: Exit.USAGE, NotFound: Exit.NOT_FOUND}


class CommandError(CodeHubError):
    """A command cannot do its work; `exit_code` says of which kind that is."""

    def __init__(self, message: str, hint: str = "", *, exit_code: Exit = Exit.FAILED) -> None:
        super().__init__(message, hint)
        self.exit_code = exit_code


def exit_code_of(error: CodeHubError) -> int:
    if isinstance(error, StartError | CommandError):
        return error.exit_code
    for kind, exit_code in _OF_SERVICES.items():  # of commands that work on the database itself
        if isinstance(error, kind):
            return exit_code
    code, status = getattr(error, "code", None), getattr(error, "status", None)  # ApiError is not imported for this
    if code in ("unreachable", "unexpected_answer"):
        return Exit.UNREACHABLE
    return _OF_STATUS.get(status, Exit.FAILED) if isinstance(status, int) else Exit.FAILED
