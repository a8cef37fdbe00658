"""How a workspace reaches the internet, and nothing of this machine; and how its own ports are reached.

A workspace always has a network namespace of its own (unless the setting says `host`), with nothing in it but its own
loopback. With `internet` a second, smaller sandbox stands beside it: it has the machine's network and no files, and
runs an HTTP proxy that dials public addresses only (inside/egress.py). The two share one unix socket; inside the
workspace a port on its loopback leads there (inside/beside.py), and HTTP_PROXY and its like name that port. Before the
first connection neither is more than a process that waits: the second sandbox is made then (launch.py, `tend`), and
most workspaces never make one. If it cannot be made, or ends, the next connection makes it again.

The other way round, a visitor reaches a port of the workspace's loopback over a unix socket that is called `ports` and
lies beside the one of the IDE (inside/carry.py). There is none where the loopback is this machine's: without a sandbox
and with `host` that socket would lead to every server that trusts 127.0.0.1.

Why not a user-mode network (slirp4netns, pasta)? Those connect from the machine's own network: its servers, its
neighbours and the metadata address would all be reached. What a proxy costs: only programs that know HTTP proxies get
out (pip, npm, git over https, curl do; ping does not). For ssh there is a ProxyCommand in /etc/ssh/ssh_config.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from codehub.drivers.process.layout import write_durably
from codehub.drivers.process.machine import INSIDE, SCRIPTS, Launch, Machine, Options
from codehub.drivers.process.records import Record
from codehub.drivers.process.sandbox import Bind, View

PORT = 3128
PORTS_DESCRIPTOR = 4  # after the socket of the IDE
_SCRIPT_DESCRIPTOR = 4  # after the one socket of the way out
_SOCKET = "/run/codehub/outward"
_TMP_BYTES = 16 << 20


def has_way_out(machine: Machine) -> bool:
    return machine.bwrap is not None and machine.options.network == "internet"


def has_ports(machine: Machine) -> bool:
    """Whether a workspace has a loopback of its own."""
    return machine.bwrap is not None and machine.options.network != "host"


def way_out(machine: Machine, record: Record, user: int, socket: Path) -> Launch:
    """The second sandbox, for when it is needed. It has the instance's mark, and is killed with it."""
    view = View(
        binds=machine.python_binds(),
        environment={"LANG": "C.UTF-8"},
        command=[*_python(machine), f"/proc/self/fd/{_SCRIPT_DESCRIPTOR}", *_words(machine.options)],
        host_network=True,
        tmp_bytes=_TMP_BYTES,
        folder="/",
        etc=machine.etc_files(network=True),
    )
    return Launch(
        folder=record.folder, mark=record.mark, view=view, user=user, listen=[socket], dialler=user,
        open=[SCRIPTS / "egress.py"],  # now: an upgrade may have replaced it by then
        doze=True, plain=[], plain_environment={}, plain_folder=record.folder,
    )  # fmt: skip


def bind(socket: Path) -> Bind:
    return Bind(socket, _SOCKET)


def command(machine: Machine) -> list[str]:
    """Goes before the command of the IDE."""
    if not has_ports(machine):
        return []
    out = [str(PORT), _SOCKET] if has_way_out(machine) else ["-", "-"]
    return [*script(machine, "beside.py"), *out, str(PORTS_DESCRIPTOR)]


def script(machine: Machine, name: str) -> list[str]:
    """One of ours: without the machine's own packages (-S), which would be looked through at each start."""
    return [*_python(machine), f"{INSIDE}/{machine.runnable(name)}"]


def _python(machine: Machine) -> list[str]:
    return [str(machine.python), "-I", "-S", "-B"]


def environment() -> Mapping[str, str]:
    proxy = f"http://127.0.0.1:{PORT}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    both = {spelt: proxy for name in names for spelt in (name, name.lower())}
    told = {"PROMPT_COMMAND": f". {INSIDE}/refusals.sh"}  # bash says why something was refused
    return {**both, **told, "NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1"}


def ssh_config(machine: Machine) -> Path:
    """Kept beside our other files for /etc; written again when what it names has changed."""
    words = " ".join(script(machine, "connect.py"))
    text = f"Host * !localhost !127.0.0.1\n    ProxyCommand {words} {PORT} %h %p\n"
    path = machine.layout.root / "etc" / f"ssh_config-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if not path.exists():
        write_durably(path, text, 0o644)
    return path


def _words(options: Options) -> list[str]:
    allowed = [word for network in options.allow for word in ("--allow", network)]
    opened = [word for host in options.hosts for word in ("--open", host)]
    return [*allowed, *(word for network in options.deny for word in ("--deny", network)), *opened]
