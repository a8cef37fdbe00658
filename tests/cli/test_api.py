"""`codehub api`: API processes of their own, beside each other, on servers that run elsewhere."""

import contextlib
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest

from codehub.cli.coordinator import health_listener
from codehub.client import ApiError, Client
from codehub.config import Settings
from tests.cli.codehub import environment, failing
from tests.support import eventually, free_port

PASSWORD = re.compile(r"Username +admin\n +Password +in (\S+)")
URL = re.compile(r"running at (http://\S+)/\.")


@contextmanager
def api(output: Path, **settings: str) -> Iterator[str]:
    """The URL of one that runs; afterwards it has stopped in order."""
    with starting(output, CODEHUB_PORT="0", **settings) as process:
        eventually(lambda: bool(URL.search(output.read_text())) or process.poll() is not None, "a URL", 60)
        found = URL.search(output.read_text())
        assert found, output.read_text()
        yield found[1]
        process.terminate()
        assert process.wait(30) == 0, output.read_text()
        assert "Stopped." in output.read_text()


@contextmanager
def starting(output: Path, **settings: str) -> Iterator["subprocess.Popen[bytes]"]:
    """One that may not serve yet, or never will; afterwards it is gone."""
    with output.open("w") as out:
        command = [sys.executable, "-m", "codehub", "api"]
        given = environment(**{"CODEHUB_DATA_DIR": f"{output}.d", **settings})
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=given)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.exhaustive
def test_two_beside_each_other(tmp_path: Path, database: str, server_redis: str) -> None:
    settings = {"DATABASE_URL": database, "REDIS_URL": server_redis}
    with api(tmp_path / "a", **settings) as first, api(tmp_path / "b", **settings) as second:
        admin = PASSWORD.search((tmp_path / "a").read_text())
        assert admin, "the first one makes an administrator"
        assert not PASSWORD.search((tmp_path / "b").read_text())
        with Client(second) as client:
            assert client.login("admin", Path(admin[1]).read_text().strip()).role == "admin"
        for url in (first, second):
            with Client(url) as client:
                told, _ = client.readiness()
                assert told["status"] == "ready"
                with pytest.raises(ApiError) as refused:
                    client.session()
                assert refused.value.status == 401


def test_its_metrics_are_at_a_port_of_their_own_too(tmp_path: Path, database: str, server_redis: str) -> None:
    """The API's own port is the public one's way in, where they are not for everybody."""
    port = free_port()
    servers = {"DATABASE_URL": database, "REDIS_URL": server_redis}
    settings = {**servers, "CODEHUB_HEALTH_PORT": str(port), "CODEHUB_HEALTH_NETWORKS": "192.0.2.0/24"}
    with api(tmp_path / "a", **settings) as url:
        assert httpx.get(f"{url}/metrics", trust_env=False).status_code == 403
        told = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
        assert 'route="/metrics",status="403"} 1.0' in told, "of the process, not of the port"
        assert "codehub_streams_deaf" in told
        ready = httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).json()
        assert ready["dependencies"]["postgresql"]["state"] == "up"


def test_while_it_waits_for_the_first_administrator_it_takes_no_requests(
    tmp_path: Path, database: str, server_redis: str
) -> None:
    """Whoever shares requests out goes to another API at once; taken and not answered, they would hang."""
    port, health, output = free_port(), free_port(), tmp_path / "a"
    ports = {"CODEHUB_PORT": str(port), "CODEHUB_HEALTH_PORT": str(health)}

    def told(path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{health}{path}", trust_env=False, timeout=10)

    with psycopg.connect(database) as busy:
        busy.execute("LOCK TABLE users")
        with starting(output, DATABASE_URL=database, REDIS_URL=server_redis, **ports):
            eventually(lambda: "Trying again" in output.read_text(), "it waits", 60)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", port), timeout=10)
            assert told("/healthz").status_code == 200, "it is alive"
            waiting = told("/readyz")
            assert waiting.status_code == 503
            assert waiting.json()["dependencies"]["administrator"]["state"] == "down"
            busy.rollback()
            eventually(lambda: bool(PASSWORD.search(output.read_text())), "an administrator", 60)
            assert httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).status_code == 200
            eventually(lambda: told("/readyz").status_code == 200, "it is ready", 30)


@pytest.mark.exhaustive
def test_a_port_that_another_program_took_while_it_waited_is_told(
    tmp_path: Path, database: str, server_redis: str
) -> None:
    port, output = free_port(), tmp_path / "a"
    with psycopg.connect(database) as busy:
        busy.execute("LOCK TABLE users")
        with (
            starting(output, DATABASE_URL=database, REDIS_URL=server_redis, CODEHUB_PORT=str(port)) as process,
            contextlib.closing(socket.socket()) as other,
        ):
            eventually(lambda: "Trying again" in output.read_text(), "it waits", 60)
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as another `codehub api` does
            other.bind(("127.0.0.1", port))
            other.listen()
            busy.rollback()
            assert process.wait(60) == 1
    last = output.read_text().splitlines()[-1]
    assert last.startswith(f"codehub: Port {port} on 127.0.0.1 is already in use."), output.read_text()
    assert "Traceback" not in output.read_text()
    assert PASSWORD.search(output.read_text()), "it was made, and is not shown again"


@pytest.mark.parametrize(
    ("given", "answers", "refuses"),
    [
        ({}, ["127.0.0.1"], ["127.0.0.2"]),
        ({"CODEHUB_HEALTH_HOST": "127.0.0.2"}, ["127.0.0.2"], ["127.0.0.1"]),
        ({"CODEHUB_HEALTH_HOST": "0.0.0.0"}, ["127.0.0.1", "127.0.0.2"], []),
    ],
)
def test_a_health_port_is_for_this_machine_unless_an_address_is_given(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], answers: list[str], refuses: list[str]
) -> None:
    """Of every command that has one."""
    for name, value in {"CODEHUB_HEALTH_PORT": "0", **given}.items():
        monkeypatch.setenv(name, value)
    with health_listener(Settings.load()) as listener:
        assert listener is not None
        port = listener.getsockname()[1]
        for host in answers:
            socket.create_connection((host, port), timeout=10).close()
        for host in refuses:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, port), timeout=10)


@pytest.mark.parametrize("missing", ["DATABASE_URL", "REDIS_URL"])
def test_it_has_no_servers_of_its_own(missing: str) -> None:
    given = {"DATABASE_URL": "postgresql://h/d", "REDIS_URL": "redis://h"}
    del given[missing]
    code, lines = failing("api", **given)
    assert (code, len(lines)) == (1, 1)
    assert lines[0].startswith(f"codehub: {missing} is not set.")


def test_a_database_that_was_not_migrated(empty_database: str, server_redis: str) -> None:
    code, lines = failing("api", DATABASE_URL=empty_database, REDIS_URL=server_redis, CODEHUB_PORT="0")
    assert (code, len(lines)) == (1, 1), lines
    assert "codehub migrate" in lines[0]
