"""An upgrade replaces our scripts under workspaces that run: they keep their ways in and out, and what two versions say
to each other by the arguments of a script stays understood.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from codehub.drivers.process import Options, inside, launch, network
from codehub.drivers.process.identity import proc
from codehub.drivers.process.launcher import NO_MARK, Launcher
from codehub.drivers.process.layout import Layout, new_token
from codehub.drivers.process.looks import MARK
from codehub.drivers.process.machine import Launch, Machine
from codehub.drivers.process.records import Record
from codehub.drivers.process.sandbox import View
from codehub.errors import ActionFailed
from tests.support import eventually, short_folder

ANSWER = b"from inside"
SCRIPTS = ("beside.py", "carry.py", "egress.py")
BARE = (sys.executable, "-I", "-S", "-B")
TELLS_ITS_WORDS = "import json, sys\nprint(json.dumps(sys.argv[1:]), flush=True)\n"


@pytest.fixture
def scripts() -> Iterator[Path]:
    """Ours, where an upgrade may replace them."""
    folder = short_folder()
    for name in SCRIPTS:
        shutil.copy(Path(inside.__file__).with_name(name), folder)
    yield folder
    shutil.rmtree(folder)


def replace_all(folder: Path) -> None:
    """As an upgrade does it: other files under the same names. These do nothing at all."""
    for name in SCRIPTS:
        (folder / f"{name}.new").write_text("raise SystemExit(1)\n")
        (folder / f"{name}.new").replace(folder / name)


def remove_all(folder: Path) -> None:
    for name in SCRIPTS:
        (folder / name).unlink()


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        yield listener


@contextmanager
def running(command: list[str], third: socket.socket, *fds: int) -> Iterator["subprocess.Popen[str]"]:
    """With `third` as descriptor 3."""
    held = [sys.executable, "-c", "import os, sys; os.dup2(int(sys.argv[1]), 3); os.execv(sys.argv[2], sys.argv[2:])"]
    process = subprocess.Popen(
        [*held, str(third.fileno()), *command],
        pass_fds=(third.fileno(), *fds),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def dialled(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        yield connection


@contextmanager
def served() -> Iterator[int]:
    """A port that answers once."""

    def serve() -> None:
        with server.accept()[0] as connection:
            connection.sendall(ANSWER)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def is_dozing(pid: int, script: str) -> bool:
    """Whether it has opened what it is to become."""
    folder = Path(f"/proc/{pid}/fd")
    try:
        return any(script in str(each.readlink()) for each in folder.iterdir())
    except OSError:
        return False


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def way_out_plan(folder: Path, *told: str) -> dict[str, object]:
    command = (*BARE, "/proc/self/fd/4", *told)
    doze = {"listen": [str(folder / "outward")], "open": [str(folder / "egress.py")], "doze": True}
    return {**plan(folder, *command), **doze}


@contextmanager
def dozing(folder: Path, *told: str) -> Iterator[int]:
    """The way out of a workspace that has never asked for one; its pid."""
    launcher = Launcher()
    launcher.launch([way_out_plan(folder, *told)])
    launcher.close()
    pid = json.loads((folder / "process.json").read_text())["pid"]
    try:
        yield pid
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


@pytest.mark.parametrize("upgrade", [replace_all, remove_all])
def test_a_way_out_that_dozes_wakes_as_what_it_was(scripts: Path, upgrade: Callable[[Path], None]) -> None:
    path = scripts / "outward"
    with dozing(scripts) as pid:
        with dialled(path):  # the leash
            upgrade(scripts)
            with dialled(path) as visitor:
                visitor.sendall(b"CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n")
                assert visitor.recv(100).startswith(b"HTTP/1.1 403 ")
            assert lives(pid)
        eventually(lambda: not lives(pid), "it ends with its workspace")


def words(folder: Path, *names: str) -> list[str]:
    return [str(folder / name) for name in names]


@pytest.mark.parametrize("upgrade", [replace_all, remove_all])
def test_a_way_in_that_dozes_wakes_as_what_it_was(scripts: Path, upgrade: Callable[[Path], None]) -> None:
    path = scripts / "ports"
    with listening(path) as listener, served() as port, ExitStack() as stack:
        command = [*BARE, *words(scripts, "beside.py"), "-", "-", "3", "/bin/sleep", "600"]
        process = stack.enter_context(running(command, listener))
        (child,) = stack.enter_context(children(process.pid))
        eventually(lambda: is_dozing(child, "carry.py"), "it dozes")
        upgrade(scripts)
        with dialled(path) as visitor:
            visitor.sendall(f"{port}\n".encode())
            assert visitor.recv(100) == ANSWER


@contextmanager
def children(pid: int) -> Iterator[list[int]]:
    """Once there are any; ended at the end."""
    of = Path(f"/proc/{pid}/task/{pid}/children")
    eventually(lambda: bool(of.read_text().split()), "a child")
    found = [int(word) for word in of.read_text().split()]
    try:
        yield found
    finally:
        for each in found:
            os.kill(each, 9)


# -- what is said between versions -----------------------------------------------------------------------------------
#
# A coordinator of the old version runs on while the files of the new one are put in its place: it starts the new
# scripts with the old words. Each list here may grow at its end by something that can be left out, and no otherwise.


def machine(options: Options) -> Machine:
    """One that could sandbox; nothing is started on it."""
    found = Machine(options, Layout(options.root))
    found.bwrap = "/usr/bin/bwrap"
    return found


def test_what_beside_is_told(scripts: Path) -> None:
    before = ["-I", "-S", "-B", "/opt/codehub/beside.py"]
    assert network.command(machine(Options(root=scripts)))[1:] == [*before, "3128", "/run/codehub/outward", "4"]
    assert network.command(machine(Options(root=scripts, network="none")))[1:] == [*before, "-", "-", "4"]
    assert network.command(machine(Options(root=scripts, network="host"))) == []


def test_what_the_way_out_is_told(scripts: Path) -> None:
    allowing = machine(Options(root=scripts, allow=("10.0.0.0/8", "fd00::/8"), deny=("10.1.0.0/16",)))
    made = network.way_out(allowing, Record(scripts, {"mark": "m"}), 1000, scripts / "outward")
    assert ([each.name for each in made.listen], [each.name for each in made.open]) == (["outward"], ["egress.py"])
    assert list(made.view.command)[1:] == [
        *("-I", "-S", "-B", "/proc/self/fd/4"),
        *("--allow", "10.0.0.0/8", "--allow", "fd00::/8", "--deny", "10.1.0.0/16"),
    ]


def test_what_the_launcher_tells_the_way_out(scripts: Path) -> None:
    (scripts / "egress.py").write_text(TELLS_ITS_WORDS)
    given = ["--allow", "10.0.0.0/8", "--deny", "10.1.0.0/16"]
    path, log = scripts / "outward", scripts / "log"
    with dozing(scripts, *given), dialled(path), dialled(path):
        eventually(lambda: log.read_text().endswith("\n"), "it tells")
    told = json.loads(log.read_text())
    assert told[:-1] == [*given, "--leash"]
    assert told[-1].isdigit()


@pytest.mark.parametrize("has_way_out", [True, False])
def test_what_beside_tells_carry(scripts: Path, has_way_out: bool) -> None:
    (scripts / "carry.py").write_text(TELLS_ITS_WORDS)
    outward, inward = scripts / "outward", scripts / "ports"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    way_out = [str(port), str(outward)] if has_way_out else ["-", "-"]
    command = [*BARE, *words(scripts, "beside.py"), *way_out, "3", "/bin/sleep", "600"]
    with ExitStack() as stack:
        stack.enter_context(listening(outward))
        process = stack.enter_context(running(command, stack.enter_context(listening(inward))))
        stack.enter_context(children(process.pid))
        stack.enter_context(dialled(inward))
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
    first, second, last = told
    assert first.isdigit() if has_way_out else first == "-"
    assert (second, last) == ("3", way_out[1])


def test_what_the_launcher_is_told(scripts: Path) -> None:
    view = View(binds=[], environment={}, command=["true"])
    what = Launch(
        folder=scripts, mark="m", view=view, user=1000, plain=["true"], plain_environment={}, plain_folder=scripts
    )
    assert sorted(machine(Options(root=scripts))._plan(what, None)) == [
        *("cgroups", "command", "dialler", "doze", "environment", "folder", "info", "input", "limits", "listen", "log"),
        *("mark", "open", "record", "sandboxed", "seccomp", "stage", "user", "wait"),
    ]


# -- the launcher ----------------------------------------------------------------------------------------------------


def plan(folder: Path, *command: str, wait: bool = False) -> dict[str, object]:
    """A program without a sandbox."""
    return {
        "record": str(folder / "process.json"),
        "info": None,
        "log": str(folder / "log"),
        "input": None,
        "listen": [],
        "open": [],
        "doze": False,
        "mark": [MARK, new_token()],
        "dialler": None,
        "cgroups": [],
        "stage": [],
        "limits": {},
        "user": None,
        "sandboxed": False,
        "seccomp": None,
        "folder": str(folder),
        "command": list(command),
        "environment": {},
        "wait": wait,
    }


FORK_FAILS_ONCE = """
import os, runpy, socket, sys, time
left = int(sys.argv[2])
class Closing(socket.socket):
    def close(self):
        super().close()
        time.sleep(0.1)  # whoever is sent away comes back before anything else happens
socket.socket = Closing
def fork():
    global left
    left -= 1
    if left == 0:
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return real()
real, os.fork = os.fork, fork
runpy.run_path(sys.argv[1], run_name="__main__")
"""
FIRST, OF_WHAT_WAITS = 1, 2  # that of the launcher, which becomes what waits; and the one for the work


@contextmanager
def launching(fails: int) -> Iterator[socket.socket]:
    """The line to a launcher of which one fork fails."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command, env = [sys.executable, "-c", FORK_FAILS_ONCE, launch.__file__, str(fails)], {MARK: NO_MARK}
    with ours, theirs, subprocess.Popen(command, stdin=theirs.fileno(), env=env) as server:
        theirs.close()
        try:
            yield ours
        finally:
            ours.close()
        assert server.wait(20) == 0


def test_a_launcher_survives_a_fork_that_fails(scripts: Path) -> None:
    with launching(fails=FIRST) as line:
        assert "temporarily unavailable" in asked(line, [plan(scripts, "/bin/true", wait=True)])
        assert asked(line, [plan(scripts, "/bin/true", wait=True)]) == launch.DONE.decode()


def test_a_way_out_survives_a_fork_that_fails(scripts: Path) -> None:
    """The workspace has as many processes as it may have, for now."""
    path = scripts / "outward"
    with launching(fails=OF_WHAT_WAITS) as line:
        assert asked(line, [way_out_plan(scripts)]) == launch.DONE.decode()
    pid = json.loads((scripts / "process.json").read_text())["pid"]
    with dialled(path):  # the leash
        with dialled(path) as visitor:
            assert visitor.recv(100) == b"", "it is not left waiting"
        assert "temporarily unavailable" in (scripts / "log").read_text()
        with dialled(path) as visitor:
            visitor.sendall(b"CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n")
            assert visitor.recv(100).startswith(b"HTTP/1.1 403 ")
        assert lives(pid)
    eventually(lambda: not lives(pid), "it ends with its workspace")


def test_a_way_out_that_always_fails_is_tried_at_a_slow_pace_and_ends_with_its_workspace(scripts: Path) -> None:
    (scripts / "egress.py").write_text("print('tried', flush=True)\nraise SystemExit(1)\n")
    path, log = scripts / "outward", scripts / "log"
    with dozing(scripts) as pid:
        with dialled(path):
            began = time.monotonic()
            while log.read_text().count("tried") < 3:
                with dialled(path) as visitor:
                    assert visitor.recv(100) == b""
            assert time.monotonic() - began > 2 * 0.9 * launch.PAUSE_MILLISECONDS / 1000
            assert log.read_text().count("way out") >= 2
            assert lives(pid)
        eventually(lambda: not lives(pid), "it ends with its workspace")


STRANGE: list[object] = [
    {"log": "x", "command": ["true"]},  # one plan and no list of them, as once
    [["true"]],
    [{"log": "x"}],
    "true",
    None,
]


@pytest.mark.parametrize("content", STRANGE)
def test_a_plan_of_another_version_is_refused_clearly(scripts: Path, content: object) -> None:
    with launching(fails=0) as line:
        assert "another version of CodeHub" in asked(line, content)
        assert asked(line, [plan(scripts, "/bin/true", wait=True)]) == launch.DONE.decode()


ODD_CONTENTS: list[dict[str, object]] = [{"limits": ["CORE"]}, {"mark": "m"}, {"command": None}, {"log": {}}]
ODD_CONTENTS += [{"stage": 5}] if os.geteuid() == 0 else []  # nobody else mounts anything


@pytest.mark.parametrize("strange", ODD_CONTENTS)
def test_a_plan_with_strange_contents_is_refused_clearly(scripts: Path, strange: dict[str, object]) -> None:
    with launching(fails=0) as line:
        said = asked(line, [{**plan(scripts, "/bin/true", wait=True), **strange}])
        assert said not in ("", launch.DONE.decode())
        assert asked(line, [plan(scripts, "/bin/true", wait=True)]) == launch.DONE.decode()


def asked(line: socket.socket, content: object) -> str:
    """What becomes of it."""
    reading, writing = os.pipe()
    described = os.memfd_create("plan")
    os.write(described, json.dumps(content).encode())
    os.lseek(described, 0, os.SEEK_SET)
    socket.send_fds(line, [b"."], [described, writing])
    os.close(described)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        return file.read().decode()


def test_a_program_whose_asker_has_gone_runs_all_the_same(scripts: Path) -> None:
    """The next leader finds it, by the record that it wrote before."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, launch.__file__]
    with ours, theirs, subprocess.Popen(command, stdin=theirs.fileno(), env={MARK: NO_MARK}) as server:
        reading, writing = os.pipe()
        os.close(reading)
        described = os.memfd_create("plan")
        os.write(described, json.dumps([plan(scripts, "/bin/sh", "-c", "echo begun; exec sleep 60")]).encode())
        os.lseek(described, 0, os.SEEK_SET)
        socket.send_fds(ours, [b"."], [described, writing])
        for each in (described, writing):
            os.close(each)
        theirs.close()
        eventually(lambda: (scripts / "log").exists() and "begun" in (scripts / "log").read_text(), "it runs")
        pid = json.loads((scripts / "process.json").read_text())["pid"]
        assert lives(pid)
        os.kill(pid, 9)
        ours.close()
        assert server.wait(20) == 0


def test_the_end_of_a_launcher_is_noticed_although_what_it_began_goes_on(scripts: Path) -> None:
    others = launchers()  # of drivers that other tests have open
    launcher = Launcher()
    slow = scripts / "slow"
    slow.mkdir()
    waiting = threading.Thread(target=lambda: quietly(launcher, plan(slow, "/bin/sleep", "60", wait=True)))
    waiting.start()
    eventually((slow / "process.json").exists, "it runs")
    (server,) = launchers() - others
    os.kill(server, 9)
    eventually(lambda: (found := proc(server)) is None or found.is_zombie, "it is gone, and has let go of its line")
    launcher.launch([plan(scripts, "/bin/true", wait=True)])
    (anew,) = launchers() - others
    assert anew != server
    os.kill(json.loads((slow / "process.json").read_text())["pid"], 9)
    waiting.join(20)
    launcher.close()
    assert launchers() == others


def quietly(launcher: Launcher, content: dict[str, object]) -> None:
    with suppress(ActionFailed):
        launcher.launch([content])


def launchers() -> set[int]:
    """Living children of ours that launch, whichever thread has begun them; a dead one has no command line."""
    children = [word for each in Path("/proc/self/task").glob("*/children") for word in each.read_text().split()]
    return {int(pid) for pid in children if launch.__file__.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()}
