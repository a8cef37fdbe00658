"""What this machine allows, found out once at start by trying it: sandbox, user ids, limits. And launching with it.

`isolation()` says in plain sentences what is in force, for people: nothing weaker is ever used without being said.
"""

import functools
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from codehub.drivers.base import Resources
from codehub.drivers.process import inside, launch, subreaper
from codehub.drivers.process.cgroups import Cgroups
from codehub.drivers.process.job_code import JobCode
from codehub.drivers.process.launcher import Launcher
from codehub.drivers.process.layout import Layout, new_token, write_durably
from codehub.drivers.process.looks import MARK
from codehub.drivers.process.quotas import Quotas
from codehub.drivers.process.records import last_words
from codehub.drivers.process.reserve import Reserve
from codehub.drivers.process.sandbox import ETC_FILES, HOME, Bind, View, arguments, sources_of
from codehub.drivers.process.scripts import Scripts, is_closed
from codehub.drivers.process.seccomp import filter_for
from codehub.drivers.process.trash import Trash
from codehub.errors import ActionFailed, StartError

INSIDE = "/opt/codehub"
SCRIPTS = Path(inside.__file__).parent  # … outside
UNLIMITED = Resources(None, None, None)
NETWORKS = {
    "none": "Workspaces have no network: neither this machine nor the internet can be reached.",
    "internet": "Workspaces reach the public internet by HTTP(S) through a proxy; this machine, private networks and"
    " metadata addresses are refused.",
    "host": "WARNING: workspaces share this machine's network (setting): they can reach every server on it, also those"
    " that listen on 127.0.0.1 only, and the metadata address of a cloud. Their own ports cannot be forwarded.",
}
_FIRST_FREE = 3  # descriptors 0, 1 and 2 are the standard ones
_OPEN_FILES = 65536
_CAP_SYS_RESOURCE = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How workspaces run; the settings of this driver."""

    root: Path
    sandbox: Literal["auto", "required", "off"] = "auto"
    seccomp: Literal["auto", "off"] = "auto"
    network: Literal["internet", "none", "host"] = "internet"  # what workspaces reach; see network.py
    allow: Sequence[str] = ()  # private networks that they may reach all the same, as CIDR
    deny: Sequence[str] = ()  # further networks that they may not
    hosts: Sequence[str] = ()  # HOST:PORT that they may reach wherever it is: the package index
    environment: Mapping[str, str] = field(default_factory=dict)  # of every workspace; no secrets
    users: range = range(1_900_000_000, 1_900_065_536)  # as root: user ids set aside for workspaces, one each
    start_seconds: float = 60.0
    stop_grace: float = 0.0  # seconds between SIGTERM and SIGKILL
    reserve: int | None = None  # bytes of its disk that are kept free; None: the usual share (model/disk.py)
    home_quota: int | None = None  # bytes of one home; None: no limit
    bwrap: str | None = None  # None: found on PATH
    cgroup: Path | None = None  # None: the top of the mounted cgroup v2 tree, if we are root


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One program to start, sandboxed if the machine can."""

    folder: Path  # its record: process.json, sandbox.json and the log are written there
    mark: str
    view: View
    user: int  # who owns the home
    plain: Sequence[str]  # the command where there is no sandbox
    plain_environment: Mapping[str, str]
    plain_folder: Path
    resources: Resources = UNLIMITED
    listen: Sequence[Path] = ()  # unix sockets, inherited as descriptors 3, 4, …
    open: Sequence[Path] = ()  # files, inherited as the descriptors after those
    doze: bool = False  # only wait until somebody needs it; see launch.tend
    input: str | None = None
    cgroup: str | None = None
    wait: bool = False
    file_bytes: int | None = None  # of a single file that it writes
    dialler: int | None = None  # as root: the user who may connect to those in `listen` too


class Machine:
    """What was found out."""

    def __init__(self, options: Options, layout: Layout) -> None:
        self.options = options
        self.layout = layout
        self.is_root = os.geteuid() == 0
        self.users = options.users if self.is_root else None
        self.is_oom_score_final = _has(_CAP_SYS_RESOURCE)  # whoever raised it so, and nobody less, lowers it again
        self.etc = {name: layout.root / "etc" / name for name in ETC_FILES}
        self._scripts: Scripts | None = None
        self.job_code = JobCode(layout, for_others=False)
        self.bwrap: str | None = None
        self.no_sandbox = "it is switched off"
        self.seccomp: bytes | None = None  # the filter on system calls
        self.no_seccomp = "it is switched off"
        self.cgroups: Cgroups | None = None
        self.prlimit = shutil.which("prlimit")
        self.trash = Trash(layout)
        self._launcher = Launcher()
        self.reserve = Reserve(layout, options.reserve)
        self.quotas: Quotas | None = None
        self.no_quotas = "CodeHub is not root"

    def find_out(self) -> None:
        """Try what is wanted; raises StartError if a sandbox is required and cannot be had."""
        self._write_etc()
        self.cgroups = Cgroups.find(self.layout.cgroup(), self.options.cgroup)
        if self.options.seccomp == "auto":
            self.seccomp = filter_for(os.uname().machine)
            self.no_seccomp = f"there is none for {os.uname().machine}"
        if self.options.sandbox != "off":
            self._find_sandbox()
        if self.bwrap is None:
            self._try_without_sandbox()
        if self.options.sandbox == "required" and self.bwrap is None:
            raise StartError(f"Workspaces cannot be sandboxed: {self.no_sandbox}.", "Install bubblewrap.")
        if self.options.sandbox == "auto":
            self._check_not_weaker()
        if self.bwrap is not None or (self.is_root and is_closed(SCRIPTS)):
            self._scripts = Scripts(SCRIPTS, self.layout)
        self.job_code = JobCode(self.layout, for_others=self.is_root)
        if self.options.home_quota is not None and self.users is not None:
            self._find_quotas(Quotas(self.options.home_quota), self.users[0])

    def _find_quotas(self, quotas: Quotas, project: int) -> None:
        """The project is that of no home yet, or of one that the same limit is for."""
        probe = self.layout.draft(self.layout.homes / "probe")
        problem = quotas.try_out(probe, project)
        probe.rmdir()
        if problem is not None:
            self.no_quotas = f"the file system of {self.layout.homes} has no project quotas in force ({problem})"
        else:
            self.quotas = quotas

    def _check_not_weaker(self) -> None:
        """Once there was a sandbox, going without is a person's decision, not an accident's."""
        before = self.layout.root / "sandboxed"
        if self.bwrap is not None and not before.exists():
            write_durably(before, "")
        elif self.bwrap is None and before.exists():
            raise StartError(
                f"Workspaces were sandboxed until now and cannot be any more: {self.no_sandbox}.",
                f"Mend that, or remove {before} to go on without a sandbox.",
            )

    def _write_etc(self) -> None:
        """A file that is right is left alone: another process of ours may be showing it to a sandbox right now."""
        folder = self.layout.root / "etc"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        for name, text in ETC_FILES.items():
            if not self.etc[name].exists() or self.etc[name].read_text() != text:
                write_durably(self.etc[name], text, 0o644)

    @property
    def scripts(self) -> Path:
        """What we run inside sandboxes."""
        return self._scripts.path if self._scripts is not None else SCRIPTS

    @property
    def copies(self) -> list[Path]:
        """What is needed of layout.scripts."""
        return [path for path in (self.scripts, self.job_code.copy) if path is not None]

    def runnable(self, script: str) -> str:
        """What of them to run as a main program."""
        return self._scripts.runnable(script) if self._scripts is not None else script

    @property
    def python(self) -> Path:
        """Ours, by the name under which a workspace's user finds it (base_binds)."""
        return _resolved(sys.executable)

    def is_own(self, user: int) -> bool:
        """Whether it is one set aside for workspaces: a home from before we were root is its person's."""
        return self.users is not None and user in self.users

    @property
    def needs_subreaper(self) -> bool:
        """Whether neither a pid namespace nor a user id of its own tells what a workspace has started."""
        return self.bwrap is None and not self.is_root

    def subreaper(self, folder: Path) -> list[str]:
        """Goes before the command of a workspace; `folder` is its record."""
        if not self.needs_subreaper:
            return []
        return [str(self.python), "-I", "-S", "-B", subreaper.__file__, str(folder)]

    def isolation(self) -> list[str]:
        """What keeps workspaces apart, and what does not."""
        lines = []
        if self.bwrap is not None:
            lines.append("Each workspace runs in a sandbox (bubblewrap) that shows it its own home and processes only.")
            lines.append(NETWORKS[self.options.network])
        else:
            lines.append(f"WARNING: workspaces run without a sandbox, because {self.no_sandbox}.")
            lines.append("WARNING: they see this machine's files and processes, and reach every server on it.")
            lines.append("Ports that they listen on cannot be forwarded: they are this machine's.")
        if self.is_root:
            lines.append("Each workspace runs under a user id of its own.")
        elif self.bwrap is None:
            lines.append("WARNING: they run as your own user: any of them can read and change all your files.")
            if self.seccomp is None:
                lines.append("WARNING: they reach the keys of your own user (keyrings), and share a keyring by it.")
        return [
            *lines,
            self._calls(),
            self._limits(),
            *([] if self.is_oom_score_final else ["Workspaces can undo that memory which runs out ends them first."]),
            self._disk_limits(),
        ]

    def _calls(self) -> str:
        if self.seccomp is not None:
            return "System calls that a container does not get by default are refused (seccomp)."
        return f"WARNING: system calls of workspaces are not filtered, because {self.no_seccomp}."

    def _limits(self) -> str:
        by_group = self.cgroups.controllers if self.cgroups else frozenset()
        if by_group >= {"memory", "pids", "cpu"}:
            return "Memory, processors and processes of each workspace are limited (cgroup v2)."
        rest = "the number of processes, and the memory of each single process" if self.bwrap else "nothing"
        found = f"cgroup v2 limits only: {', '.join(sorted(by_group))}" if by_group else "there is no cgroup v2 to use"
        return f"WARNING: processors and total memory are not all limited ({found}); limited is {rest}."

    def _disk_limits(self) -> str:
        size = self.options.home_quota
        reserve = "no reserve of the disk is kept free." if self.options.reserve == 0 else "a reserve is kept free."
        if size is None:
            return f"The disk space of a home is not limited; {reserve}"
        told = f"{size >> 20} MiB of disk space"
        if self.quotas is None:
            told = f"WARNING: homes are not limited to {told}, because {self.no_quotas}"
            return f"{told}; no single file of a workspace may be larger; {reserve}"
        if self.bwrap is None:
            undone = "which a workspace without a sandbox can undo"
            return f"WARNING: each home made since is limited to {told}, {undone}; {reserve}"
        return f"Each home made since is limited to {told} by the file system; {reserve}"

    def _find_sandbox(self) -> None:
        self.bwrap = self.options.bwrap or shutil.which("bwrap")
        if self.bwrap is None:
            self.no_sandbox = "bubblewrap (bwrap) is not installed"
            return
        problem = self._problem()
        if problem is None:
            return
        seccomp, self.seccomp = self.seccomp, None
        if seccomp is not None and self._problem() is None:
            self.no_seccomp = f"it was tried and failed ({problem})"
        else:
            self.bwrap, self.seccomp = None, seccomp
            self.no_sandbox = f"it was tried and failed ({problem})"

    def _try_without_sandbox(self) -> None:
        if self.seccomp is not None and (problem := self._problem()) is not None:
            self.seccomp, self.no_seccomp = None, f"it was tried and failed ({problem})"

    def _problem(self) -> str | None:
        """Why a program cannot be started in the way that we mean to; None if it can."""
        home = self.layout.draft(Path("probe"))
        record = self.layout.draft(Path("probe"))
        try:
            user = self.users[0] if self.users else os.geteuid()
            os.chown(home, user, user if self.users else -1)
            touch = shutil.which("touch") or "/usr/bin/touch"
            view = View([Bind(home, HOME, writable=True)], {}, ["/usr/bin/touch", f"{HOME}/it-works"])
            self.launch(
                Launch(
                    folder=record, mark=new_token(), view=view, user=user, plain=[touch, "/dev/null"],
                    plain_environment={}, plain_folder=Path("/"), wait=True,
                )
            )  # fmt: skip
        except ActionFailed as error:
            return last_words(record / "log", 3).strip() or error.message
        finally:
            shutil.rmtree(home, ignore_errors=True)
            shutil.rmtree(record, ignore_errors=True)
        return None

    def etc_files(self, *, network: bool) -> dict[str, Path]:
        """Our versions of files in /etc; with a network, how this machine looks up names."""
        resolver = Path("/etc/resolv.conf")
        return {**self.etc, "resolv.conf": resolver.resolve()} if network and resolver.exists() else dict(self.etc)

    def base_binds(self) -> list[Bind]:
        """Our scripts, and the Python that runs them where it is not one of the system's."""
        return [Bind(self.scripts, INSIDE), *self.python_binds()]

    def python_binds(self) -> list[Bind]:
        if self.python.is_relative_to("/usr"):
            return []
        prefix = _resolved(sys.base_prefix)
        return [Bind(prefix, str(prefix))]

    def launch(self, *whats: Launch) -> None:
        """Start them in this order; what each becomes is written in its folder by itself: nothing is lost if we die.

        What is launched together is in one group, with the limits of the last.
        """
        last = whats[-1]
        procs = self.cgroups.make(last.cgroup, last.resources) if self.cgroups and last.cgroup else None
        self._launcher.launch([self._plan(what, procs) for what in whats])

    def close(self) -> None:
        """What runs goes on running."""
        self.trash.close()
        self._launcher.close()
        self.job_code.close()
        if self._scripts is not None:
            self._scripts.close()

    def _plan(self, what: Launch, procs: Path | None) -> dict[str, object]:
        inherited = _FIRST_FREE + len(what.listen) + len(what.open)
        info = inherited if self.bwrap and not what.doze else None
        seccomp = inherited + (info is not None) if self.seccomp is not None else None
        # Without a sandbox it sees this machine's own /etc.
        sources = sources_of(what.view if self.bwrap else replace(what.view, etc={}))
        found = {source: f"{launch.STAGE}/{number}" for number, source in enumerate(sources)}
        if self.bwrap is not None:
            view = self._limited(what.view, what.resources)
            command = arguments(self.bwrap, view, found if self.is_root else {}, info, seccomp)
        else:
            command = list(what.plain)
        environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"} if self.bwrap else dict(what.plain_environment)
        return {
            # One that dozes is known by its mark alone: nobody asks whether it lives.
            "record": None if what.doze else str(what.folder / "process.json"),
            "info": str(what.folder / "sandbox.json") if info is not None else None,
            "log": str(what.folder / "log"),
            "input": what.input,
            "listen": [str(path) for path in what.listen],
            "open": [str(path) for path in what.open],
            "doze": what.doze,
            "mark": [MARK, what.mark],
            "dialler": what.dialler if self.is_root else None,
            "cgroups": [str(procs)] if procs else [],
            "stage": [str(source) for source in sources] if self.is_root else [],
            "limits": {"CORE": 0, "NOFILE": _OPEN_FILES}
            | ({"FSIZE": what.file_bytes} if what.file_bytes is not None else {}),
            "user": what.user if self.is_root else None,
            "seccomp": self.seccomp.hex() if self.seccomp is not None else None,
            "sandboxed": self.bwrap is not None,
            "folder": "/" if self.bwrap else str(what.plain_folder),
            "command": command,
            "environment": environment | {MARK: what.mark},
            "wait": what.wait,
        }

    def _limited(self, view: View, resources: Resources) -> View:
        """Set inside, where the kernel counts only the sandbox's own processes; it cannot be raised again there."""
        words = []
        if self.prlimit and resources.pids is not None:
            words.append(f"--nproc={resources.pids}")
        if self.prlimit and resources.memory_bytes is not None:
            words.append(f"--data={resources.memory_bytes}")
        if not words or self.prlimit is None:
            return view
        return View(
            view.binds, view.environment, [self.prlimit, *words, "--", *view.command], view.host_network,
            view.tmp_bytes, view.folder, view.etc,
        )  # fmt: skip


def _has(capability: int) -> bool:
    """Whether this process has it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return any(int(line.split()[1], 16) >> capability & 1 for line in lines if line.startswith("CapEff:"))


@functools.cache
def _resolved(path: str) -> Path:
    return Path(path).resolve()
