"""JupyterHub as a peer: installed once outside the tree, run with its proxy, and asked to start servers.

It is what its documentation says for one machine, with SimpleLocalProcessSpawner and its own limits (100 spawns at
once): nothing is made slower, and nothing is switched on that it does not need. What its servers run is the tiny
workspace of CodeHub's own tests, compiled before as it is there, without a sandbox. Everything it started ends with it.
"""

import asyncio
import ctypes
import hashlib
import os
import py_compile
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
from uv import find_uv_bin

from bench.caller import Caller
from bench.measured import descendants
from codehub.drivers.process.inside import tiny
from tests.lab.places import lab_folder
from tests.support import eventually, free_port

LOCKED = Path(__file__).with_name("jupyterhub.txt")
PROXY = "configurable-http-proxy@5.3.0"
_PR_SET_CHILD_SUBREAPER = 36
_START_SECONDS = 60.0

CONFIG = """
from jupyterhub.spawner import SimpleLocalProcessSpawner

class Tiny(SimpleLocalProcessSpawner):
    def get_args(self):
        return ["--host", "127.0.0.1", "--port", str(self.port)]

c.JupyterHub.spawner_class = Tiny
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{hub}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.ConfigurableHTTPProxy.command = [{chp!r}]
c.JupyterHub.authenticator_class = "null"
c.JupyterHub.log_level = "WARN"
c.JupyterHub.services = [dict(name="bench", api_token={token!r})]
c.JupyterHub.load_roles = [dict(name="bench", services=["bench"], scopes=["admin:users", "admin:servers"])]
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/home/{{username}}"
c.Spawner.cmd = [{python!r}, "-I", "-S", "-B", {tiny!r}]
"""


@dataclass(frozen=True)
class Hub:
    """One that runs."""

    url: str
    token: str
    pid: int

    def caller(self) -> Caller:
        return Caller(self.url, {"Authorization": f"token {self.token}"})

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"token {self.token}"},
            limits=httpx.Limits(max_connections=None),
            timeout=120,
            trust_env=False,
        )


def installed() -> tuple[Path, Path]:
    """Its program and its proxy's; minutes the first time."""
    made_from = f"{PROXY}\n{sys.version}\n{LOCKED.read_text()}"
    folder = lab_folder() / f"jupyterhub-{hashlib.sha256(made_from.encode()).hexdigest()[:12]}"
    python, ready = folder / "bin/python", folder / "ready"
    if not ready.exists():
        environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "UV_SYSTEM_CERTS": "true"}
        uv = find_uv_bin()
        for command in (
            (uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)),
            (uv, "pip", "sync", "--quiet", "--python", str(python), "--require-hashes", str(LOCKED)),
            (str(python), "-m", "compileall", "-q", str(folder / "lib")),
            ("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), PROXY),
        ):
            subprocess.run(command, check=True, env=environment)
        ready.touch()
    return folder / "bin/jupyterhub", folder / "node_modules/.bin/configurable-http-proxy"


@contextmanager
def running(folder: Path) -> Iterator[Hub]:
    """Until the end of the block; then nothing that it started is left."""
    program, proxy = installed()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what its servers leave behind becomes ours to end
    port, token = free_port(), uuid4().hex
    (folder / "home").mkdir()
    compiled = py_compile.compile(tiny.__file__, str(folder / "tiny.pyc"), doraise=True)
    config = folder / "jupyterhub_config.py"
    config.write_text(
        CONFIG.format(
            port=port, hub=free_port(), proxy=free_port(), chp=str(proxy), token=token, folder=folder,
            python=str(Path(sys.executable).resolve()), tiny=compiled,
        )
    )  # fmt: skip
    hub = Hub(f"http://127.0.0.1:{port}", token, 0)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "--config", str(config)],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": uuid4().hex},
        )  # fmt: skip
    try:
        eventually(lambda: _answers(hub, process), f"JupyterHub ({folder / 'log'})", _START_SECONDS)
        yield Hub(hub.url, token, process.pid)
    finally:
        theirs = descendants(process.pid)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        _end(theirs)


def _answers(hub: Hub, process: "subprocess.Popen[bytes]") -> bool:
    if process.poll() is not None:
        raise SystemExit("JupyterHub ended at once")
    with suppress(httpx.HTTPError):
        return httpx.get(f"{hub.url}/hub/api/", trust_env=False).status_code == httpx.codes.OK
    return False


def end_orphans(but: set[int]) -> None:
    """What servers that were stopped have left behind."""
    _end(descendants(os.getpid()) - {os.getpid()} - but)


def _end(pids: set[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


async def stopped(client: httpx.AsyncClient, names: list[str]) -> None:
    """Return when none of these servers runs."""
    await asyncio.gather(*(client.delete(f"/hub/api/users/{name}/server") for name in names))
    async with asyncio.timeout(120):
        while True:
            users = (await client.get("/hub/api/users", params={"limit": len(names)})).json()
            if not any(user["server"] or user["pending"] for user in users):
                return
            await asyncio.sleep(0.2)
