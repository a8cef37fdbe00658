"""What does not work now, logged when it begins, when its cause changes, and when it is over; not at every attempt."""

from structlog.typing import FilteringBoundLogger

from codehub.errors import CodeHubError


class Troubles:
    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._causes: dict[str, str] = {}

    def __contains__(self, what: str) -> bool:
        return what in self._causes

    def __len__(self) -> int:
        return len(self._causes)

    def begin(self, what: str, error: Exception) -> None:
        """It does not work, because of this."""
        expected = isinstance(error, CodeHubError)
        cause = str(error) if expected else f"{type(error).__name__}: {error}"
        if self._causes.get(what) != cause:
            self._log.error(what, cause=cause, exc_info=None if expected else error)
        self._causes[what] = cause

    def end(self, what: str) -> None:
        if self._causes.pop(what, None) is not None:
            self._log.info("it works again", what=what)
