"""Runs one program and ends with it, and with everything that it started. A script; imports the standard library only.

    subreaper.py FOLDER COMMAND…

For workspaces of an ordinary user without a sandbox: neither a pid namespace nor a user id tells what is theirs. A
process that leaves its session and loses its parent comes to us (PR_SET_CHILD_SUBREAPER), whatever it did to its
environment and its files. When the program ends, or on SIGUSR1, we kill our children until the kernel says that there
are none: then nothing of it is left, however it was made. After SIGUSR2 the others have time to end by themselves when
the program has ended, until SIGUSR1. Only then is FOLDER/ended written: who finds us dead and no such file knows that
something may be left, and FOLDER/subreaper.json says where to look for it (lost_subreapers.py).

What else is sent to us is ignored: the program gets its own, and we end with it.
"""

import ctypes
import json
import os
import signal
import sys
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
END, GRACE = signal.SIGUSR1, signal.SIGUSR2
POLL_SECONDS = 0.01
FIRST_FREE, MOST_INHERITED = 3, 256

_libc = ctypes.CDLL(None, use_errno=True)


def run(command: list[str]) -> NoReturn:
    """Become the program, in a session of its own: whoever kills its own group does not kill us."""
    try:
        os.setsid()
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # as Python found them
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.execve(command[0], command, os.environ)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(126)


def watch(program: int) -> None:
    """Return when the program has ended, or we are asked to end it; in a grace, when nothing is left."""
    is_grace = False
    while (number := signal.sigwait({signal.SIGCHLD, END, GRACE})) != END:
        is_grace = is_grace or number == GRACE
        while (ended := reaped()) != 0:
            if ended is None or (ended == program and not is_grace):
                return


def reaped() -> int | None:
    """A child that has ended; 0 if none has, None if there is no child at all."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return None


def end_all() -> None:
    """Only children are killed: nobody but us can give their pids back. What they started comes to us as they end."""
    while (ended := reaped()) is not None:
        if ended == 0:
            for pid in children():
                os.kill(pid, signal.SIGKILL)
            signal.sigtimedwait({signal.SIGCHLD}, POLL_SECONDS)


def children() -> list[int]:
    ours = str(os.getpid()).encode()
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_of(name) == ours]  # noqa: PTH208


def parent_of(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib is dear here
            return file.read().rpartition(b")")[2].split()[1]
    except OSError:
        return b""


def ancestors() -> list[int]:
    """Who gets what we have adopted, should we be killed: one of these."""
    found = [os.getppid()]
    while (parent := parent_of(str(found[-1]))) not in (b"", b"0"):
        found.append(int(parent))
    return found


def write(path: str, text: str) -> None:
    """A draft of a file is no file: it appears whole."""
    with open(f"{path}.new", "w") as file:  # noqa: PTH123 - as above
        file.write(text)
    os.rename(f"{path}.new", path)  # noqa: PTH104 - as above


def main() -> None:
    folder, *command = sys.argv[1:]
    os.umask(0o077)
    with open("/proc/self/cgroup") as file:  # noqa: PTH123 - as above
        write(f"{folder}/subreaper.json", json.dumps({"ancestors": ancestors(), "cgroup": file.read()}))
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, END, GRACE})
    program = os.fork()
    if program == 0:
        run(command)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(FIRST_FREE, MOST_INHERITED)  # its sockets are its own
    os.chdir("/")
    watch(program)
    end_all()
    write(f"{folder}/ended", "")


if __name__ == "__main__":
    main()
