"""Ports inside a workspace, reached over the socket beside the IDE's: those of its own loopback and nothing else."""

import asyncio
import hashlib
import os
import shutil
import socket
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from codehub.drivers.process import Options
from codehub.drivers.process.network import PORT as WAY_OUT
from tests.drivers_process.world import Workspace, World
from tests.support import eventually, missing, needs_sandbox, short_folder

SERVER, ONLY_IPV6, FLOOD, NOBODY = 4001, 4002, 4003, 4999
# Answers with a hash of all it was sent, once the other side has ended its half; floods whoever asks for that.
PROGRAM = f"""
import hashlib, pathlib, socket, threading
def digest(connection):
    found = hashlib.sha256()
    while block := connection.recv(65536):
        found.update(block)
    connection.sendall(found.hexdigest().encode())
    connection.close()
def flood(connection):
    sent = 0
    while True:
        sent += connection.send(bytes(65536))
        pathlib.Path("flooded").write_text(str(sent))
def serve(address, family, answer):
    with socket.create_server((address, port_of[answer, family]), family=family, backlog=128) as server:
        while True:
            threading.Thread(target=answer, args=[server.accept()[0]], daemon=True).start()
port_of = {{
    (digest, socket.AF_INET): {SERVER}, (digest, socket.AF_INET6): {ONLY_IPV6}, (flood, socket.AF_INET): {FLOOD},
}}
for answer, family in port_of:
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    threading.Thread(target=serve, args=[address, family, answer]).start()
"""


@pytest.fixture(scope="module")
async def workspace(world: World) -> AsyncIterator[Workspace]:
    workspace = await world.start()
    workspace.request("PUT", "/files/server.py", PROGRAM.encode())
    workspace.run("setsid python3 server.py > /dev/null 2>&1 &")
    eventually(lambda: all(_serves(workspace, port) for port in (SERVER, FLOOD)), "they serve")
    yield workspace
    await world.driver.instances.remove(workspace.id)


def _serves(workspace: Workspace, port: int) -> bool:
    return not workspace.run(f"bash -c 'echo > /dev/tcp/127.0.0.1/{port}' 2>&1")


def ports_of(workspace: Workspace) -> Path:
    return Path(workspace.endpoint.removeprefix("unix:")).with_name("ports")


@contextmanager
def asking(workspace: Workspace, first: bytes) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(ports_of(workspace)))
        connection.sendall(first)
        yield connection


def received(connection: socket.socket) -> bytes:
    content = b""
    with suppress(ConnectionResetError):  # of what it did not care to read
        while block := connection.recv(65536):
            content += block
    return content


def hashed(workspace: Workspace, port: int, content: bytes) -> str:
    """What the server inside says to it: that takes a connection that is closed one half after the other."""
    with asking(workspace, f"{port}\n".encode()) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        return received(connection).decode()


@pytest.mark.parametrize("port", [SERVER, ONLY_IPV6])
def test_a_port_inside_is_reached(workspace: Workspace, port: int) -> None:
    if port == ONLY_IPV6 and not Path("/proc/net/if_inet6").exists():
        missing("IPv6 in the kernel", "-")
    for size in (0, 1, 3_000_000):
        content = os.urandom(size)
        assert hashed(workspace, port, content) == hashlib.sha256(content).hexdigest()


def test_many_at_once_do_not_mix(workspace: Workspace) -> None:
    answers: dict[int, str] = {}

    def one(number: int) -> None:
        answers[number] = hashed(workspace, SERVER, str(number).encode() * 1000)

    threads = [threading.Thread(target=one, args=[number]) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {number: hashlib.sha256(str(number).encode() * 1000).hexdigest() for number in range(40)}


def test_a_slow_reader_slows_the_server_down(workspace: Workspace) -> None:
    """The server inside stops sending when nobody reads: what waits on the way is bounded."""
    flooded = workspace.home / "flooded"
    with asking(workspace, f"{FLOOD}\n".encode()) as connection:
        connection.recv(1)
        seen: list[str] = []

        def stands_still() -> bool:
            seen.append(flooded.read_text())
            return len(seen) > 20 and seen[-1] == seen[-20] != ""

        eventually(stands_still, "it stops sending")
        assert int(seen[-1]) < 32 << 20


@pytest.mark.parametrize(
    "first",
    [
        b"\n", b"0\n", b"-1\n", b"65536\n", b"99999\n", b"4001", b"04001\n", b" 4001\n", b"4001 \n", b"4001\r\n",
        b"+4001\n", b"4_001\n", b"\xd9\xa4\n", b"localhost:4001\n", b"GET / HTTP/1.1\r\n\r\n", b"\0\n", b"123456\n",
        b"x" * 1_000_000,
    ],
)  # fmt: skip
def test_what_is_no_port_ends_the_connection(workspace: Workspace, first: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(4)  # less than it waits for somebody who says nothing
        connection.connect(str(ports_of(workspace)))
        with suppress(BrokenPipeError):
            connection.sendall(first)
        if first == f"{SERVER}".encode():
            connection.shutdown(socket.SHUT_WR)  # a number that never ends
        assert received(connection) == b""
    assert hashed(workspace, SERVER, b"still") == hashlib.sha256(b"still").hexdigest()


def test_who_says_nothing_is_not_waited_for(workspace: Workspace) -> None:
    with asking(workspace, b"40") as connection:
        assert received(connection) == b""


@pytest.mark.parametrize("port", [NOBODY, WAY_OUT])
def test_a_port_that_nobody_serves_and_the_way_out_are_refused_at_once(workspace: Workspace, port: int) -> None:
    with asking(workspace, f"{port}\nGET http://127.0.0.1/ HTTP/1.1\r\n\r\n".encode()) as connection:
        connection.settimeout(4)
        assert received(connection) == b""


def test_a_server_of_this_machine_is_not_reached(workspace: Workspace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        with asking(workspace, f"{server.getsockname()[1]}\n".encode()) as connection:
            assert received(connection) == b""
        with pytest.raises(BlockingIOError):
            server.accept()


def test_only_we_can_dial_it(workspace: Workspace) -> None:
    ide, ports = Path(workspace.endpoint.removeprefix("unix:")).stat(), ports_of(workspace).stat()
    assert (ports.st_uid, ports.st_gid, ports.st_mode) == (ide.st_uid, ide.st_gid, ide.st_mode)
    assert stat.S_IMODE(ports_of(workspace).parent.stat().st_mode) == 0o700
    assert ports_of(workspace).parent.stat().st_uid == os.geteuid()


def test_the_workspace_does_not_hold_the_socket_itself(workspace: Workspace) -> None:
    """Its IDE has the one it serves; what carries bytes beside it has the other."""
    held = workspace.run("for fd in /proc/$PPID/fd/*; do readlink $fd; done; true")
    assert held.count("socket:") <= 2  # its listener, and the connection that this came over


async def test_one_that_is_killed_takes_nothing_with_it(world: World) -> None:
    """The IDE is the workspace: what stands beside it may end, and it goes on."""
    workspace = await world.start()
    assert ports_of(workspace).exists()
    workspace.run(r"pkill -9 -P $PPID -f '^\S*python\S* -I -S -B \S*/(beside|carry)[.]'")
    eventually(lambda: _is_refused(workspace), "it is dead")
    assert workspace.request("GET", "/")[0] == 200
    assert (await world.driver.instances.look(workspace.id)).endpoint == workspace.endpoint
    await world.driver.instances.remove(workspace.id)


def _is_refused(workspace: Workspace) -> bool:
    try:
        with asking(workspace, b"0\n"):
            return False
    except ConnectionRefusedError:
        return True


async def test_it_ends_with_its_workspace_and_leaves_nothing(world: World) -> None:
    workspace = await world.start()
    place = ports_of(workspace)
    with asking(workspace, f"{NOBODY}\n".encode()) as connection:
        await world.driver.instances.remove(workspace.id)
        assert received(connection) == b""
    assert not place.parent.exists()


@pytest.mark.parametrize("options", [{"network": "host"}, {"sandbox": "off"}], ids=str)
async def test_there_is_none_where_the_loopback_is_this_machines(options: dict[str, str]) -> None:
    folder = short_folder()
    world = World(Options(root=folder / "w", **options))  # type: ignore[arg-type]  # what each test changes
    workspace = await world.start()
    assert workspace.request("GET", "/")[0] == 200
    assert not ports_of(workspace).exists()
    assert any("forwarded" in line for line in world.driver.isolation())
    await world.close()
    await asyncio.to_thread(shutil.rmtree, folder)


async def test_there_is_one_without_a_way_out() -> None:
    folder = short_folder()
    world = World(Options(root=folder / "w", network="none"))
    needs_sandbox(world.driver)
    workspace = await world.start()
    workspace.run(f"setsid python3 -m http.server {WAY_OUT} --bind 127.0.0.1 > /dev/null 2>&1 &")
    eventually(lambda: _serves(workspace, WAY_OUT), "it serves")
    with asking(workspace, f"{WAY_OUT}\nGET / HTTP/1.0\r\n\r\n".encode()) as connection:
        assert received(connection).startswith(b"HTTP/1.0 200 ")
    await world.close()
    await asyncio.to_thread(shutil.rmtree, folder)
