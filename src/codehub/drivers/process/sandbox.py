"""What a sandboxed program sees of the machine: the arguments for bubblewrap. Pure.

Everything is absent unless named here: the system's programs and a few files of /etc read-only, a /tmp, /dev and /proc
of its own, and the one home at /home/coder. Inside it is uid 1000 without capabilities and cannot get any (no new
privileges, no further user namespaces); it sees no process but its own and, unless asked for, no network at all.
It must not die with us: nothing here ties it to its launcher.
"""

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HOME = "/home/coder"
USER_ID = 1000
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
_TMP_BYTES = 1 << 30
_SHM_BYTES = 256 << 20
_MOMENT_SECONDS = 5.0

# Programs and libraries, wherever the distribution has them; a symlink stays one.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# Of /etc only what programs need to run: no passwords, keys or host names.
_ETC = (
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
)
_ETC_JAVA = "java-*-openjdk"  # Debian's: without its `java.security` no program in Java starts
ETC_FILES: Mapping[str, str] = {
    "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\ncoder:x:{USER_ID}:{USER_ID}:coder:{HOME}:/bin/bash\n",
    "group": f"root:x:0:\ncoder:x:{USER_ID}:\n",
    "hosts": "127.0.0.1 localhost workspace\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


@dataclass(frozen=True, slots=True)
class Bind:
    """Something of the machine that is shown inside."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What one program gets to see, besides the system."""

    binds: Sequence[Bind]
    environment: Mapping[str, str]
    command: Sequence[str]
    host_network: bool = False
    tmp_bytes: int = _TMP_BYTES
    folder: str = HOME
    etc: Mapping[str, Path] = field(default_factory=dict)  # our own versions of files in /etc


def arguments(
    bwrap: str, view: View, sources: Mapping[Path, str], info: int | None, seccomp: int | None = None
) -> list[str]:
    """The command line. `sources` says where a bind's source is to be found.

    `info` is the descriptor that gets its pid, `seccomp` the one that has the filter on system calls: that is put in
    force when the sandbox is made, for its first process too.
    """
    words = [bwrap, "--unshare-user", "--uid", str(USER_ID), "--gid", str(USER_ID), "--disable-userns"]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "workspace"]
    words += [] if view.host_network else ["--unshare-net"]
    words += ["--cap-drop", "ALL", "--new-session", "--clearenv"]
    words += ["--info-fd", str(info)] if info is not None else []
    words += ["--seccomp", str(seccomp)] if seccomp is not None else []
    words += system_words()
    for name, path in view.etc.items():
        words += ["--ro-bind-try", sources.get(path, str(path)), f"/etc/{name}"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--size", str(_SHM_BYTES), "--tmpfs", "/dev/shm"]  # noqa: S108 - inside the sandbox
    words += ["--remount-ro", "/dev"]  # it is memory too, without a size: only what is mounted in it can be written
    words += ["--perms", "1777", "--size", str(view.tmp_bytes), "--tmpfs", "/tmp"]  # noqa: S108 - inside the sandbox
    for bind in view.binds:
        how = "--bind" if bind.writable else "--ro-bind"
        words += [how, sources.get(bind.source, str(bind.source)), bind.target]
    words += ["--remount-ro", "/", "--chdir", view.folder]
    for name, value in view.environment.items():
        words += ["--setenv", name, value]
    return [*words, "--", *view.command]


def system_words() -> list[str]:
    """The system's own folders, as this machine has them; looked at once for all that start within a moment.

    A way out is made long after: what the machine has lost by then (an upgrade) is left out, not a reason to fail.
    """
    return _system_words(int(time.monotonic() / _MOMENT_SECONDS))


@functools.lru_cache(maxsize=1)
def _system_words(_moment: int) -> list[str]:
    words: list[str] = []
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            words += ["--ro-bind-try", name, name]
    words += ["--perms", "0755", "--dir", "/etc"]
    for path in [*map(Path, _ETC), *sorted(Path("/etc").glob(_ETC_JAVA))]:
        name = str(path)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.exists():
            words += ["--ro-bind-try", name, name]
    return words


def sources_of(view: View) -> list[Path]:
    """Every source outside the system's folders, each once: what the launcher must make reachable."""
    return list(dict.fromkeys([*(bind.source for bind in view.binds), *view.etc.values()]))
