"""A rolling upgrade while people work: fifty workspaces start while every part is replaced by the next version's."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from websockets.sync.client import connect

from codehub.client import ApiError, Client
from tests.support import again_and_again, eventually, free_port
from tests.upgrade.balancer import Balancer, Target, balancing
from tests.upgrade.parts import TODAY, Installation, Part, Version, installation
from tests.upgrade.versions import next_version

WORKSPACES = 50
PEOPLE = 4
TABS = 4  # WebSockets that stay open all the while, and through whichever proxy they came
# Longer than the test: proxies that end before have ended because the last WebSocket was closed.
DRAIN = {"CODEHUB_DRAIN_DELAY": "2", "CODEHUB_DRAIN_WEBSOCKETS": "600"}
PAUSE_SECONDS = 0.2  # between two requests of somebody who looks on

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(600)]


@pytest.fixture
def busy(folder: Path, database: str, server_redis: str) -> Iterator[Installation]:
    many = {"MAX_RUNNING_PER_USER": str(WORKSPACES), "MAX_RUNNING_GLOBAL": str(WORKSPACES)}
    drain = {"CODEHUB_DRAIN_DELAY": "0.5", "CODEHUB_TRUSTED_PROXIES": "127.0.0.0/8"}
    with installation(folder, database, server_redis, **many, **drain) as made:
        yield made


def look(client: Client) -> str:
    try:
        sum(1 for _ in client.workspaces())
    except ApiError as error:
        return str(error)
    return "answers"


@dataclass
class Proxies:
    """Those that lead to the APIs, behind one address."""

    here: Installation
    front: Balancer
    apis: str
    behind: list[tuple[Part, Target]] = field(default_factory=list)

    def start(self, version: Version) -> tuple[Part, Target]:
        health = str(free_port())
        part = self.here.start("proxy", version, CODEHUB_API_URL=self.apis, CODEHUB_HEALTH_PORT=health, **DRAIN)
        return part, self.front.add(part.is_ready().url, f"http://127.0.0.1:{health}/readyz")

    def replace_all(self, version: Version) -> list[Part]:
        """Start a new one, tell an old one to go; those that were told so."""
        leaving = []
        for number, (old, target) in enumerate(list(self.behind)):
            self.behind[number] = self.start(version)
            old.signal(signal.SIGTERM)
            target.is_left()
            leaving.append(old)
        return leaving


class Terminal:
    """A WebSocket to a workspace, as an open tab has one."""

    def __init__(self, stack: ExitStack, url: str, identity: str, token: str) -> None:
        given = {"Authorization": f"Bearer {token}"}
        self._socket = stack.enter_context(
            connect(f"{url.replace('http', 'ws')}/w/{identity}/echo", additional_headers=given, proxy=None)
        )

    def answers(self, word: str) -> bool:
        self._socket.send(word)
        return self._socket.recv(20) == word

    def close(self) -> None:
        self._socket.close()


def test_fifty_workspaces_start_while_everything_is_replaced(busy: Installation, folder: Path) -> None:
    other = next_version(folder)
    apis = [busy.start("api").is_ready(), busy.start("api").is_ready()]
    coordinators = [busy.start("coordinator").is_ready(), busy.start("coordinator").is_ready()]

    def replaced_api(old: Part) -> Part:
        old.stop()
        return busy.start("api", other, CODEHUB_PORT=str(urlsplit(old.url).port)).is_ready()

    def replaced_coordinator(old: Part) -> Part:
        new = busy.start("coordinator", other).is_ready()
        old.stop()
        return new

    with ExitStack() as stack:
        front = stack.enter_context(balancing())
        proxies = Proxies(busy, front, ",".join(each.url for each in apis))
        proxies.behind = [proxies.start(TODAY) for _ in range(2)]
        client = stack.enter_context(busy.client(front.url))
        token = client.create_token("t").token
        another = stack.enter_context(busy.client(front.url))
        seen = stack.enter_context(again_and_again(lambda: look(another), PAUSE_SECONDS))
        pool = stack.enter_context(ThreadPoolExecutor(PEOPLE))
        open_already = [_make(client, number) for number in range(TABS)]
        eventually(lambda: _running(client) == TABS, "the first ones run", 120)
        tabs = [Terminal(stack, front.url, each, token) for each in open_already]
        assert all(tab.answers("before") for tab in tabs)

        making = [pool.submit(_make, client, number) for number in range(TABS, WORKSPACES)]
        eventually(lambda: any(each.done() for each in making), "one more is made", 60)
        done = other.run("migrate", **busy.environment)
        assert done.returncode == 0, done.stderr
        apis = [replaced_api(each) for each in apis]
        coordinators = [replaced_coordinator(each) for each in coordinators]
        leaving = proxies.replace_all(other)
        made = {*open_already, *(each.result(60) for each in making)}
        assert len(made) == WORKSPACES
        eventually(lambda: _running(client) == WORKSPACES, "all run", 300)

        assert all(old.lives for old in leaving), "they stay for the tabs that are open"
        assert all(tab.answers("after") for tab in tabs)
        assert Terminal(stack, front.url, open_already[0], token).answers("anew")
        for tab in tabs:
            tab.close()
        assert [old.ended() for old in leaving] == [0, 0], [old.said for old in leaving]
    assert set(seen) == {"answers"}, seen
    with psycopg.connect(busy.database) as conn:
        failed = conn.execute("SELECT name, error_reason FROM workspaces WHERE phase <> 'RUNNING' OR error_count > 0")
        assert failed.fetchall() == []
        errors = conn.execute("SELECT count(*) FROM workspace_history WHERE phase = 'ERROR'")
        assert errors.fetchone() == (0,)
    parts = [*(part for part, _ in proxies.behind), *apis, *coordinators]
    for part in parts:
        part.signal(signal.SIGTERM)
    for part in parts:
        assert part.ended() == 0, part.said


def _make(client: Client, number: int) -> str:
    return str(client.create_workspace(f"w{number}", desired_state="RUNNING").id)


def _running(client: Client) -> int:
    return sum(1 for each in client.workspaces() if each.phase == "RUNNING")
