"""`codehub drill` on a real CodeHub: archives are restored for practice, and servers die under it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codehub.client import Client
from codehub.drivers.process.layout import HOMES_SIGN
from tests.cli.codehub import Codehub, _users, environment, failing, running
from tests.support import eventually, free_port

PASSWORD = "correct horse battery"


def command(data: Path, *arguments: str, **settings: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "codehub", *arguments],
        env=environment(CODEHUB_DATA_DIR=str(data), CODEHUB_IMAGES="test", **settings),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@contextmanager
def in_use(place: Path) -> Iterator[tuple[Codehub, Client]]:
    with (
        running(place / "d", place / "out", CODEHUB_ADMIN_PASSWORD=PASSWORD) as codehub,
        Client(codehub.url.rstrip("/")) as client,
    ):
        client.login("admin", PASSWORD)
        yield codehub, client


def test_going_back_in_time_is_for_test_installations(place: Path) -> None:
    code, out, error = command(place / "d", "drill", "time-travel")
    assert (code, out) == (2, "")
    assert "--yes-this-is-a-test-installation" in error
    assert not (place / "d").exists()


@pytest.mark.exhaustive
@pytest.mark.timeout(400)
def test_everything_comes_back_from_a_database_that_is_older(place: Path) -> None:
    """The newest home of each workspace, whatever the backup found it doing, although GC runs at once."""
    port = str(free_port())
    with running(place / "d", place / "out", CODEHUB_ADMIN_PASSWORD=PASSWORD, CODEHUB_PORT=port) as codehub:
        url = codehub.url.rstrip("/")
        with Client(url) as client:
            client.login("admin", PASSWORD)
            token = client.create_token("drill").token
    login = {"CODEHUB_URL": url, "CODEHUB_TOKEN": token, **_users()}
    done = subprocess.run(
        [sys.executable, "-m", "codehub", "drill", "time-travel", "--yes-this-is-a-test-installation", "--json"],
        env=environment(CODEHUB_DATA_DIR=str(place / "d"), CODEHUB_IMAGES="test", **login),
        capture_output=True,
        text=True,
        timeout=380,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told["workspaces"]) == 9
    assert [one["found"] for one in told["workspaces"]] == [one["written"] for one in told["workspaces"]]


def test_archives_are_restored_for_practice(place: Path) -> None:
    with in_use(place) as (_, client):
        made = [client.create_workspace(f"w{number}", desired_state="ARCHIVED") for number in range(2)]
        eventually(lambda: all(client.workspace(one.id).phase == "ARCHIVED" for one in made), "archived", 60)
        code, out, _ = command(place / "d", "drill", "restore", "--sample", "5", "--json")
        told = json.loads(out)
        assert (code, told["archives"], told["failed"], len(told["trials"])) == (0, 2, 0, 2)
        assert told["seconds_p95"] > 0
        homes = place / "d" / "workspaces" / "homes"
        assert [path.name for path in homes.iterdir()] == [HOMES_SIGN], "no scratch is left"
        archive = next((place / "d" / "archives").rglob("home.tar.zst"))
        content = bytearray(archive.read_bytes())
        content[-1] ^= 1
        archive.write_bytes(content)
        code, out, _ = command(place / "d", "drill", "restore")
        assert code == 1
        assert "1 of 2 restored and verified" in out
        assert [path.name for path in homes.iterdir()] == [HOMES_SIGN]
        assert [client.workspace(one.id).phase for one in made] == ["ARCHIVED"] * 2


@pytest.mark.exhaustive
def test_servers_die_and_users_notice_little(place: Path) -> None:
    with in_use(place) as (codehub, client):
        token = client.create_token("drill").token
        code, out, err = command(
            place / "d",
            "drill",
            "chaos",
            "--yes-this-is-a-test-installation",
            "--settle",
            "1",
            "--json",
            CODEHUB_URL=codehub.url,
            CODEHUB_TOKEN=token,
        )
        assert code == 0, (out, err)
        told = json.loads(out)
        assert [death["part"] for death in told["deaths"]] == ["postgresql", "valkey"]
        assert told["is_well"], told
        assert (told["lost_writes"], told["changed"]) == (False, {})
        assert codehub.process.poll() is None
        eventually(lambda: not list(client.workspaces()), "the drill's own workspace is gone", 60)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["chaos"], 2, "give --yes-this-is-a-test-installation"),
        (["chaos", "--yes-this-is-a-test-installation", "--kill", "x"], 1, "is not NAME=COMMAND"),
        (["chaos", "--yes-this-is-a-test-installation"], 1, "Nothing of this installation was found here"),
        (["restore", "--backend", "moon"], 2, "'moon' is not used here"),
    ],
)
def test_what_is_refused(place: Path, arguments: list[str], code: int, says: str) -> None:
    found, lines = failing("drill", *arguments, CODEHUB_DATA_DIR=str(place / "d"))
    assert (found, says in lines[-1]) == (code, True), lines
