"""What serves people leaves without being missed: it says so first, finishes what is under way, and ends streams."""

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from codehub.together import AGAIN_SECONDS
from tests.support import eventually, free_port
from tests.upgrade.parts import PASSWORD, TODAY, Installation, Part

LONG = "60"  # longer than any of these tests: what waits for it has not ended by itself

pytestmark = pytest.mark.timeout(180)


def says(client: httpx.Client) -> tuple[int, str]:
    answer = client.get("/readyz")
    return answer.status_code, answer.json()["status"]


@contextmanager
def caller(part: Part) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=part.url, timeout=20, trust_env=False) as client:
        yield client


def logged_in(client: httpx.Client) -> None:
    given = {"username": "admin", "password": PASSWORD}
    client.post("/api/v1/login", json=given).raise_for_status()


def is_refused(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((str(parts.hostname), int(parts.port or 0))) != 0


def test_an_api_says_that_it_leaves_and_takes_requests_meanwhile(here: Installation) -> None:
    api = here.start("api", CODEHUB_DRAIN_DELAY=LONG).is_ready()
    with caller(api) as client:
        logged_in(client)
        assert says(client) == (200, "ready")
        api.signal(signal.SIGTERM)
        eventually(lambda: says(client) == (503, "draining"), "it says so")
        answer = client.get("/api/v1/workspaces")
        assert answer.status_code == 200
        assert answer.headers["connection"] == "close", "the next request should go elsewhere"
        assert client.get("/healthz").status_code == 200, "it is not to be killed for it"
        api.signal(signal.SIGTERM)  # a second one does not wait
        assert api.ended() == 0, api.said


def test_ctrl_c_does_not_wait(here: Installation) -> None:
    api = here.start("api", CODEHUB_DRAIN_DELAY=LONG).is_ready()
    api.signal(signal.SIGINT)
    assert api.ended() == 0, api.said


def test_streams_end_in_order_and_requests_under_way_are_answered(here: Installation) -> None:
    api = here.start("api", CODEHUB_DRAIN_DELAY="0.5").is_ready()
    with caller(api) as client, caller(api) as listening:
        logged_in(client)
        listening.cookies = client.cookies
        with listening.stream("GET", "/api/v1/events", timeout=30) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry:"), "where to and when a client comes back is told at once"
            body = _SlowBody(b'{"name": "w", "desired_state": "STANDBY"}')
            answers: list[httpx.Response] = []
            asking = threading.Thread(target=lambda: answers.append(_create(client, body)))
            asking.start()
            body.begun.wait(20)
            api.signal(signal.SIGTERM)
            list(lines)  # raises if the stream is cut off instead of ended
            eventually(lambda: is_refused(api.url), "nothing new is taken")
            with pytest.raises(subprocess.TimeoutExpired):  # it waits for the request, however often it is told to end
                api.process.wait(3 * AGAIN_SECONDS)
            body.rest.set()
            asking.join(20)
            assert [answer.status_code for answer in answers] == [201], api.said
    assert api.ended() == 0, api.said


def test_a_request_that_does_not_end_does_not_keep_it(here: Installation) -> None:
    api = here.start("api", CODEHUB_DRAIN_REQUESTS="1").is_ready()
    with caller(api) as client, socket.create_connection(("127.0.0.1", urlsplit(api.url).port or 0)) as endless:
        logged_in(client)
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        head = f"POST /api/v1/workspaces HTTP/1.1\r\nHost: {urlsplit(api.url).netloc}\r\nCookie: {cookies}\r\n"
        endless.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
        assert says(client)[0] == 200
        at = time.monotonic()
        api.signal(signal.SIGTERM)
        assert api.ended() == 0, api.said
        assert time.monotonic() - at < 8


class _SlowBody:
    """Its second half waits to be let go."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.begun, self.rest = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        yield self._body[:5]
        self.begun.set()
        self.rest.wait(30)
        yield self._body[5:]


def _create(client: httpx.Client, body: _SlowBody) -> httpx.Response:
    headers = {"Content-Type": "application/json", "Origin": str(client.base_url).rstrip("/")}
    return client.post("/api/v1/workspaces", content=body, headers=headers)


@contextmanager
def echoing() -> Iterator[str]:
    """The address of something that answers WebSockets."""

    def echo(connection: ServerConnection) -> None:
        for message in connection:
            connection.send(message)

    with serve(echo, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            host, port = server.socket.getsockname()
            yield f"{host}:{port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.exhaustive
def test_a_proxy_keeps_websockets_until_its_limit(here: Installation) -> None:
    api = here.start("api", CODEHUB_TRUSTED_PROXIES="127.0.0.0/8").is_ready()
    health = free_port()
    given = {"CODEHUB_API_URL": api.url, "CODEHUB_HEALTH_PORT": str(health)}
    limits = {"CODEHUB_DRAIN_DELAY": "1", "CODEHUB_DRAIN_WEBSOCKETS": "3"}
    proxy = here.start("proxy", TODAY, **given, **limits).is_ready()
    ready = f"http://127.0.0.1:{health}/readyz"
    eventually(lambda: httpx.get(ready, trust_env=False).status_code == 200, "it has reached its database")
    with here.client(proxy.url) as client, echoing() as address:
        token = client.create_token("t").token
        made = client.create_workspace("w", desired_state="RUNNING")
        with psycopg.connect(here.database) as conn:  # no coordinator: this one is told to run where the echo is
            conn.execute(
                "UPDATE workspaces SET phase = 'RUNNING', endpoint = %s, op_id = id WHERE id = %s", [address, made.id]
            )
        url = f"{proxy.url.replace('http', 'ws')}/w/{made.id}/"
        with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as websocket:
            at = time.monotonic()
            proxy.signal(signal.SIGTERM)
            eventually(lambda: httpx.get(ready, trust_env=False).status_code == 503, "it says that it leaves")
            assert not is_refused(proxy.url), "and takes connections meanwhile"
            eventually(lambda: is_refused(proxy.url), "it takes no more")
            websocket.send("still there")
            assert websocket.recv(10) == "still there"
            with pytest.raises(ConnectionClosed):
                websocket.recv(20)
            assert 3 < time.monotonic() - at < 15
    assert proxy.ended() == 0, proxy.said
    api.stop()
