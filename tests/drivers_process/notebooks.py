"""JupyterLab as a notebook and a terminal use it, and a package index that needs no network."""

import http.server
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from websockets.sync.client import unix_connect

from tests.drivers_process.world import Workspace

_SECONDS = 60
_TOKEN = "0123456789abcdef" * 2
_FIELDS = {"Cookie": f"_xsrf={_TOKEN}", "X-XSRFToken": _TOKEN}
_WHEEL = "parcel-1.0-py3-none-any.whl"
_FILES = {
    "parcel.py": "def content():\n    print('kept')\n",
    "parcel-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: parcel\nVersion: 1.0\n",
    "parcel-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "parcel-1.0.dist-info/entry_points.txt": "[console_scripts]\nparcel = parcel:content\n",
    "parcel-1.0.dist-info/RECORD": "",
}


@contextmanager
def package_index() -> Iterator[str]:
    """Serves one small package, `parcel`, with a program of the same name; its URL.

    Not 127.0.0.1, which is the workspace's own.
    """
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in _FILES.items():
            file.writestr(name, text)
    pages = {"/simple/parcel/": f'<a href="/{_WHEEL}">{_WHEEL}</a>'.encode(), f"/{_WHEEL}": wheel.getvalue()}

    class Index(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/zip" if self.path.endswith("whl") else "text/html")
            self.end_headers()
            self.wfile.write(body or b"")

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.2", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.2:{server.server_port}/simple"
        server.shutdown()


class Notebook:
    """One kernel of a JupyterLab that runs."""

    def __init__(self, workspace: Workspace, kernel: str | None = None) -> None:
        status, content = workspace.request(
            "POST", "/api/kernels", json.dumps({"name": kernel} if kernel else {}), _FIELDS
        )
        assert status == 201, content
        self.kernel = json.loads(content)
        path = f"ws://workspace/w/{workspace.id}/api/kernels/{self.kernel['id']}/channels"
        self._stack = ExitStack()
        socket = workspace.endpoint.removeprefix("unix:")
        self._line = self._stack.enter_context(unix_connect(socket, path, open_timeout=_SECONDS))

    def run(self, code: str) -> str:
        """What the cell says; AssertionError with its traceback."""
        header = {
            "msg_id": uuid4().hex,
            "msg_type": "execute_request",
            "username": "",
            "session": "s",
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": True}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self._line.send(json.dumps(message))
        said = ""
        while True:
            told = self._line.recv(timeout=_SECONDS)
            assert isinstance(told, str)
            answer = json.loads(told)
            if answer["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            kind, inside = answer["header"]["msg_type"], answer["content"]
            if kind == "stream":
                said += inside["text"]
            elif kind == "error":
                raise AssertionError("\n".join(inside["traceback"]))
            elif kind == "status" and inside["execution_state"] == "idle":
                return said

    def close(self) -> None:
        self._stack.close()


def in_terminal(workspace: Workspace, *commands: str) -> str:
    """What a terminal of JupyterLab shows until all were run."""
    status, content = workspace.request("POST", "/api/terminals", "{}", _FIELDS)
    assert status == 200, content
    name = json.loads(content)["name"]
    path = f"ws://workspace/w/{workspace.id}/terminals/websocket/{name}"
    shown = ""
    with unix_connect(workspace.endpoint.removeprefix("unix:"), path, open_timeout=_SECONDS) as line:
        for command in (*commands, "echo the-e''nd"):
            line.send(json.dumps(["stdin", f"{command}\n"]))
        while "the-end" not in shown:
            told = json.loads(line.recv(timeout=_SECONDS))
            shown += told[1] if told[0] == "stdout" else ""
    workspace.request("DELETE", f"/api/terminals/{name}", None, _FIELDS)
    return shown


def venv_of(home: Path) -> Path:
    return home / ".local/share/codehub/venv"
