"""The way out: the public internet through a proxy, and nothing else, by whatever name or number it is called."""

import asyncio
import contextlib
import http.server
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from codehub.drivers.process import Options
from codehub.drivers.process.identity import proc
from codehub.drivers.process.inside import egress
from codehub.drivers.process.sandbox import View, arguments
from tests.drivers_process.processes import living_of, sandboxed_record_of
from tests.drivers_process.world import Workspace, World
from tests.support import eventually, missing, needs_sandbox, short_folder


class Everything(egress.Policy):
    def permits(self, address: egress.Address) -> bool:  # noqa: ARG002
        return True


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"reached {self.path} {self.headers.get('Proxy-Authorization')}".encode())

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


def needs_curl() -> None:
    """It can be told to use a proxy for addresses of this machine too, and to tunnel."""
    if shutil.which("curl") is None:
        missing("the program curl", "apt install curl")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server of this machine, on all its addresses."""
    with http.server.ThreadingHTTPServer(("", 0), Hello) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture(scope="module")
async def workspace(world: World) -> AsyncIterator[Workspace]:
    needs_curl()
    workspace = await world.start()
    yield workspace
    await world.driver.instances.remove(workspace.id)


@pytest.fixture
async def allowing() -> AsyncIterator[World]:
    """This machine's loopback is a private network that the administrator allows."""
    needs_curl()
    folder = short_folder()
    world = World(Options(root=folder / "w", allow=("127.0.0.1/32",)))
    needs_sandbox(world.driver)
    yield world
    await world.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.192", "::1", "::",
        "fe80::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2001:0:7f00:1::", "::127.0.0.1", "fec0::1",
    ],
)  # fmt: skip
def test_only_public_addresses_are_dialled(address: str) -> None:
    assert not egress.Policy().permits(ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "151.101.0.223", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are(address: str) -> None:
    assert egress.Policy().permits(ip_address(address))
    assert not egress.Policy(deny=[ip_network("0.0.0.0/0"), ip_network("::/0")]).permits(ip_address(address))


def test_what_is_denied_stays_denied_although_it_is_allowed() -> None:
    policy = egress.Policy(allow=[ip_network("10.0.0.0/8")], deny=[ip_network("10.1.0.0/16")])
    assert policy.permits(ip_address("10.0.0.1"))
    assert not policy.permits(ip_address("10.1.0.1"))


@pytest.mark.parametrize(
    "head",
    [
        b"", b"GET / HTTP/1.1", b"GET /etc/passwd HTTP/1.1", b"CONNECT x HTTP/1.1", b"CONNECT x:y HTTP/1.1",
        b"GET file:///etc/passwd HTTP/1.1", b"GET https://x/ HTTP/1.1", b"CONNECT :80 HTTP/1.1",
        b"GET http:// HTTP/1.1",
        b"CONNECT x:99999 HTTP/1.1", b"\xff\xfe HTTP/1.1", b"GET http://[::1 HTTP/1.1",
    ],
)  # fmt: skip
def test_what_is_no_request_for_a_proxy_is_refused(head: bytes) -> None:
    with pytest.raises(egress.Refused):
        egress.parse(head + b"\r\n\r\n")


def test_a_plain_request_is_passed_on_without_what_was_meant_for_us() -> None:
    head = b"GET http://x.org:81/a?b=c HTTP/1.1\r\nHost: x.org\r\nProxy-Authorization: s\r\nProxy-Connection: k\r\n\r\n"
    request = egress.parse(head)
    assert (request.host, request.port) == ("x.org", 81)
    assert request.opening == b"GET /a?b=c HTTP/1.1\r\nHost: x.org\r\nConnection: close\r\n\r\n"
    assert egress.parse(b"CONNECT [2606::1]:443 HTTP/1.1\r\n\r\n") == egress.Request("2606::1", 443, None)


async def test_this_machine_is_recognised_by_any_address(port: int) -> None:
    """As if 127.0.0.1 were public: it still has the same address at both ends."""
    with pytest.raises(egress.Refused, match="is this machine"):
        await egress.dial("127.0.0.1", port, Everything())


@pytest.mark.parametrize(
    "name", ["127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433", "169.254.169.254"]
)
def test_this_machine_is_refused_through_the_proxy(workspace: Workspace, port: int, name: str) -> None:
    plain = workspace.run(f"curl -sS -m 20 --noproxy '' http://{name}:{port}/plain 2>&1")
    tunnel = workspace.run(f"curl -sS -m 20 --noproxy '' -p http://{name}:{port}/tunnel 2>&1")
    assert "reached" not in plain + tunnel
    assert "not on the public internet" in plain or "looked up" in plain
    assert "403" in tunnel or "502" in tunnel


def test_this_machines_own_addresses_are_refused_through_the_proxy(workspace: Workspace, port: int) -> None:
    names = {str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for name in (socket.gethostname(), *names):
        said = workspace.run(f"curl -sS -m 20 --noproxy '' http://{name}:{port}/ 2>&1")
        assert "reached" not in said


def test_there_is_no_other_way(workspace: Workspace, port: int) -> None:
    assert "reached" not in workspace.run(f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{port}/ 2>&1")
    assert "unreachable" in workspace.run("bash -c 'echo > /dev/tcp/1.1.1.1/80' 2>&1").lower()


async def test_what_is_allowed_is_reached_plainly_and_through_a_tunnel(allowing: World, port: int) -> None:
    workspace = await allowing.start()
    command = f"curl -sS -m 20 --noproxy '' %s http://127.0.0.1:{port}/some/path 2>&1"
    assert workspace.run(command % "") == "reached /some/path None"
    assert workspace.run(command % "-p") == "reached /some/path None"
    denied = workspace.run(f"curl -sS -m 20 --noproxy '' http://127.0.0.2:{port}/ 2>&1")
    assert "not on the public internet" in denied


def test_a_refused_tunnel_names_the_setting_that_opens_it(workspace: Workspace, port: int) -> None:
    """Also where a program prints no more than the status line (pip), or its number (curl, git)."""
    setting = "PROCESS_ALLOW=127.0.0.2/32"
    asked = f"import urllib.request as r; r.urlopen('https://127.0.0.2:{port}/')"
    assert setting in workspace.run(f'python3 -c "{asked}" 2>&1')
    curl = f"curl -sS -m 20 -p http://127.0.0.2:{port}/"
    shown = workspace.run(f"printf '{curl} 2>/dev/null\ntrue\ntrue\n' | bash --norc -i 2>&1")
    line = f"CodeHub: 127.0.0.2 is not on the public internet; the administrator can allow it with {setting}"
    assert shown.splitlines().count(line) == 1, shown
    assert setting not in workspace.run("printf 'true\ntrue\n' | bash --norc -i 2>&1"), "another shell's, of earlier"


async def test_the_package_index_is_reached_wherever_it_is_and_nothing_beside_it(port: int) -> None:
    needs_curl()
    folder = short_folder()
    world = World(Options(root=folder / "w", hosts=(f"127.0.0.2:{port}",)))
    needs_sandbox(world.driver)
    workspace = await world.start()
    assert workspace.run(f"curl -sS -m 20 --noproxy '' http://127.0.0.2:{port}/a 2>&1") == "reached /a None"
    assert "reached" not in workspace.run(f"curl -sS -m 20 --noproxy '' http://127.0.0.3:{port}/a 2>&1")
    assert "reached" not in workspace.run("curl -sS -m 20 --noproxy '' http://127.0.0.2:9/a 2>&1")
    await world.close()
    shutil.rmtree(folder)


def test_ssh_goes_through_the_way_out(workspace: Workspace) -> None:
    if shutil.which("ssh") is None:
        missing("the program ssh", "apt install openssh-client")
    shown = workspace.run("ssh -o BatchMode=yes -p 2222 127.0.0.2 true 2>&1")
    assert "PROCESS_ALLOW=127.0.0.2/32" in shown


async def test_ssh_reaches_what_is_allowed(allowing: World) -> None:
    if shutil.which("ssh") is None:
        missing("the program ssh", "apt install openssh-client")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OfTheTests\r\n")
                connection.recv(1 << 12)

        threading.Thread(target=greet, daemon=True).start()
        workspace = await allowing.start()
        name = f"-o HostName=127.0.0.1 -p {server.getsockname()[1]} allowed"  # ssh leaves the loopback itself alone
        assert "remote software version OfTheTests" in workspace.run(f"ssh -v -o BatchMode=yes {name} true 2>&1")


async def test_the_way_out_goes_with_its_workspace(world: World) -> None:
    workspace = await world.start()
    record = workspace.record
    assert _ways_out(workspace)
    await world.driver.instances.remove(workspace.id)
    assert not living_of(record)
    assert not list((world.root / "sockets").glob(f"{record.mark}*"))


async def test_a_way_out_that_nobody_has_used_has_no_rights_and_ends_when_its_workspace_does(world: World) -> None:
    workspace = await world.start()
    (pid,) = _ways_out(workspace)
    status = _status(pid)
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 or os.geteuid() != 0
    assert status["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert set(status["Uid"].split()) == {str(workspace.home.stat().st_uid)}
    assert _sockets(pid) == 2, "it listens, and the workspace holds its leash"
    folder = world.root / f"instances/ws-{workspace.id}"
    os.kill(sandboxed_record_of(folder).pids[1], signal.SIGKILL)  # whatever ends it, and without our help
    eventually(lambda: proc(pid) is None, "the end of the way out")
    await world.driver.instances.remove(workspace.id)


async def test_two_workspaces_have_two_ways_out(allowing: World, port: int) -> None:
    first, second = await allowing.start(), await allowing.start()
    ways = [_ways_out(each) for each in (first, second)]
    assert ways[0]
    assert ways[1]
    assert not ways[0] & ways[1]
    await allowing.driver.instances.remove(first.id)
    assert second.run(f"curl -sS -m 20 --noproxy '' http://127.0.0.1:{port}/there 2>&1") == "reached /there None"


def test_the_way_out_sees_no_files_and_has_no_rights(workspace: Workspace, world: World) -> None:
    workspace.run("curl -sS -m 20 --noproxy '' http://127.0.0.1:9/ 2>&1")  # it is made when it is needed
    python = str(world.driver._machine.python)
    (pid,) = [pid for pid in workspace.processes() if _command(pid).startswith(python) and "--leash" in _command(pid)]
    mounts = Path(f"/proc/{pid}/mountinfo").read_text()
    for name in ("homes", "instances", "jobs", "sockets"):
        assert str(world.root / name) not in mounts
    assert "/home/coder" not in mounts
    status = _status(pid)
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["NoNewPrivs"] == "1"
    if os.geteuid() == 0:
        assert status["Uid"].split()[0] == str(workspace.home.stat().st_uid)


@pytest.fixture
async def faulty() -> AsyncIterator[tuple[World, Path]]:
    """The real sandbox, unless a file is there: that file. Not in /tmp, which who starts it does not see as root."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        missing("a sandbox for workspaces", "apt install bubblewrap")
    folder, elsewhere = short_folder(), Path(tempfile.mkdtemp(prefix="ch-", dir="/var/tmp"))
    elsewhere.chmod(0o755)  # noqa: ASYNC240
    wrapper, fault = elsewhere / "bwrap", elsewhere / "fault"
    wrapper.write_text(
        f'#!/bin/sh\n[ ! -e {fault} ] || {{ echo "no sandbox today" >&2; exit 1; }}\nexec {bwrap} "$@"\n'
    )
    wrapper.chmod(0o755)
    world = World(Options(root=folder / "w", allow=("127.0.0.1/32",), bwrap=str(wrapper)))
    needs_sandbox(world.driver)
    yield world, fault
    await world.close()
    shutil.rmtree(folder)
    shutil.rmtree(elsewhere)


async def test_a_way_out_that_could_not_be_made_is_made_later(faulty: tuple[World, Path], port: int) -> None:
    world, fault = faulty
    workspace = await world.start()
    ask = f"curl -sS -m 20 --noproxy '' http://127.0.0.1:{port}/there 2>&1"
    fault.touch()
    refused = workspace.run(ask)
    assert "reached" not in refused
    assert "timed out" not in refused, "nobody is left to wait for what does not come"
    said = (world.root / f"instances/ws-{workspace.id}/log").read_text()
    assert "no sandbox today" in said
    assert "way out" in said
    fault.unlink()
    eventually(lambda: workspace.run(ask) == "reached /there None", "the way out is there")
    (waiting,) = [pid for pid in _ways_out(workspace) if "launch.py" in _command(pid)]
    sandbox = sandboxed_record_of(world.root / f"instances/ws-{workspace.id}").pids[1]
    os.kill(sandbox, signal.SIGKILL)
    eventually(lambda: proc(waiting) is None, "it ends with its workspace, having tried twice")
    eventually(lambda: not workspace.processes(), "and so does what it has made")


async def test_a_way_out_that_has_been_killed_is_made_again(allowing: World, port: int) -> None:
    workspace = await allowing.start()
    ask = f"curl -sS -m 20 --noproxy '' http://127.0.0.1:{port}/there 2>&1"
    assert workspace.run(ask) == "reached /there None"
    made = {pid for pid in workspace.processes() if "--leash" in _command(pid)}
    for pid in made:
        with contextlib.suppress(ProcessLookupError):  # one ends with the other
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: workspace.run(ask) == "reached /there None", "the way out is there again")
    record = workspace.record
    await allowing.driver.instances.remove(workspace.id)
    assert not living_of(record)


async def test_a_way_out_whose_keeper_has_been_killed_is_not_made_twice(allowing: World, port: int) -> None:
    workspace = await allowing.start()
    ask = f"curl -sS -m 20 --noproxy '' http://127.0.0.1:{port}/there 2>&1"
    assert workspace.run(ask) == "reached /there None"
    made = {pid for pid in workspace.processes() if "--leash" in _command(pid)}
    os.kill(min(made), signal.SIGKILL)  # bubblewrap outside: what it has started goes on
    for _ in range(3):
        assert workspace.run(ask) == "reached /there None"
    assert {pid for pid in workspace.processes() if "--leash" in _command(pid)} == made - {min(made)}


def test_what_the_machine_has_lost_since_a_start_is_left_out(world: World) -> None:
    """An upgrade of the machine may take away what it had when the way out was told what to show."""
    bwrap = world.driver._machine.bwrap
    assert bwrap is not None
    words = arguments(bwrap, View([], {}, ["/usr/bin/true"], folder="/", etc={"gone": Path("/etc/gone")}), {}, 1)
    shown = [
        place for place, word in enumerate(words) if word.startswith("/etc/") and words[place + 1 : place + 2] == [word]
    ]
    assert shown
    for place in shown:
        words[place] = "/etc/gone"
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")


async def test_without_a_network_there_is_no_way_out() -> None:
    folder = short_folder()
    world = World(Options(root=folder / "w", network="none"))
    needs_sandbox(world.driver)
    workspace = await world.start()
    assert "PROXY" not in workspace.run("env")
    assert not _ways_out(workspace)
    assert "have no network" in " ".join(world.driver.isolation())
    await world.close()
    await asyncio.to_thread(shutil.rmtree, folder)


def _ways_out(workspace: Workspace) -> set[int]:
    """Waiting for work it is a fork of the launcher; so is who keeps the log, known once that has begun."""
    eventually(lambda: any(map(_keeps_log, workspace.processes())), "somebody keeps the log")
    found = {pid for pid in workspace.processes() if any(word in _command(pid) for word in ("launch.py", "--leash"))}
    return {pid for pid in found if not _keeps_log(pid)}


def _keeps_log(pid: int) -> bool:
    with contextlib.suppress(OSError):  # it has ended since
        return "launch.py" in _command(pid) and str(Path(f"/proc/{pid}/fd/0").readlink()).startswith("pipe:")
    return False


def _sockets(pid: int) -> int:
    return sum(str(each.readlink()).startswith("socket:") for each in Path(f"/proc/{pid}/fd").iterdir())


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
