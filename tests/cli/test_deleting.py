"""A deletion loses what was agreed to, and never more: a workspace that breaks meanwhile survives an old yes."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from codehub.cli.exits import CommandError
from codehub.cli.waiting import deleted, wait
from codehub.cli.ws_state import ask_to_delete
from codehub.client import ApiError, Client, Workspace
from tests.client.scripted import URL, ok, refusal, workspace

ERROR = {"phase": "ERROR", "operation": "NONE", "error": {"reason": "Unreachable", "message": "no engine", "count": 3}}
BUSY = refusal(409, "conflict", "STARTING is in progress.", {"operation": "STARTING"})
UNCONFIRMED = refusal(409, "needs_confirmation", "The home would be lost.", {"operation": "NONE"})


class Server:
    """Refuses deletions as a real one does; a workspace that was found busy is as `then` at the next look."""

    def __init__(self, *deletions: httpx.Response, **then: object) -> None:
        self.deletions = list(deletions)
        self.then = workspace(**then)
        self.asked: list[dict[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            self.asked.append(dict(request.url.params))
            return self.deletions.pop(0)
        if request.url.path.endswith("/events"):
            return refusal(503, "unavailable", "No events.")
        return ok(self.then)

    @contextmanager
    def client(self) -> Iterator[Client]:
        with Client(URL, "secret", transport=httpx.MockTransport(self)) as client:
            yield client


def test_one_that_goes_to_error_while_it_is_waited_for_is_not_deleted() -> None:
    server = Server(BUSY, ok(workspace(desired_state="DELETED")), **ERROR)
    with server.client() as client, pytest.raises(CommandError, match="is in ERROR") as failed:
        ask_to_delete(client, Workspace(**workspace()), purge=False, wait=True, timeout=5)
    assert server.asked == [{}], "it is not asked a second time"
    assert "codehub ws recover" in str(failed.value)


def test_one_that_comes_to_rest_is_deleted() -> None:
    server = Server(BUSY, ok(workspace(desired_state="DELETED")), operation="NONE")
    with server.client() as client:
        ask_to_delete(client, Workspace(**workspace(operation="NONE")), purge=False, wait=True, timeout=5)
    assert server.asked == [{}, {}]


def test_a_loss_that_nobody_was_told_of_is_not_confirmed() -> None:
    server = Server(UNCONFIRMED, ok(workspace()))
    with server.client() as client, pytest.raises(ApiError, match="would be lost"):
        ask_to_delete(client, Workspace(**workspace(operation="NONE")), purge=False, wait=False, timeout=None)
    assert server.asked == [{}]


@pytest.mark.parametrize(("purge", "params"), [(False, {"confirm": "true"}), (True, {"purge": "true"})])
def test_one_in_error_is_deleted_by_whoever_agreed_to_that(purge: bool, params: dict[str, str]) -> None:
    server = Server(ok(workspace()))
    with server.client() as client:
        ask_to_delete(client, Workspace(**workspace(**ERROR)), purge=purge, wait=False, timeout=None)
    assert server.asked == [params]


def test_what_is_refused_because_it_broke_meanwhile_says_why() -> None:
    broke = refusal(409, "conflict", "The workspace is in ERROR.", {"phase": "ERROR", "operation": "NONE"})
    server = Server(broke, **ERROR)
    with server.client() as client, pytest.raises(CommandError, match=r"in ERROR \(Unreachable\)") as failed:
        ask_to_delete(client, Workspace(**workspace(operation="NONE")), purge=True, wait=False, timeout=None)
    assert "codehub ws recover" in str(failed.value)


def test_what_is_deleted_is_waited_for_although_it_is_in_error() -> None:
    going = {"deleted_at": "2026-01-01T00:00:00Z", "desired_state": "DELETED"}
    server = Server(phase="DELETED", **going)
    with server.client() as client:
        done = wait(client, Workspace(**workspace(**ERROR, **going)), deleted(purged=True), 5)
    assert done.phase == "DELETED"
