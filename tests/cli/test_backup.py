"""`codehub backup` and `codehub restore` as a person uses them, beside a running CodeHub and on one that is stopped."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.client import Client
from tests.cli.codehub import Codehub, environment, failing, running
from tests.embedded.support import copy_of, server_pids
from tests.support import eventually

ADMIN = {"CODEHUB_ADMIN_PASSWORD": "correct horse battery"}


@pytest.fixture
def data(place: Path, used_data: Path) -> Path:
    return copy_of(used_data, place / "d")


def command(data: Path, *arguments: str, **settings: str) -> str:
    """What a command that works prints."""
    done = subprocess.run(
        [sys.executable, "-m", "codehub", *arguments],
        env=environment(CODEHUB_DATA_DIR=str(data), CODEHUB_IMAGES="test", **settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
def test_beside_a_running_codehub_and_into_a_new_one(place: Path) -> None:
    data, file, new = place / "d", place / "codehub.backup", place / "e"
    with ExitStack() as stack, running(data, place / "out", **ADMIN) as codehub:
        client = stack.enter_context(_admin(codehub))
        made = client.create_workspace("kept", desired_state="ARCHIVED")
        eventually(lambda: client.workspace(made.id).phase == "ARCHIVED", "it is archived", 60)
        assert "1 user, 1 workspace that needs 1 archive," in command(data, "backup", str(file))
        since = client.create_workspace("made since", desired_state="ARCHIVED")
        eventually(lambda: client.workspace(since.id).phase == "ARCHIVED", "it is archived", 60)
        code, lines = failing("restore", str(file), "--force", "--yes", CODEHUB_DATA_DIR=str(data))
        assert code == 1
        assert "already running" in lines[-1]
    told = json.loads(command(new, "restore", str(file), "--json", ARCHIVE_URL=(data / "archives").as_uri()))
    assert (told["counts"]["workspaces"], told["missing"]) == (1, [])
    ((strange,),) = [[one["key"] for one in told["newer"]]]
    assert strange.startswith(str(since.id))
    assert server_pids(new) == [], "nothing is left running"
    archives = {"ARCHIVE_URL": (data / "archives").as_uri()}
    with ExitStack() as stack, running(new, place / "again", **ADMIN, **archives) as codehub:
        client = stack.enter_context(_admin(codehub))
        assert client.workspace(made.id).phase == "ARCHIVED"
        command(new, "adopt", strange, "--owner", "admin", "--name", "back", ARCHIVE_URL=(data / "archives").as_uri())
        eventually(
            lambda: {one.name: one.phase for one in client.workspaces()} == {"kept": "ARCHIVED", "back": "ARCHIVED"},
            "both are there",
            60,
        )


def test_a_codehub_that_is_stopped(data: Path, place: Path) -> None:
    file = place / "codehub.backup"
    assert "1 user, 0 workspaces" in command(data, "backup", str(file))
    assert server_pids(data) == []
    code, lines = failing("restore", str(file), CODEHUB_DATA_DIR=str(data))
    assert code == 1
    assert "The database is not empty: it holds 1 users and 0 workspaces." in lines[-1]
    code, lines = failing("restore", str(file), "--force", CODEHUB_DATA_DIR=str(data))
    assert (code, "Give --yes." in lines[-1]) == (2, True)
    assert command(data, "restore", str(file), "--force", "--yes").startswith("Restored: 1 users and 0 workspaces")
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()


def test_an_archive_store_that_another_installation_has_marked(data: Path, place: Path) -> None:
    marker = data / "archives/archives/.codehub-owner"
    with running(data, place / "out") as codehub:
        eventually(marker.exists, "the store is marked")
        assert codehub.is_ready()
    others = json.loads(marker.read_text()) | {"token": str(uuid4()), "holder": "there:1"}
    marker.write_text(json.dumps(others))
    with running(data, place / "again") as codehub:
        eventually(lambda: "there:1" in codehub.get("/readyz")[1], "it is told", 30)
        assert json.loads(command(data, "take-over", "--yes", "--json"))["marked_by"] == "there:1"
        assert json.loads(marker.read_text())["token"] != others["token"]
        eventually(lambda: "there:1" not in codehub.get("/readyz")[1], "it is this one's", 30)


def test_what_cannot_be_backed_up_is_said_in_a_line(place: Path) -> None:
    code, lines = failing("backup", str(place / "file"), CODEHUB_DATA_DIR=str(place / "nothing"))
    assert code == 1
    assert lines[-1].startswith("codehub: There is no database in ")
    assert not (place / "nothing").exists()
    code, lines = failing("restore", str(place / "absent"), CODEHUB_DATA_DIR=str(place / "new"))
    assert code == 1
    assert len(lines) == 1
    assert "cannot be read" in lines[0]
    (place / "notes").write_text("no backup")
    code, lines = failing("restore", str(place / "notes"), CODEHUB_DATA_DIR=str(place / "new"))
    assert (code, len(lines)) == (1, 1)
    assert not (place / "new").exists(), "no database is made for what is no backup"
    code, lines = failing("adopt", "x", "--owner", "admin")
    assert (code, "is not an archive key" in lines[-1]) == (1, True)


def _admin(codehub: Codehub) -> Client:
    client = Client(codehub.url.rstrip("/"))
    client.login("admin", ADMIN["CODEHUB_ADMIN_PASSWORD"])
    return client
