"""The folder of the homes goes away and comes back, as a disk does: an outage that loses nothing and ends by itself."""

import json
from pathlib import Path

import pytest

from codehub.client import Client
from tests.cli.codehub import Codehub, failing, running
from tests.cli.test_relocating import Visit, client_of, home_of, reach, running_workspace
from tests.support import eventually

__all__ = ["client_of"]  # a fixture


def process_of(codehub: Codehub) -> dict[str, str]:
    return codehub.dependencies()["process"]


def phases(client: Client) -> set[str]:
    return {one.phase for one in client.workspaces()}


@pytest.mark.parametrize("gone", ["workspaces", "workspaces/homes"])
@pytest.mark.parametrize("is_empty", [False, True], ids=["missing", "an empty mount point"])
def test_workspaces_wait_for_it(place: Path, client_of: Visit, gone: str, is_empty: bool) -> None:
    data = place / "d"
    with running(data, place / "out") as codehub:
        client = client_of(codehub)
        workspace = running_workspace(client)
        (home_of(data) / "file").write_text("here")
        reach(client, workspace, "STANDBY")

        (data / gone).rename(place / "away")
        if is_empty:
            (data / gone).mkdir()
        eventually(lambda: process_of(codehub)["state"] == "down", "/readyz says so")
        assert str(data / "workspaces") in json.dumps(process_of(codehub))
        client.set_state(workspace, "RUNNING")
        eventually(lambda: client.workspace(workspace).desired_state == "RUNNING", "it is asked for")
        other = client.create_workspace("other", desired_state="RUNNING").id
        for _ in range(20):  # looks, each of which could be the one that takes it for lost
            assert "ERROR" not in phases(client)
            assert process_of(codehub)["state"] == "down"

        if is_empty:
            (data / gone).rmdir()
        (place / "away").rename(data / gone)
        eventually(lambda: phases(client) == {"RUNNING"}, "they go on by themselves", 60)
        assert (data / "workspaces" / "homes" / f"ws-{workspace}-home").is_dir()
        assert any(path.read_text() == "here" for path in (data / "workspaces/homes").glob("*/*/file"))
        eventually(lambda: process_of(codehub)["state"] == "up", "/readyz says so, too")
        for one in (workspace, other):
            reach(client, one, "STANDBY")


@pytest.mark.parametrize("is_empty", [False, True], ids=["missing", "an empty mount point"])
def test_nothing_starts_without_it(place: Path, is_empty: bool) -> None:
    data = place / "d"
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
    homes = data / "workspaces" / "homes"
    homes.rename(place / "away")
    if is_empty:
        homes.mkdir()
    code, (line,) = failing("up", CODEHUB_DATA_DIR=str(data), CODEHUB_PORT="0")
    assert code == 1
    assert "Is its disk mounted?" in line
    assert homes.exists() == is_empty, "none is made"
