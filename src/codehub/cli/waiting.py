"""`--wait`: until the wish came true, with a line that says what is happening meanwhile.

Events bring changes at once; a look every few seconds makes sure that nothing depends on them, for example behind a
proxy that holds streams back, or for an administrator who acts on somebody else's workspace.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from codehub.cli.exits import CommandError, Exit
from codehub.cli.output import clean, clock
from codehub.cli.progress import progress_line

if TYPE_CHECKING:
    from codehub.client import Client, Workspace

LOOK_SECONDS = 2.0
LOOK_SECONDS_WITH_EVENTS = 10.0
MAX_OUTAGE_SECONDS = 60.0
_LAST_WORDS_SECONDS = 2.0
_OF_INFRASTRUCTURE = ("storage.volume_ready", "infra.container_ready")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is waited for: `came_true` of the workspace (None: it is gone), and the wish it stands for."""

    words: str  # "is running"
    came_true: "Callable[[Workspace | None], bool]"
    desired: str | None = None  # another one in its place means that somebody else decided otherwise
    since_error: object = None  # phase_changed_at of the error that is being recovered from


def reached(phase: str) -> Wish:
    return Wish(
        {"STANDBY": "is stopped"}.get(phase, f"is {phase.lower()}"),
        lambda one: one is not None and one.phase == phase and one.desired_state == phase and one.operation == "NONE",
        desired=phase,
    )


def deleted(*, purged: bool) -> Wish:
    """Its instance and its home are gone; archives go with the next collection."""
    return Wish("is deleted for good" if purged else "is deleted", _is_settled, "DELETED")


def _is_settled(one: "Workspace | None") -> bool:
    if one is None or one.phase == "DELETED":
        return True
    left = any(one.conditions[key].status for key in _OF_INFRASTRUCTURE if key in one.conditions)
    return one.deleted_at is not None and one.phase == "DELETING" and one.operation == "NONE" and not left


def recovered(was: "Workspace") -> Wish:
    return Wish(
        "is well again",
        lambda one: one is not None and one.phase == one.desired_state and one.error is None,
        since_error=was.phase_changed_at,
    )


def ask(
    client: "Client", workspace: "Workspace", action: "Callable[[], Workspace]", *, patient: bool, seconds: float | None
) -> "Workspace":
    """Ask for something; one who is patient waits for an operation that is in the way.

    What was asked for a workspace that was well is not asked for again once it is in ERROR: it would mean something
    else there. Raises CommandError then.
    """
    from codehub.client import ApiError

    was_well = workspace.phase != "ERROR"
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        try:
            return action()
        except ApiError as error:
            busy = error.status == 409 and error.details.get("operation", "NONE") != "NONE"
            if was_well and error.code == "conflict" and error.details.get("phase") == "ERROR":
                raise CommandError(*error_of(client.workspace(workspace.id)), exit_code=Exit.CONFLICT) from None
            if not (patient and busy):
                raise
        left = None if until is None else max(0.0, until - time.monotonic())
        workspace = client.workspace(workspace.id)  # what is known of it is older than the refusal
        workspace = wait(
            client, workspace, Wish("is at rest", lambda one: one is None or one.operation == "NONE"), left
        )
        if was_well and workspace.phase == "ERROR":
            raise CommandError(*error_of(workspace))


def wait(client: "Client", workspace: "Workspace", wish: Wish, seconds: float | None) -> "Workspace":
    """The workspace once the wish came true. Raises CommandError when it will not, or not in time."""
    started = time.monotonic()
    with _news(client, workspace.id) as news, progress_line() as line:
        latest: Workspace | None = workspace
        while not wish.came_true(latest):
            _check(workspace.name, latest, wish)
            if latest is not None:
                line.show(latest)
                workspace = latest
            elapsed = time.monotonic() - started
            if seconds is not None and elapsed >= seconds:
                raise CommandError(
                    f"{clean(workspace.name)} is still {_state(workspace)} after {clock(timedelta(seconds=elapsed))}.",
                    "It goes on by itself; look with `codehub ws show`.",
                )
            latest = news.next(None if seconds is None else seconds - elapsed)
        return latest or workspace


def _check(name: str, latest: "Workspace | None", wish: Wish) -> None:
    name = clean(name)
    if latest is None:
        raise CommandError(f"{name} was deleted meanwhile.", exit_code=Exit.NOT_FOUND)
    # What is deleted has no terminal error: it goes on until nothing is left.
    if latest.phase == "ERROR" and latest.deleted_at is None and latest.phase_changed_at != wish.since_error:
        raise CommandError(*error_of(latest))
    if wish.desired is not None and latest.desired_state != wish.desired:
        raise CommandError(
            f"{name} is to be {latest.desired_state} now: somebody asked for that meanwhile.", exit_code=Exit.CONFLICT
        )


def error_of(workspace: "Workspace") -> tuple[str, str]:
    """Why it is in ERROR, and what to do about it."""
    error = workspace.error
    name, reason = clean(workspace.name), error.reason if error else "unknown reason"
    words = f" {clean(error.message)}" if error and error.message else ""
    home = workspace.conditions.get("storage.volume_ready")
    safely = f", or without its settings: codehub ws start {workspace.id} --safe" if home and home.status else ""
    return f"{name} is in ERROR ({reason}).{words}", f"Try again with: codehub ws recover {workspace.id}{safely}"


def _state(workspace: "Workspace") -> str:
    return workspace.phase if workspace.operation == "NONE" else workspace.operation


class _News:
    """What is known of one workspace, as it comes."""

    def __init__(self, client: "Client", identity: UUID, heard: "queue.Queue[Workspace | None]") -> None:
        self._client = client
        self._id = identity
        self._heard = heard
        self._by_events = False
        self._silent_since: float | None = None

    def next(self, seconds: float | None) -> "Workspace | None":
        """The next news, or a look of our own; None when it is gone."""
        patience = LOOK_SECONDS_WITH_EVENTS if self._by_events else LOOK_SECONDS
        if seconds is not None:
            patience = max(0.05, min(patience, seconds))
        try:
            latest = self._heard.get(timeout=patience)
        except queue.Empty:
            return self._look()
        self._by_events = True
        return latest if latest is not None else self._look()

    def _look(self) -> "Workspace | None":
        from codehub.client import ApiError

        while True:
            try:
                latest = self._client.workspace(self._id)
            except ApiError as error:
                if error.status == 404:
                    return None
                if error.code != "unreachable" and error.status not in (429, 503):
                    raise
                now = time.monotonic()
                self._silent_since = self._silent_since or now
                if now - self._silent_since > MAX_OUTAGE_SECONDS:
                    raise
                time.sleep(LOOK_SECONDS)
            else:
                self._silent_since = None
                return latest


@contextmanager
def _news(client: "Client", identity: UUID) -> "Iterator[_News]":
    heard: queue.Queue[Workspace | None] = queue.Queue()
    events = client.events()

    def listen() -> None:
        from codehub.client import ApiError

        with suppress(ApiError):  # without events there are looks
            for event in events:
                if event.id == identity:
                    heard.put(event.workspace)

    listener = threading.Thread(target=listen, name="events", daemon=True)
    listener.start()
    try:
        yield _News(client, identity, heard)
    finally:
        events.close()
        listener.join(_LAST_WORDS_SECONDS)
