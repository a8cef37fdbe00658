"""A data directory that was copied touches nothing of its original; one that was moved or restored goes on."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import UUID

import pytest

from codehub.client import Client
from codehub.embedded.directory import FILE
from tests.cli.codehub import Codehub, failing, running, running_from_nothing
from tests.cli.test_start import at_a_terminal
from tests.embedded.support import copy_of, processes_at
from tests.support import eventually, first_of

UTF8 = {"LANG": "C.UTF-8", "TERM": "xterm"}


Visit = Callable[..., Client]


@pytest.fixture
def client_of() -> Iterator[Visit]:
    """An administrator."""
    with ExitStack() as clients:

        def visit(codehub: Codehub) -> Client:
            assert codehub.is_ready()
            client = clients.enter_context(Client(codehub.url))
            client.login("admin", codehub.password)
            return client

        yield visit


def is_in(client: Client, workspace: UUID, phase: str) -> bool:
    found = client.workspace(workspace)
    assert found.phase != "ERROR", found
    return found.phase == phase and found.operation == "NONE"


def running_workspace(client: Client, name: str = "w") -> UUID:
    workspace = client.create_workspace(name, desired_state="RUNNING").id
    eventually(lambda: is_in(client, workspace, "RUNNING"), "it runs", 60)
    return workspace


def reach(client: Client, workspace: UUID, phase: str) -> None:
    client.set_state(workspace, phase)
    eventually(lambda: is_in(client, workspace, phase), f"the workspace is {phase}", 60)


def home_of(data: Path) -> Path:
    (home,) = (data / "workspaces" / "homes").glob("*/*")
    return home


def processes_of(data: Path) -> set[int]:
    """What its workspaces run, as the records there say."""
    records = (data / "workspaces").glob("*/ws-*/process.json")
    return {pid for pid in (json.loads(path.read_text())["pid"] for path in records) if is_alive(pid)}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def frozen(data: Path) -> Iterator[None]:
    """Its servers write nothing meanwhile: what is copied is what a snapshot of the disk would be."""
    pids = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _works_in(folder, data)]
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _works_in(process: Path, data: Path) -> bool:
    with suppress(OSError):
        return (process / "cwd").readlink() in (data / "postgres", data / "valkey")
    return False


def copy(data: Path, target: Path) -> None:
    """As a person does it; sockets cannot be copied by all tools, and are of no use."""
    subprocess.run(["cp", "-a", str(data), str(target)], check=True)


@pytest.mark.parametrize("sandbox", first_of(["off", "auto"]))
def test_a_copy_beside_its_original_touches_nothing_of_it(place: Path, sandbox: str, client_of: Visit) -> None:
    data, twin = place / "d", place / "twin"
    with running(data, place / "out", PROCESS_SANDBOX=sandbox) as original:
        client = client_of(original)
        archived, live = running_workspace(client, "archived"), running_workspace(client, "live")
        reach(client, archived, "ARCHIVED")
        (home_of(data) / "file").write_text("the original's")
        pids = processes_of(data)
        archives = sorted((data / "archives").rglob("*"))
        assert pids
        assert archives
        with frozen(data):
            copy(data, twin)

        code, (line,) = failing("up", CODEHUB_DATA_DIR=str(twin), CODEHUB_PORT="0", PROCESS_SANDBOX=sandbox)
        assert code == 1
        assert f"The data directory {twin} was at {data} at its last start" in line
        assert "--moved" in line
        assert "--copied" in line
        moved = failing("up", "--moved", CODEHUB_DATA_DIR=str(twin), CODEHUB_PORT="0", PROCESS_SANDBOX=sandbox)
        assert moved[0] == 1
        assert f"CodeHub is running on {data}" in moved[1][0]

        with running(twin, place / "twin.out", "--copied", PROCESS_SANDBOX=sandbox) as other:
            theirs = client_of(other)
            eventually(lambda: is_in(theirs, live, "RUNNING"), "the copy runs one of its own", 60)
            assert processes_of(twin).isdisjoint(pids)
            (home_of(twin) / "file").write_text("the copy's")
            reach(theirs, live, "ARCHIVED")
            theirs.delete_workspace(archived, purge=True, confirm=True)
            theirs.delete_workspace(live, purge=True, confirm=True)
            eventually(lambda: not processes_of(twin), "nothing of the copy's runs")
            run = theirs.request_gc()
            eventually(lambda: any(one.id == run and one.finished_at for one in theirs.gc_runs()), "it collected")

        assert all(map(is_alive, pids))
        assert sorted((data / "archives").rglob("*")) == archives
        assert (home_of(data) / "file").read_text() == "the original's"
        assert is_in(client, live, "RUNNING")
        reach(client, live, "STANDBY")
    with running(twin, place / "again", PROCESS_SANDBOX=sandbox) as other:
        assert other.is_ready(), "it was said once"


def test_a_directory_that_was_renamed_keeps_what_runs(place: Path, client_of: Visit) -> None:
    data, target = place / "d", place / "renamed"
    with running(data, place / "out") as codehub:
        client = client_of(codehub)
        workspace = running_workspace(client)
    pids = processes_of(data)
    data.rename(target)
    with running(target, place / "again") as codehub:
        client = client_of(codehub)
        assert is_in(client, workspace, "RUNNING")
        assert processes_of(target) == pids
        reach(client, workspace, "STANDBY")
    assert json.loads((target / FILE).read_text())["path"] == str(target)


@pytest.mark.parametrize("target", ["d", "elsewhere"])
def test_a_directory_that_was_restored_needs_no_word(place: Path, target: str) -> None:
    """From a backup of files, to where it was or to another place, once the original is gone."""
    with running(place / "d", place / "out") as codehub:
        assert codehub.is_ready()
    copy(place / "d", place / "backup")
    shutil.rmtree(place / "d")
    (place / "backup").rename(place / target)
    with running_from_nothing(place / target, place / "again") as codehub:
        assert codehub.is_ready()
        assert f"it is used from {place / target} now" in codehub.printed


def test_a_directory_is_not_moved_from_under_its_workspaces(place: Path, client_of: Visit) -> None:
    """Adopted, they would go on writing into homes that are not in it."""
    data, target = place / "d", place / "moved"
    with running(data, place / "out") as codehub:
        client = client_of(codehub)
        workspace = running_workspace(client)
    pids = processes_of(data)
    copy(data, target)
    code, (line,) = failing("up", "--moved", CODEHUB_DATA_DIR=str(target), CODEHUB_PORT="0")
    assert code == 1
    assert f"Workspaces that were started from {data} still run" in line
    assert all(map(is_alive, pids))
    with running(data, place / "again") as codehub:
        client = client_of(codehub)
        reach(client, workspace, "STANDBY")
    with running(target, place / "moved.out", "--moved") as codehub:
        client = client_of(codehub)
        reach(client, workspace, "STANDBY")


def test_a_copy_uses_nothing_outside_that_its_original_uses(place: Path, used_data: Path) -> None:
    data, store = copy_of(used_data, place / "d"), place / "store"
    settings = {"ARCHIVE_URL": store.as_uri()}
    with running(data, place / "out", **settings) as codehub:
        assert codehub.is_ready()
    copy(data, place / "twin")
    shutil.rmtree(data)  # it may be on a disk that is not mounted now
    given = {"CODEHUB_DATA_DIR": str(place / "twin"), "CODEHUB_PORT": "0"}
    assert "--copied" in failing("up", **given, **settings)[1][0]
    code, (line,) = failing("up", "--copied", **given, **settings)
    assert code == 1
    assert "A copy cannot use what its original uses: ARCHIVE_URL." in line
    with running(place / "twin", place / "again", "--copied", ARCHIVE_URL=(place / "other").as_uri()) as codehub:
        assert codehub.is_ready()


@pytest.mark.parametrize("answer", ["moved", "copied"])
def test_a_person_at_a_terminal_is_asked(place: Path, used_data: Path, answer: str) -> None:
    data = copy_of(used_data, place / "d")
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
    copy(data, place / "twin")
    seen = at_a_terminal(place / "twin", "Ctrl-C", UTF8, answers=["what?", answer]).decode()
    assert f"was at {data} at its last start" in seen
    assert "Was it moved or copied?" in seen
    assert ("an installation of its own now" in seen) == (answer == "copied")
    assert processes_at(data) == []
