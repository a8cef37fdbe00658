"""`codehub up` on real servers: it starts, answers, stops, and survives being killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import psycopg
import pytest

from codehub.client import Client
from tests.cli.codehub import STARTED, environment, running, running_from_nothing
from tests.embedded.prepared import prepared
from tests.embedded.support import copy_of, postgres_pids, processes_at, server_pids, valkey_pids
from tests.support import eventually, first_of


@pytest.fixture
def data(place: Path, used_data: Path) -> Path:
    return copy_of(used_data, place / "d")


def test_a_first_start_ends_with_a_url_that_answers(place: Path) -> None:
    with running_from_nothing(place / "d", place / "out") as codehub:
        assert codehub.get("/healthz") == (200, "ok\n")
        states = {name: found["state"] for name, found in codehub.dependencies().items()}
        assert states == dict.fromkeys(("postgresql", "redis", "coordinator", "archives", "process"), "up")
        assert "CodeHub" in codehub.get("/")[1]
        assert "Database …" in codehub.printed, "progress is shown"


@pytest.mark.parametrize("how", first_of([signal.SIGINT, signal.SIGTERM]))
def test_a_signal_stops_everything_in_order(data: Path, place: Path, how: signal.Signals) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
        assert codehub.stop(how) == 0
        assert codehub.printed.rstrip().endswith("Stopped.")
        assert "Traceback" not in codehub.printed
    assert processes_at(place) == []


@pytest.mark.parametrize("moment", first_of(["Preparing PostgreSQL", "Starting PostgreSQL", "preparing the schema"]))
def test_a_signal_during_the_start_stops_it_too(place: Path, moment: str) -> None:
    with running_from_nothing(place / "d", place / "out") as codehub:
        eventually(lambda: moment in codehub.printed, moment)
        assert codehub.stop() == 0
        assert "Traceback" not in codehub.printed
    with running(place / "d", place / "again") as codehub:
        assert codehub.is_ready()


@pytest.mark.exhaustive
def test_a_first_start_that_is_stopped_at_its_end_does_not_lose_the_password(place: Path) -> None:
    with running(place / "d", place / "out") as codehub:
        eventually(lambda: b"http://" in _lock(codehub.data), "HTTP is about to start", 60)
        found = re.search(rb"http://[a-z0-9.:]+", _lock(codehub.data))
        assert found
        with urlopen(found[0].decode() + "/healthz", timeout=30):
            assert codehub.stop() == 0
        first = codehub.printed
    with running(place / "d", place / "again") as codehub:
        assert codehub.is_ready()
        assert (first + codehub.printed).count("Password ") == 1, "whichever start made it has shown it"


def _lock(data: Path) -> bytes:
    return (data / "lock").read_bytes() if (data / "lock").exists() else b""


def test_a_terminal_that_went_away_does_not_keep_it_from_stopping(data: Path) -> None:
    settings = environment(CODEHUB_DATA_DIR=str(data), CODEHUB_PORT="0", CODEHUB_IMAGES="test")
    command = [sys.executable, "-m", "codehub", "up"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=settings) as process:
        assert process.stdout
        while b"URL" not in process.stdout.readline():
            pass
        process.stdout.close()
        process.terminate()
        assert process.wait(30) == 0


def test_after_kill_9_it_starts_again(data: Path, place: Path) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
        codehub.stop(signal.SIGKILL)
    with running(data, place / "again") as codehub:
        assert codehub.is_ready()


def test_after_kill_9_the_servers_go_by_themselves(data: Path, place: Path) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
        codehub.stop(signal.SIGKILL)
    eventually(lambda: server_pids(data) == [], "the servers are gone")


@pytest.mark.parametrize(("pids", "name"), [(postgres_pids, "PostgreSQL"), (valkey_pids, "Valkey")])
def test_a_server_killed_under_it_is_started_again(
    data: Path, place: Path, pids: Callable[[Path], list[int]], name: str
) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
        victim = min(pids(data))
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: "starting it again" in codehub.printed, "its death is told")
        eventually(lambda: pids(data) != [] and victim not in pids(data) and codehub.is_ready(), "all is well again")
        assert f"{name} stopped unexpectedly (killed by SIGKILL); starting it again" in codehub.printed
        assert codehub.stop() == 0
        assert "Traceback" not in codehub.printed


def test_it_runs_on_servers_of_others(place: Path, empty_database: str, server_redis: str) -> None:
    with running(place / "d", place / "out", DATABASE_URL=empty_database, REDIS_URL=server_redis) as codehub:
        assert codehub.is_ready()
        assert server_pids(place / "d") == []
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("SELECT count(*) FROM workspaces").fetchone() == (0,)


def test_a_database_that_is_slow_to_tell_whether_there_is_an_administrator_is_waited_for(
    place: Path, database: str, server_redis: str
) -> None:
    """Given up, a password whose commit was not answered in time would never be shown."""
    servers = {"DATABASE_URL": database, "REDIS_URL": server_redis}
    with psycopg.connect(database) as busy:
        busy.execute("LOCK TABLE users")
        with running(place / "d", place / "out", **servers) as codehub:
            eventually(lambda: "Trying again" in codehub.printed or codehub.process.poll() is not None, "it waits", 60)
            assert codehub.process.poll() is None, codehub.printed
            busy.rollback()
            assert codehub.is_ready()
            assert "Username   admin" in codehub.printed


def test_an_external_redis_that_is_away_is_reported_and_nothing_else_stops(place: Path, empty_database: str) -> None:
    with running(place / "d", place / "out", DATABASE_URL=empty_database, REDIS_URL="redis://127.0.0.1:1") as codehub:
        status, _ = codehub.get("/readyz")
        assert status == 503
        found = codehub.dependencies()
        assert found["redis"]["state"] == "down"
        assert found["postgresql"]["state"] == "up"
        assert codehub.get("/healthz")[0] == 200


def test_no_secret_is_printed(data: Path, place: Path) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
        secrets = [path.read_text().strip() for path in (data / "secrets").iterdir()]
        assert secrets
        for secret in secrets:
            assert secret not in codehub.printed


@pytest.mark.exhaustive
def test_two_data_directories_run_side_by_side(data: Path, place: Path, used_data: Path) -> None:
    other = copy_of(used_data, place / "e")
    with running(data, place / "out") as one, running(other, place / "out2") as two:
        assert one.is_ready()
        assert two.is_ready()
        assert one.url != two.url


def test_it_says_how_isolated_workspaces_are_and_what_to_do(data: Path, place: Path) -> None:
    with running(data, place / "out", PROCESS_SANDBOX="off") as codehub:
        assert codehub.is_ready(), "weak is not down"
        (line,) = [line for line in codehub.printed.splitlines() if line.startswith("Warning: Workspaces run without")]
        assert line.endswith("they can see this machine's files and reach its servers. Remove PROCESS_SANDBOX=off.")
        found = json.loads(codehub.get("/readyz")[1])
        assert "without a sandbox" in found["dependencies"]["process"]["detail"]
        assert "without a sandbox" in found["isolation"]["process"][0]


def test_what_is_out_at_the_start_is_reported_and_nothing_else_stops(data: Path, place: Path) -> None:
    away = {"ARCHIVE_URL": "s3://bucket", "S3_ENDPOINT": "http://127.0.0.1:1", "S3_ACCESS_KEY_ID": "me"}
    away |= {"S3_SECRET_ACCESS_KEY": "hunter2", "DOCKER_HOST": f"unix://{place}/nothing"}
    with running(data, place / "out", CODEHUB_BACKENDS="process,docker", **away) as codehub:
        found = codehub.dependencies()
        assert {name for name, state in found.items() if state["state"] == "down"} == {"archives", "docker"}
        assert "cannot be reached" in found["archives"]["detail"]
        assert "Warning: The backend docker does not work yet: " in codehub.printed
        assert codehub.get("/healthz")[0] == 200
        assert "hunter2" not in codehub.printed + str(found)
        assert codehub.stop() == 0


def offline(place: Path) -> dict[str, str]:
    """Nothing can be downloaded, and nothing was before."""
    return {"HTTPS_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1", "UV_CACHE_DIR": str(place / "uv"),
            "UV_HTTP_RETRIES": "0", "UV_INDEX_URL": "https://127.0.0.1:1/simple",
            "UV_NO_CONFIG": "1", "UV_FIND_LINKS": ""}  # fmt: skip


def test_a_first_start_that_gets_no_ide_ends_with_what_to_do(data: Path, place: Path) -> None:
    """Nobody could use a workspace."""
    given = {"CODEHUB_DATA_DIR": str(data), "CODEHUB_PORT": "0", "CODEHUB_IMAGES": "jupyterlab,code-server"}
    for _ in range(2):
        code, out, lines = ended(given | offline(place))
        (line,) = lines
        assert line.startswith("codehub: JupyterLab was not installed, and without an IDE no workspace can be used.")
        assert "It cannot be downloaded" in line
        assert line.endswith(" Check this machine's network (behind a proxy: HTTPS_PROXY) and try again.")
        assert code == 1
        assert STARTED.search(out) is None
    assert not (data / "ide/jupyterlab").exists()


@pytest.mark.parametrize("other", ["an IDE", "a workspace"])
def test_where_something_else_works_an_ide_that_cannot_be_downloaded_is_a_warning(
    data: Path, place: Path, other: str
) -> None:
    if other == "an IDE":
        (place / "code-server").write_text("#!/bin/sh\n")
        (place / "code-server").chmod(0o755)
    else:
        (data / "workspaces/homes/ws-x-home").mkdir()
    given = {"CODEHUB_IMAGES": "jupyterlab,code-server", "PATH": f"{place}:{os.environ['PATH']}"}
    with running(data, place / "out", **given, **offline(place)) as codehub:
        assert codehub.is_ready()
        assert "Warning: JupyterLab was not installed: It cannot be downloaded" in codehub.printed
        assert "codehub ide install jupyterlab" in codehub.printed
    assert not (data / "ide/jupyterlab").exists()


def test_a_first_start_on_which_no_workspace_can_live_ends_with_what_does_not_work(place: Path) -> None:
    data = prepared(place / "d")
    (data / "archives").mkdir()
    (data / "archives/archives").write_text("a file where the archives' folder should be")
    given = {"CODEHUB_DATA_DIR": str(data), "CODEHUB_PORT": "0", "CODEHUB_IMAGES": "test"}
    code, out, (line,) = ended(given)
    assert line.startswith("codehub: A home cannot be archived here: ")
    assert line.endswith(" `codehub doctor` makes the same check.")
    assert (code, STARTED.search(out)) == (1, None)
    doctor = subprocess.run(
        [sys.executable, "-m", "codehub", "doctor", "--json"], env=environment(**given),
        stdout=subprocess.PIPE, text=True, timeout=60, check=False,
    )  # fmt: skip
    (found,) = [each for each in json.loads(doctor.stdout) if "CH-RUN-1" in each.values()]
    assert doctor.returncode != 0
    assert "A home cannot be archived here" in str(found)


def ended(given: dict[str, str]) -> tuple[int, str, list[str]]:
    """Of a start that ends by itself: its exit code, its output, and what it told people on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "codehub", "up"],
        env=environment(**given), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if not line.startswith("{")]


def test_a_signal_while_an_ide_is_installed_stops_everything(data: Path, place: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # an index that takes connections and never answers
        settings = offline(place) | {"HTTPS_PROXY": "", "ALL_PROXY": ""}
        settings["UV_INDEX_URL"] = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        with running(data, place / "out", CODEHUB_IMAGES="jupyterlab", **settings) as codehub:
            connection, _ = silent.accept()
            with connection:
                assert codehub.stop() == 0
        assert codehub.printed.rstrip().endswith("Stopped.")
        assert "Traceback" not in codehub.printed
    assert not (data / "ide/jupyterlab").exists()
    assert processes_at(place) == []


def test_workspaces_go_on_and_whoever_stops_codehub_is_told(place: Path) -> None:
    password = "correct horse battery"
    with (
        running(place / "d", place / "out", CODEHUB_ADMIN_PASSWORD=password) as codehub,
        Client(codehub.url.rstrip("/")) as client,
    ):
        client.login("admin", password)
        made = client.create_workspace("thesis", desired_state="RUNNING")
        eventually(lambda: client.workspace(made.id).phase == "RUNNING", "it runs", 60)
        assert codehub.stop() == 0
    assert "1 workspace goes on running; the next start finds it." in codehub.printed
    with running(place / "d", place / "again") as codehub, Client(codehub.url.rstrip("/")) as client:
        client.login("admin", password)
        assert client.workspace(made.id).phase == "RUNNING"
        client.set_state(made.id, "STANDBY")
        eventually(lambda: client.workspace(made.id).phase == "STANDBY", "it is stopped", 60)
        assert codehub.stop() == 0
    assert "on running" not in codehub.printed
    assert processes_at(place) == []
