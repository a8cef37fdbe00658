"""What the client makes of answers, good and bad. Its calls on the real API are in tests/cli."""

import time
from collections.abc import Callable

import httpx
import pytest

from codehub.client import ApiError, Client, Event, EventKind, Events
from codehub.client.http import tidy_url
from tests.client.scripted import URL, WORKSPACE_ID, Script, client_of, ok, refusal, sse, workspace


def failure(*answers: httpx.Response | Exception) -> ApiError:
    script = Script(*answers)
    with client_of(script) as client, pytest.raises(ApiError) as raised:
        client.workspace(WORKSPACE_ID)
    return raised.value


def test_an_error_has_the_server_s_words_code_and_status() -> None:
    error = failure(refusal(409, "conflict", "STARTING is in progress.", {"operation": "STARTING"}))
    assert (error.code, error.status, str(error)) == ("conflict", 409, "STARTING is in progress.")
    assert error.details == {"operation": "STARTING"}


def test_how_long_to_wait_is_kept() -> None:
    answer = refusal(429, "over_limit", "Too many.")
    answer.headers["Retry-After"] = "30"
    assert failure(answer).retry_after == 30


def busy(after: str = "0") -> httpx.Response:
    answer = refusal(503, "unavailable", "The database did not answer in time.")
    answer.headers["Retry-After"] = after
    return answer


def test_a_server_that_is_busy_is_asked_again_and_not_for_ever() -> None:
    script = Script(busy(), busy(), ok(workspace()))
    with client_of(script) as client:
        assert client.workspace(WORKSPACE_ID).name == "thesis"
    error = failure(busy(), busy(), busy(), ok(workspace()))
    assert (error.code, error.is_repeated) == ("unavailable", True)


def test_it_is_asked_again_when_it_says() -> None:
    script = Script(busy("0.3"), ok(workspace()))
    began = time.monotonic()
    with client_of(script) as client:
        client.workspace(WORKSPACE_ID)
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("after", ["", "tomorrow", "-1", "nan", "inf"])
def test_one_that_does_not_say_when_is_not_asked_again(after: str) -> None:
    assert failure(busy(after), ok(workspace())).status == 503


def test_what_is_not_the_same_when_done_twice_is_not_asked_again() -> None:
    asking: list[Callable[[Client], object]] = [
        lambda client: client.create_workspace("thesis"),
        lambda client: client.recover_workspace(WORKSPACE_ID),
        lambda client: client.update_workspace(WORKSPACE_ID, if_match='"seen"', name="other"),
    ]
    for ask in asking:
        script = Script(busy(), ok(workspace()))
        with client_of(script) as client, pytest.raises(ApiError, match="in time"):
            ask(client)
        assert len(script.asked) == 1


def test_a_wish_that_was_heard_before_the_server_said_that_it_is_busy_is_done() -> None:
    """As a burst of starts meets it: the wish was written, the answer was late, and now it is being done."""
    starting = refusal(409, "conflict", "STARTING is in progress.", {"desired_state": "RUNNING"})
    script = Script(busy(), starting, ok(workspace()))
    with client_of(script) as client:
        assert client.set_state(WORKSPACE_ID, "RUNNING").operation == "STARTING"
    assert [asked.method for asked in script.asked] == ["PATCH", "PATCH", "GET"]
    stopping = refusal(409, "conflict", "STOPPING is in progress.", {"desired_state": "DELETED"})
    script = Script(busy(), stopping, ok(workspace(desired_state="DELETED")))
    with client_of(script) as client:
        assert client.delete_workspace(WORKSPACE_ID).desired_state == "DELETED"
    script = Script(busy(), refusal(404, "not_found", "There is no such token."))
    with client_of(script) as client:
        client.revoke_token(WORKSPACE_ID)


@pytest.mark.parametrize("first", [(), (busy(),)])
def test_another_s_wish_is_not_ours(first: tuple[httpx.Response, ...]) -> None:
    told = {"desired_state": "STANDBY" if first else "RUNNING"}
    script = Script(*first, refusal(409, "conflict", "It is in progress.", told))
    with client_of(script) as client, pytest.raises(ApiError, match="in progress"):
        client.set_state(WORKSPACE_ID, "RUNNING")
    script = Script(*first, refusal(409, "conflict", "It is in progress.", {"desired_state": "DELETED"}))
    with client_of(script) as client, pytest.raises(ApiError, match="in progress"):
        client.delete_workspace(WORKSPACE_ID, purge=True)


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), "nothing listens there"),
        (httpx.ConnectError("[Errno -2] Name or service not known"), "no such host"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate"), "SSL_CERT_FILE"),
        (httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong"), "http://"),
        (httpx.ReadTimeout("timed out"), "did not answer in time"),
        (httpx.RemoteProtocolError("Server disconnected"), "Server disconnected"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named(trouble: Exception, words: str) -> None:
    error = failure(trouble)
    assert (error.code, error.status) == ("unreachable", None)
    assert URL in str(error)
    assert words in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>some other site</html>"),
        httpx.Response(200, json={"id": "no workspace"}),
        httpx.Response(404, text="not found"),
        httpx.Response(418, json=["teapot"]),
        httpx.Response(302, headers={"location": "https://elsewhere/login"}),
    ],
)
def test_what_is_not_codehub_is_told_as_that(answer: httpx.Response) -> None:
    error = failure(answer)
    assert error.code == "unexpected_answer"
    assert URL in str(error)


def test_a_proxy_whose_server_is_away() -> None:
    error = failure(httpx.Response(502, text="<html>Bad Gateway</html>"))
    assert (error.code, error.status) == ("unreachable", 502)


def test_a_redirect_is_not_followed_with_the_token() -> None:
    script = Script(httpx.Response(307, headers={"location": "https://evil.test/"}))
    with client_of(script) as client, pytest.raises(ApiError, match="redirects to"):
        client.session()
    assert [request.url.host for request in script.asked] == ["codehub.test"]


def test_the_token_goes_in_the_header() -> None:
    script = Script(ok(workspace()))
    with client_of(script) as client:
        client.workspace(WORKSPACE_ID)
    assert script.last.headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "ünicode"])
def test_a_token_that_cannot_be_one(token: str) -> None:
    with pytest.raises(ValueError, match="token"), client_of(Script(), token):
        pass


def test_a_session_s_cookie_is_sent_back_even_if_it_is_for_https() -> None:
    user = {"id": WORKSPACE_ID, "username": "ada", "role": "user"}
    answer = ok({"user": user})
    answer.headers["set-cookie"] = "__Host-codehub_session=s3cret; Path=/; Secure; HttpOnly"
    script = Script(answer, ok({"user": user, "kind": "user", "scope": "write", "expires_at": None}))
    with client_of(script, None) as client:
        assert client.login("ada", "pw").username == "ada"
        client.session()
    assert script.last.headers["cookie"] == "__Host-codehub_session=s3cret"


def test_lists_are_read_to_their_end() -> None:
    pages = [{"items": [workspace(name="b")], "next_cursor": "x"}, {"items": [workspace(name="a")]}]
    script = Script(*map(ok, pages))
    with client_of(script) as client:
        assert [one.name for one in client.workspaces(q="th")] == ["b", "a"]
    assert dict(script.last.url.params) == {"limit": "100", "cursor": "x", "q": "th"}


def test_no_more_history_than_was_asked_for() -> None:
    line = {"at": "2026-01-01T00:00:00Z", "phase": "RUNNING", "operation": "NONE"}
    script = Script(ok({"items": [line] * 3, "next_cursor": "x"}))
    with client_of(script) as client:
        assert len(list(client.history(WORKSPACE_ID, limit=2))) == 2
    assert script.last.url.params["limit"] == "2"


def test_a_field_and_a_word_of_a_newer_server_do_no_harm() -> None:
    script = Script(ok(workspace(phase="HIBERNATING", colour="blue")))
    with client_of(script) as client:
        assert client.workspace(WORKSPACE_ID).phase == "HIBERNATING"


@pytest.mark.parametrize(
    "text", ["", "codehub", "ftp://x", "http://", "http://h:99999", "http://u:p@h", "http://h?q=1"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        tidy_url(text)


def test_an_address_is_kept_without_its_last_slash() -> None:
    assert tidy_url(" http://127.0.0.1:8080/ ") == "http://127.0.0.1:8080"
    assert tidy_url("https://host/codehub/") == "https://host/codehub"


def test_events_go_on_after_the_connection_was_lost_from_a_new_snapshot() -> None:
    script = Script(
        sse(("workspace_updated", workspace()), ("heartbeat", {})),
        httpx.ConnectError("refused"),
        refusal(503, "unavailable", "Away."),
        sse(("workspace_deleted", {"id": WORKSPACE_ID}), ("something_new", {}), ("workspace_updated", {"bad": 1})),
        refusal(401, "not_logged_in", "The token is not valid."),
    )
    pauses: list[float] = []
    heard: list[Event] = []
    with client_of(script) as client, pytest.raises(ApiError, match="not valid"):
        heard.extend(Events(client, pauses.append))
    connected, updated, deleted = EventKind.CONNECTED, EventKind.UPDATED, EventKind.DELETED
    assert [event.kind for event in heard] == [connected, updated, EventKind.HEARTBEAT, connected, deleted]
    assert heard[1].workspace is not None
    assert str(heard[4].id) == WORKSPACE_ID
    assert pauses == [0.5, 1.0, 2.0, 0.5], "it waits longer while nothing answers"
