"""The one exception of the client."""

from collections.abc import Mapping

from codehub.errors import CodeHubError

UNREACHABLE = "unreachable"  # nothing answered, or not in time
NOT_CODEHUB = "unexpected_answer"  # something answered that does not speak CodeHub's API


class ApiError(CodeHubError):
    """What was asked for was not done: `message` is for people and says what to do.

    `code` is the API's, or one of the two above; `status` is None without an answer. `is_repeated`: it was asked for
    before, and the server was busy then; so it may be what was done at that time that stands in the way.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        status: int | None = None,
        details: Mapping[str, object] | None = None,
        retry_after: float | None = None,
        is_repeated: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.details = dict(details or {})
        self.retry_after = retry_after
        self.is_repeated = is_repeated
