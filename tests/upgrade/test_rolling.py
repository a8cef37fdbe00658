"""A rolling upgrade while people work: fifty workspaces start while every part is replaced by the next version's."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from codehub.client import ApiError, Client
from tests.support import again_and_again, eventually
from tests.upgrade.parts import TODAY, Installation, Part, installation
from tests.upgrade.versions import next_version

WORKSPACES = 50
PEOPLE = 4
PAUSE_SECONDS = 0.2  # between two requests of somebody who looks on

pytestmark = pytest.mark.timeout(600)


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


def test_fifty_workspaces_start_while_everything_is_replaced(busy: Installation, folder: Path) -> None:
    other = next_version(folder)
    apis = [busy.start("api").is_ready(), busy.start("api").is_ready()]
    coordinators = [busy.start("coordinator").is_ready(), busy.start("coordinator").is_ready()]
    proxy = busy.start("proxy", TODAY, CODEHUB_API_URL=",".join(each.url for each in apis)).is_ready()

    def replaced_api(old: Part) -> Part:
        old.stop()
        return busy.start("api", other, CODEHUB_PORT=str(urlsplit(old.url).port)).is_ready()

    def replaced_coordinator(old: Part) -> Part:
        new = busy.start("coordinator", other).is_ready()
        old.stop()
        return new

    with (
        busy.client(proxy.url) as client,
        busy.client(proxy.url) as another,
        again_and_again(lambda: look(another), PAUSE_SECONDS) as seen,
        ThreadPoolExecutor(PEOPLE) as pool,
    ):
        making = [pool.submit(_make, client, number) for number in range(WORKSPACES)]
        eventually(lambda: any(each.done() for each in making), "the first is made", 60)
        done = other.run("migrate", **busy.environment)
        assert done.returncode == 0, done.stderr
        apis = [replaced_api(each) for each in apis]
        coordinators = [replaced_coordinator(each) for each in coordinators]
        made = {each.result(60) for each in making}
        assert len(made) == WORKSPACES

        def all_run() -> bool:
            return sum(1 for each in client.workspaces() if each.phase == "RUNNING") == WORKSPACES

        eventually(all_run, "all run", 300)
    assert set(seen) == {"answers"}, seen
    with psycopg.connect(busy.database) as conn:
        failed = conn.execute("SELECT name, error_reason FROM workspaces WHERE phase <> 'RUNNING' OR error_count > 0")
        assert failed.fetchall() == []
        errors = conn.execute("SELECT count(*) FROM workspace_history WHERE phase = 'ERROR'")
        assert errors.fetchone() == (0,)
    for part in (proxy, *apis):
        part.signal(signal.SIGTERM)
    for part in (proxy, *apis):
        assert part.ended() == 0, part.said


def _make(client: Client, number: int) -> str:
    return str(client.create_workspace(f"w{number}", desired_state="RUNNING").id)
