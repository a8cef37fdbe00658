"""Programs that detach from their workspace: none outlives it, and no home goes while one may still write there.

They leave session and parent, keep neither a folder nor a file open, and write to the home by its name, which makes it
again if it is gone. The second kind has also forgotten its environment.
"""

import http.client
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process import archived_homes
from codehub.drivers.process.homes import Home
from codehub.model.workspace import Incarnation, OpId
from tests.drivers_process.processes import record_of
from tests.drivers_process.world import UnixConnection, World
from tests.storage_job.job import python_of
from tests.support import eventually, needs_root, short_folder, skip, workspace_users

SCRIPT = Path(__file__).with_name("ordinary_user.py")
WRITER = "while :; do mkdir -p {home}/made; echo {name} >>{home}/made/lines; sleep 0.01; done"
KINDS = {
    "detached": "cd /; (setsid sh -c '{writer}' {name} </dev/null >/dev/null 2>&1 &)",
    "without its environment": "cd /; (env -i PATH=$PATH setsid sh -c '{writer}' {name} </dev/null >/dev/null 2>&1 &)",
}
kinds = pytest.mark.parametrize("kind", KINDS)


class Ordinary:
    """A driver in a process of an ordinary user's, and one workspace."""

    def __init__(self, seccomp: str = "auto") -> None:
        self.seccomp = seccomp
        self.folder = short_folder()
        self.user = os.geteuid()
        become: tuple[str, ...] = ()
        if self.user == 0:
            self.user = workspace_users()[-1]
            become = ("setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups")
            os.chown(self.folder, self.user, self.user)
        self.become = python_of(become)
        self.id = str(uuid4())
        self.name = f"daemon-{self.id}"
        self.endpoint = ""
        self.people: list[subprocess.Popen[bytes]] = []
        self.open()

    def open(self) -> None:
        self.process = subprocess.Popen(
            [*self.become, str(SCRIPT), str(self.folder), self.seccomp],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def ask(self, verb: str, *more: str) -> dict[str, str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([verb, self.id, *more]).encode() + b"\n")
        self.process.stdin.flush()
        said: dict[str, str] = json.loads(self.process.stdout.readline())
        return said

    def do(self, verb: str, *more: str) -> str:
        said = self.ask(verb, *more)
        assert "error" not in said, said
        return said["said"]

    @property
    def home(self) -> Path:
        (home,) = (self.folder / f"w/homes/ws-{self.id}-home").iterdir()
        return home

    def start(self, kind: str) -> None:
        """With a daemon that has written."""
        self.endpoint = self.do("start")
        self.launch(kind)

    def launch(self, kind: str) -> None:
        _run(self.endpoint, _command(kind, self.home, self.name))
        eventually(lambda: bool(self.daemons()) and self.lines() > 0, "a daemon that writes")

    def lines(self) -> int:
        with suppress(FileNotFoundError):
            return len((self.home / "made/lines").read_bytes().splitlines())
        return 0

    def daemons(self) -> set[int]:
        return _with_word(self.name)

    def main(self) -> int:
        return record_of(self.folder / f"w/instances/ws-{self.id}").pids[0]

    def person(self, *command: str, cwd: Path | None = None, environment: dict[str, str] | None = None) -> int:
        """A process of the same user that no workspace has started."""
        words = ["env", *(f"{name}={value}" for name, value in (environment or {}).items()), *command]
        before = self.become[: self.become.index("env")]
        process = subprocess.Popen([*before, *words], cwd=cwd or "/", stdin=subprocess.DEVNULL)
        self.people.append(process)
        eventually(lambda: _program(process.pid) == command[0], "a person's program")
        return process.pid

    def close(self) -> None:
        for process in self.people:
            process.kill()
            process.wait()
        if self.process.poll() is not None:
            self.open()
        self.ask("remove")
        for pid in self.daemons():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def ordinary() -> Iterator[Ordinary]:
    if not Path("/proc/self/environ").exists():
        skip("a /proc", "run on Linux")
    ordinary = Ordinary()
    yield ordinary
    ordinary.close()


# -- an ordinary user, without a sandbox -----------------------------------------------------------------------------


@kinds
def test_nothing_of_a_stopped_workspace_writes(ordinary: Ordinary, kind: str) -> None:
    ordinary.start(kind)
    ordinary.do("remove")
    assert not ordinary.daemons()


@kinds
def test_the_archive_has_the_last_line_and_nothing_makes_the_deleted_home_again(ordinary: Ordinary, kind: str) -> None:
    ordinary.start(kind)
    home = ordinary.home
    ordinary.do("remove")
    written = (home / "made/lines").read_bytes()
    key = ordinary.do("archive")
    ordinary.do("delete")
    assert not ordinary.daemons()
    assert not home.exists()
    ordinary.do("restore", key)
    assert (ordinary.home / "made/lines").read_bytes() == written


@kinds
def test_a_driver_that_knows_only_the_folder_ends_them_too(ordinary: Ordinary, kind: str) -> None:
    ordinary.start(kind)
    ordinary.kill()
    ordinary.open()
    assert ordinary.do("life") == "READY"
    ordinary.do("remove")
    assert not ordinary.daemons()


@kinds
def test_they_end_with_the_workspace_that_ends_by_itself(ordinary: Ordinary, kind: str) -> None:
    ordinary.start(kind)
    _run(ordinary.endpoint, "kill -9 $PPID")
    eventually(lambda: not ordinary.daemons(), "they have ended too")
    eventually(lambda: ordinary.do("life") == "DEAD", "it is seen")


def test_a_program_that_kills_its_own_group_does_not_set_them_free(ordinary: Ordinary) -> None:
    ordinary.start("without its environment")
    _run(ordinary.endpoint, "kill -9 -$(ps -o pgid= -p $PPID | tr -d ' ')")
    eventually(lambda: not ordinary.daemons(), "they have ended too")


def test_what_hides_after_its_supervisor_was_killed_keeps_the_home(ordinary: Ordinary) -> None:
    """Neither archived nor deleted, and said; deleted once it has ended."""
    ordinary.start("without its environment")
    os.kill(ordinary.main(), signal.SIGKILL)
    ordinary.do("remove")
    (daemon,) = (pid for pid in ordinary.daemons() if _leads_a_session(pid))  # what it has just forked is named like it
    for verb, error in (("archive", "ActionFailed"), ("delete", "Unreachable")):
        said = ordinary.ask(verb)
        assert (said["error"], f"sh ({daemon})" in said["message"]) == (error, True)
    assert ordinary.home.exists()
    os.killpg(daemon, signal.SIGKILL)  # with what it has just started
    eventually(lambda: not ordinary.daemons(), "it has ended")
    ordinary.do("delete")
    assert not (ordinary.folder / f"w/homes/ws-{ordinary.id}-home").exists()
    assert not list((ordinary.folder / "w/lost").iterdir())


def test_a_supervisor_that_was_killed_keeps_no_home_that_nothing_is_left_in(ordinary: Ordinary) -> None:
    ordinary.start("detached")
    os.kill(ordinary.main(), signal.SIGKILL)
    ordinary.do("remove")
    assert not ordinary.daemons()
    ordinary.do("delete")


def test_what_carries_the_home_is_ended_before_it_is_archived(ordinary: Ordinary) -> None:
    """As after its record was lost."""
    ordinary.do("start")
    ordinary.do("remove")
    pid = ordinary.person("sleep", "600", environment={"CODEHUB_HOME": str(ordinary.home)})
    ordinary.do("archive")
    eventually(lambda: ordinary.people[-1].poll() == -signal.SIGKILL, f"{pid} was ended")


@pytest.mark.parametrize("holds", ["folder", "file"])
def test_a_person_in_a_home_is_named_and_not_killed(ordinary: Ordinary, holds: str) -> None:
    ordinary.start("detached")
    ordinary.do("remove")
    home = ordinary.home
    if holds == "folder":
        pid = ordinary.person("sleep", "600", cwd=home)
    else:
        pid = ordinary.person("tail", "-f", str(home / "made/lines"))
        eventually(lambda: _has_open(pid, home), "it has the file open")
    for verb, error in (("archive", "ActionFailed"), ("delete", "Unreachable")):
        said = ordinary.ask(verb)
        assert (said["error"], f"({pid})" in said["message"]) == (error, True)
    assert ordinary.people[-1].poll() is None
    assert home.exists()
    ordinary.people[-1].kill()
    ordinary.people[-1].wait()
    ordinary.do("delete")
    assert not home.exists()


def test_whoever_opens_a_home_once_it_is_archived_is_named_before_it_is_committed(ordinary: Ordinary) -> None:
    ordinary.do("start")
    ordinary.do("remove")
    op_id = ordinary.do("begin_archive", str(uuid4()))
    assert ordinary.do("in_use") == ""
    pid = ordinary.person("sleep", "600", cwd=ordinary.home)
    assert f"sleep ({pid})" in ordinary.do("in_use")
    ordinary.do("finish", op_id)


def test_a_home_that_somebody_opened_after_the_commit_is_kept_untouched_until_it_is_archived_again(
    ordinary: Ordinary,
) -> None:
    ordinary.do("start")
    ordinary.do("remove")
    home, op_id = ordinary.home, str(uuid4())
    ordinary.do("finish", ordinary.do("begin_archive", op_id))
    pid = ordinary.person("sleep", "600", cwd=home)
    said = ordinary.ask("delete", op_id)
    assert (said["error"], f"({pid})" in said["message"]) == ("Refused", True)
    assert f"sleep ({pid})" in ordinary.do("kept")
    assert home.exists()
    ordinary.people[-1].kill()
    ordinary.people[-1].wait()
    again = str(uuid4())
    ordinary.do("finish", ordinary.do("begin_archive", again))
    assert ordinary.do("kept") == ""
    ordinary.do("delete", again)
    assert not home.exists()
    assert not [path for path in home.parent.parent.iterdir() if path.name.startswith(home.parent.name)]


@pytest.mark.parametrize("change", ["new", "grown", "put back", "removed"])
def test_a_home_that_changed_after_it_was_archived_is_kept(ordinary: Ordinary, change: str) -> None:
    """Whoever wrote has gone again; nothing but the home itself tells."""
    ordinary.do("start")
    ordinary.do("remove")
    home = ordinary.home
    _as_user(ordinary, f"mkdir {home}/deep && echo a > {home}/deep/file && touch -d '2020-01-01' {home}/deep/file")
    op_id = str(uuid4())
    ordinary.do("finish", ordinary.do("begin_archive", op_id))
    command = {
        "new": f"touch -d '2020-01-01' {home}/deep/other",
        "grown": f"echo b >> {home}/deep/file",
        "put back": f"echo b >> {home}/deep/file; touch -d '2020-01-01' {home}/deep/file",
        "removed": f"rm {home}/deep/file",
    }[change]
    _as_user(ordinary, command)
    assert ordinary.ask("delete", op_id)["error"] == "Refused"
    assert ordinary.do("kept") == "Something in it changed after it was archived."
    assert (home / "deep").exists()
    ordinary.do("delete")  # as a deletion that was asked for
    assert not home.exists()


DEEP = """
import os, pathlib
for branch in "one", "two":
    os.chdir({home!r})
    for _ in range(200):  # far beyond the longest path
        os.mkdir(branch + "d" * 50)
        os.chdir(branch + "d" * 50)
    pathlib.Path("file").touch()
"""
CHANGE = """
import os, pathlib
os.chdir({home!r})
for _ in range(200):
    os.chdir({branch!r} + "d" * 50)
pathlib.Path("file").write_text("b")
"""


def _python(ordinary: Ordinary, script: str) -> None:
    subprocess.run([*ordinary.become, "-c", script], check=True)


@pytest.mark.parametrize("home_has", ["a list of names", "a depth", "a time ahead"])
def test_whatever_is_in_a_home_it_goes_once_it_is_archived(ordinary: Ordinary, home_has: str) -> None:
    ordinary.do("start")
    ordinary.do("remove")
    home = ordinary.home
    if home_has == "a list of names":
        _as_user(ordinary, f"mkdir -p {home}/list/below && touch {home}/list/file && chmod 400 {home}/list")
    elif home_has == "a depth":
        _python(ordinary, DEEP.format(home=str(home)))
    else:
        _as_user(ordinary, f"mkdir {home}/later && touch -d 2090-01-01 {home}/file {home}/later {home}")
        _as_user(ordinary, f"touch -d 2090-01-01 {home}/closed && chmod 0 {home}/closed")
    op_id = str(uuid4())
    ordinary.do("finish", ordinary.do("begin_archive", op_id))
    ordinary.do("delete", op_id)
    assert not home.exists()


@pytest.mark.parametrize("branch", ["one", "two"])
def test_a_change_is_found_however_deep(ordinary: Ordinary, branch: str) -> None:
    ordinary.do("start")
    ordinary.do("remove")
    home = ordinary.home
    _python(ordinary, DEEP.format(home=str(home)))
    op_id = str(uuid4())
    ordinary.do("finish", ordinary.do("begin_archive", op_id))
    _python(ordinary, CHANGE.format(home=str(home), branch=branch))
    assert ordinary.ask("delete", op_id)["error"] == "Refused"
    assert ordinary.do("kept") == "Something in it changed after it was archived."


def test_a_home_that_cannot_be_looked_through_is_kept_and_not_asked_about_for_ever(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", Incarnation("i"), "u", os.geteuid(), whole=True)
    op_id = OpId(uuid4())
    archived_homes.begin(home, op_id)
    assert "No such file or directory" in (archived_homes.more_since(home, op_id) or "")
    assert archived_homes.more_since(home, OpId(uuid4())) is None


def test_a_job_that_runs_again_counts_from_the_first_of_its_operation(ordinary: Ordinary) -> None:
    """It finds the archive complete, and reads nothing."""
    ordinary.do("start")
    ordinary.do("remove")
    op_id = str(uuid4())
    ordinary.do("finish", ordinary.do("begin_archive", op_id))
    _as_user(ordinary, f"echo b > {ordinary.home}/file")
    ordinary.do("finish", ordinary.do("begin_archive", op_id))
    assert ordinary.ask("delete", op_id)["error"] == "Refused"


# -- as root, and in a sandbox ---------------------------------------------------------------------------------------


@pytest.fixture(params=["bare_world", "world"])
def any_world(request: pytest.FixtureRequest) -> World:
    """Without a sandbox, and with one."""
    if request.param == "bare_world":
        needs_root("whose workspaces have user ids of their own")
    world: World = request.getfixturevalue(request.param)
    return world


@kinds
async def test_nothing_is_left_with_a_user_of_its_own_or_a_sandbox(any_world: World, kind: str) -> None:
    workspace = await any_world.start()
    name = f"daemon-{workspace.id}"
    inside = Path(workspace.run("echo $HOME").strip())
    workspace.run(_command(kind, inside, name))
    eventually(lambda: bool(_with_word(name)), "a daemon that writes")
    home = workspace.home
    await any_world.driver.instances.remove(workspace.id)
    assert not _with_word(name)
    await any_world.driver.volumes.delete(workspace.id, workspace.volume)
    assert not home.exists()


async def test_whatever_runs_under_the_home_s_own_user_is_ended_before_it_is_deleted(bare_world: World) -> None:
    needs_root("whose workspaces have user ids of their own")
    workspace_id, volume = await bare_world.create()
    (home,) = (bare_world.root / f"homes/ws-{workspace_id}-home").iterdir()
    with _sleeping(home.stat().st_uid) as process:
        try:
            await bare_world.driver.volumes.delete(workspace_id, volume)
            assert process.wait(10) == -signal.SIGKILL
        finally:
            process.kill()


async def test_a_person_whose_home_it_was_before_we_were_root_is_not_ended(bare_world: World) -> None:
    needs_root("whose workspaces have user ids of their own")
    person = bare_world.options.users.stop + 1_000_000
    workspace_id, volume = await bare_world.create()
    (home,) = (bare_world.root / f"homes/ws-{workspace_id}-home").iterdir()
    os.chown(home, person, person)
    with _sleeping(person) as process:
        try:
            await bare_world.start_on(workspace_id, volume)
            await bare_world.driver.instances.remove(workspace_id)
            await bare_world.driver.volumes.delete(workspace_id, volume)
            assert process.poll() is None
        finally:
            process.kill()


# -- helpers ---------------------------------------------------------------------------------------------------------


def _as_user(ordinary: Ordinary, command: str) -> None:
    become = ordinary.become[: ordinary.become.index("env")]
    subprocess.run([*become, "sh", "-c", command], check=True)


def _sleeping(user: int) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "sleep", "600"], cwd="/"
    )
    eventually(lambda: _program(process.pid) == "sleep", "somebody's program")
    return process


def _command(kind: str, home: Path, name: str) -> str:
    return KINDS[kind].format(writer=WRITER.format(home=home, name=name), name=name)


def _run(endpoint: str, command: str) -> None:
    connection = UnixConnection(endpoint)
    with suppress(ConnectionError, http.client.HTTPException):  # it may end the one who would answer
        connection.request("POST", "/run", command)
        connection.getresponse().read()
    connection.close()


def _with_word(name: str) -> set[int]:
    """Those with the name as a whole word of their command line; a command that starts one has it within a word."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if name.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    return found


def _leads_a_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False


def _program(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _has_open(pid: int, home: Path) -> bool:
    with suppress(OSError):
        return any(str(entry.readlink()).startswith(f"{home}/") for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False
