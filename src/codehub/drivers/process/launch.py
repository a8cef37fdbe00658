"""Starts programs that outlive whoever asked. A script of its own; imports the standard library only.

Whoever asks (launcher.py) holds the other end of standard input, and sends two descriptors each time: where the plans
of one or more programs are read from, as JSON (a command line can be read by others; this cannot), and where to say
what became of them. A fork does the rest: it forks for each program but the last, which it becomes.
Each has a session of its own, writes down who it is before it becomes the program, and takes nothing along but standard
input, output, and from descriptor 3 on what the plan names. A plan may say that it dozes: then what was forked off only
waits, with the program's rights and descriptors, and starts the program when there is work for it (`tend`).

What stands between a fork and its program is paid for at every start, in memory that is copied once it is touched: so
it is done with plain calls of the system, and what is the same for all (the boot, signals) is found out once.

As root it first makes a private view of the machine, since what a program needs may lie where the workspace's user
could never reach it, such as below root's home. A sandbox finds those few folders under /tmp (`stage`); without one
they are found in their own places, and nothing else of a folder that is closed to that user (`reveal`).
"""

import ctypes
import errno
import fcntl
import functools
import gc
import json
import os
import resource
import select
import signal
import socket
import stat
from typing import Any, NoReturn

CLONE_NEWNS, MNT_DETACH = 0x00020000, 2
MS_BIND, MS_REC, MS_SLAVE, MS_NOSUID, MS_NODEV = 0x1000, 0x4000, 0x80000, 0x2, 0x4
PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 22, 36, 38
SECCOMP_MODE_FILTER, INSTRUCTION_BYTES = 2, 8
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}  # the number of the system call
KEYCTL_JOIN_SESSION_KEYRING, OOM_SCORE, MAX_OOM_SCORE = 1, 500, 1000
STAGE = "/tmp"  # noqa: S108 - covered by a file system of our own, which nobody else sees
BACKLOG, LISTENER = 128, 3
FREE_FROM = 100  # we are handed few descriptors, and open few
DONE = b"done"
LOG_BYTES, LOG_KEPT_BYTES, CHUNK_BYTES = 2 << 20, 1 << 20, 1 << 16
LEASH_MILLISECONDS, PAUSE_MILLISECONDS = 60_000, 1_000
PLAN = frozenset(
    ("cgroups", "command", "dialler", "doze", "environment", "folder", "info", "input", "limits", "listen", "log",
     "mark", "open", "record", "sandboxed", "seccomp", "stage", "user", "wait")
)  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)
_libc.getenv.restype = ctypes.c_void_p


class Failed(Exception):
    """Reported to the caller in one line."""


def check(result: int, what: str) -> None:
    if result != 0:
        raise Failed(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [text.encode() if text is not None else None for text in (source, target, kind, data)]
    check(_libc.mount(texts[0], texts[1], texts[2], flags, texts[3]), f"mount {target}")


def stage(sources: list[str]) -> None:
    """Show each source as /tmp/NUMBER to this process and what it becomes."""
    check(_libc.unshare(CLONE_NEWNS), "unshare")
    # What the machine unmounts goes from here too; what is mounted here stays here.
    mount("none", "/", None, MS_REC | MS_SLAVE)
    opened = [os.open(source, os.O_PATH | os.O_CLOEXEC) for source in sources]  # /tmp may be where they are
    mount("codehub", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    for number, descriptor in enumerate(opened):
        target = f"{STAGE}/{number}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target)  # noqa: PTH102 - pathlib is dear here
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        mount(f"/proc/self/fd/{descriptor}", target, None, MS_BIND)
        os.close(descriptor)
    # No sandbox shows it, and it has many mounts: bubblewrap reads the list of all for each folder that it shows.
    _libc.umount2(b"/sys", MNT_DETACH)


def reveal(sources: list[str]) -> None:
    """Have this process, and what it becomes, reach each source in its own place. Nothing to do where it can."""
    closed = next(filter(None, map(closed_above, sources)), None)
    if closed is None:
        return
    if _libc.unshare(CLONE_NEWNS) != 0:
        why = os.strerror(ctypes.get_errno())
        raise Failed(f"{closed} is closed to the users of workspaces, and cannot be opened to one alone ({why})")
    mount("none", "/", None, MS_REC | MS_SLAVE)
    os.umask(0o022)  # what is made below is passed through by the workspace's user
    opened = [(source, os.open(source, os.O_PATH | os.O_CLOEXEC)) for source in sources]
    for source, descriptor in sorted(opened):  # a folder before what is in it
        while (closed := closed_above(source)) is not None:
            mount("codehub", closed, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
        make_place(source, is_folder=stat.S_ISDIR(os.fstat(descriptor).st_mode))
        mount(f"/proc/self/fd/{descriptor}", source, None, MS_BIND)
        os.close(descriptor)


def closed_above(path: str) -> str | None:
    """The topmost folder on the way there that others than its owner may not pass through."""
    folder = "/"
    for name in path.split("/")[1:]:
        try:
            mode = os.stat(folder).st_mode  # noqa: PTH116 - pathlib is dear here
        except FileNotFoundError:  # hidden by what we mounted: it is made again below
            return None
        if not mode & stat.S_IXOTH:
            return folder
        folder = os.path.join(folder, name)  # noqa: PTH118 - as above
    return None


def make_place(path: str, *, is_folder: bool) -> None:
    """Something to mount on, and the way there."""
    folder = "/"
    for name in path.split("/")[1 : None if is_folder else -1]:
        folder = os.path.join(folder, name)  # noqa: PTH118 - as above
        try:  # noqa: SIM105 - contextlib is dear here
            os.mkdir(folder)  # noqa: PTH102 - as above
        except FileExistsError:
            pass
    if not is_folder:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def write_record(path: str) -> None:
    """All of it or nothing. It need not survive a power cut: what it speaks of does not."""
    started = int(read("/proc/self/stat").rpartition(b")")[2].split()[19])
    draft = f"{path}.new"
    write(draft, json.dumps({"pid": os.getpid(), "started": started, "boot": boot()}), os.O_CREAT | os.O_TRUNC)
    os.rename(draft, path)  # noqa: PTH104 - as above


@functools.cache
def boot() -> str:
    return read("/proc/sys/kernel/random/boot_id").decode().strip()


@functools.cache
def changed_signals() -> list[int]:
    """Those that Python, or whoever started us, handles or ignores."""
    found = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return [int(number) for number in found if signal.getsignal(number) not in (signal.SIG_DFL, None)]


def read(path: str) -> bytes:
    """A small file of the kernel's."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 4096)
    finally:
        os.close(descriptor)


def write(path: str, text: str, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o600)
    try:
        if os.write(descriptor, text.encode()) != len(text):  # a disk that is full
            raise Failed(f"{path} cannot be written")
    finally:
        os.close(descriptor)


def listening(path: str, dialler: int | None) -> int:
    """Only we can dial it, or also the user `dialler`."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    if dialler is not None:
        os.chown(path, dialler, dialler)
    listener.listen(BACKLOG)
    return listener.detach()


def leave_keyring(*, required: bool) -> None:
    """A session keyring of its own, without a name and empty: ours may hold a person's Kerberos or disk keys.

    No keyrings in the kernel, or none for all of a container: then there are none to share. A user who has as many as
    allowed gets no more: then the launcher's, which is as empty, is out of reach by the filter.
    """
    number = KEYCTL.get(os.uname().machine)
    if number is None or _libc.syscall(number, KEYCTL_JOIN_SESSION_KEYRING, None) >= 0:
        return
    if ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM) and required:
        raise Failed(f"session keyring: {os.strerror(ctypes.get_errno())}")


def filter_calls(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    given = (ctypes.c_uint64 * 2)(len(program) // INSTRUCTION_BYTES, ctypes.addressof(code))
    check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, given, 0, 0), "seccomp")


def be_killed_first() -> None:
    """When memory runs out it goes before CodeHub and its servers. With CAP_SYS_RESOURCE this cannot be undone."""
    path = "/proc/self/oom_score_adj"
    try:  # noqa: SIM105 - contextlib is dear here
        write(path, str(max(OOM_SCORE, min(int(read(path)) + 1, MAX_OOM_SCORE))))
    except OSError:  # a system that keeps that to itself
        pass


def written(content: bytes | None) -> int:
    """A descriptor from which that can be read, kept in memory only."""
    if content is None:
        return os.open("/dev/null", os.O_RDONLY)
    descriptor = os.memfd_create("input")
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def arrange(wanted: list[int], keep: int) -> int:
    """Give the program exactly these descriptors, as 0, 1, 2, …; returns where `keep` went, which exec closes."""
    high = [os.dup2(old, FREE_FROM + number) for number, old in enumerate([*wanted, keep])]
    for number, old in enumerate(high):
        os.dup2(old, number, inheritable=number < len(wanted))
    os.closerange(len(high), FREE_FROM + len(high))
    return len(wanted)


def wear(name: str, mark: str) -> None:
    """Have our mark where it is looked for: /proc/PID/environ is what the launcher was started with, so over that."""
    place = _libc.getenv(name.encode())
    if not place or len(ctypes.string_at(place)) != len(mark):
        raise Failed("there is no room for its mark")
    ctypes.memmove(place, mark.encode(), len(mark))


def leashed() -> int | None:
    """Who connects first holds the leash; its number. None: nobody took it."""
    listener = socket.socket(fileno=LISTENER)
    try:
        return listener.accept()[0].detach() if is_ready(LISTENER, LEASH_MILLISECONDS) else None
    finally:
        listener.detach()


def is_ready(descriptor: int, milliseconds: int) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(milliseconds))


def knocked(leash: int) -> bool:
    """Wait for work. False: the leash was let go, so there is nobody left to wait for."""
    waiting = select.poll()
    for number in (LISTENER, leash):
        waiting.register(number, select.POLLIN)
    return all(number != leash for number, _ in waiting.poll())


def tend(plan: dict[str, Any], count: int) -> None:
    """Start the program when there is work for it, and again should it end before the leash is let go.

    `count`: of its descriptors.
    What fails now (too many processes, no memory, a machine that is just being upgraded) may work later, so whoever
    waits stays. Those who knocked in vain are sent away after a pause: they may try again, and we never do so faster.
    """
    leash = leashed()
    if leash is None:
        return
    command, rewound = [*plan["command"], "--leash", str(leash)], count - 1 if plan["seccomp"] is not None else None
    is_bounded = False
    while knocked(leash):
        try:
            is_bounded = is_bounded or bound_output(plan)
            how = attempt(command, plan["environment"], leash, rewound)
        except OSError as error:  # too many processes, for now
            how = str(error)
        if is_ready(leash, PAUSE_MILLISECONDS):
            return
        tell(2, f"The way out has ended ({how}); the next connection makes it again.\n".encode())
        send_away()


def bound_output(plan: dict[str, Any]) -> bool:
    """What the program says goes through a pipe, as a workspace makes it say as much as it likes.

    Only now, so that those that never start have no second process.
    """
    writing = piped(plan, 2, dropped=True)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # should who keeps the log be killed, we go on
    for number in (1, 2):
        os.dup2(writing, number)
    os.close(writing)
    # If bubblewrap is killed what it has started goes on, and comes to us: then the program has not ended. Who keeps
    # the log does not come to us: it ends after us.
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return True


def attempt(command: list[str], environment: dict[str, str], leash: int, rewound: int | None) -> str:
    """Run it to its end; how it ended. It wears our mark from the first moment on, as a fork of ours."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.set_inheritable(leash, True)
            if rewound is not None:
                os.lseek(rewound, 0, os.SEEK_SET)  # it is read at each start
            os.execve(command[0], command, environment)  # noqa: S606 - no shell is the point
        except OSError as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(126)
    how = ""
    while True:
        try:
            ended, status = os.waitpid(-1, 0)
        except ChildProcessError:  # nothing of it is left
            return how
        if ended == pid:
            how = f"status {os.waitstatus_to_exitcode(status)}"


def send_away() -> None:
    """Whoever waits for an answer now. All before the first is told: who then tries again has not knocked in vain."""
    listener = socket.socket(fileno=LISTENER)
    listener.setblocking(False)
    waiting: list[socket.socket] = []
    try:
        while len(waiting) < BACKLOG:
            waiting.append(listener.accept()[0])
    except OSError:  # nobody is left, or (too many open files) no more can be sent away now
        pass
    finally:
        listener.detach()
    for visitor in waiting:
        visitor.close()


def piped(plan: dict[str, Any], log: int, *, dropped: bool = False) -> int:
    """What to write to instead of `log`: a process of its own keeps it, as the program could truncate and rewrite it.

    It is not the program's child, and holds a lock on the log until the last that was said is in it (records.py).
    """
    reading, writing = os.pipe()
    fcntl.flock(log, fcntl.LOCK_SH)
    try:
        pid = os.fork()
    except OSError:
        os.close(reading)
        os.close(writing)
        raise
    if pid == 0:
        try:
            if os.fork() == 0:
                keep_log(plan, reading, log, dropped=dropped)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(reading)
    return writing


def keep_log(plan: dict[str, Any], reading: int, log: int, *, dropped: bool) -> None:
    """Return when nobody can say anything any more. What a full disk does not take is lost.

    `dropped`: its user is the plan's already.
    """
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))  # it ends with the program
    os.dup2(reading, 0), os.dup2(log, 1)
    os.closerange(2, FREE_FROM)
    os.chdir("/")
    drop_rights({**plan, "user": None} if dropped else plan, filtered=True)
    while chunk := os.read(0, CHUNK_BYTES):
        lock_file(1, fcntl.LOCK_EX)  # the way out has a keeper of its own, of the same file
        tell(1, chunk)
        if (size := os.fstat(1).st_size) > LOG_BYTES:
            kept = os.pread(1, LOG_KEPT_BYTES, size - LOG_KEPT_BYTES)
            os.ftruncate(1, 0)
            tell(1, kept)
        lock_file(1, fcntl.LOCK_UN)


def lock_file(descriptor: int, kind: int) -> None:
    """Where a file system knows no such locks, two that trim it at the same time may lose lines of it."""
    try:  # noqa: SIM105 - contextlib is dear here
        fcntl.lockf(descriptor, kind)
    except OSError:
        pass


def drop_rights(plan: dict[str, Any], *, filtered: bool) -> None:
    if plan["user"] is not None:
        os.setgroups([])
        os.setgid(plan["user"])
        os.setuid(plan["user"])
    leave_keyring(required=plan["seccomp"] is None)
    check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no-new-privileges")
    if filtered and plan["seccomp"] is not None:
        filter_calls(bytes.fromhex(plan["seccomp"]))


def become(plan: dict[str, Any], wanted: list[int], report: int) -> NoReturn:
    """Everything between the fork and the program; what goes wrong is written to `report`."""
    try:
        os.setsid()
        wear(*plan["mark"])  # before anything else: whoever looks for us finds us, also if we come no further
        if plan["record"] is not None:
            write_record(plan["record"])
        for procs in plan["cgroups"]:
            write(procs, str(os.getpid()))
        be_killed_first()
        if not plan["doze"]:  # until it starts its program, what that says is our own
            wanted[1:3] = [piped(plan, wanted[1])] * 2
        if plan["stage"] and os.geteuid() == 0:
            (stage if plan["sandboxed"] else reveal)(plan["stage"])
        report = arrange(wanted, report)
        for name, value in plan["limits"].items():
            number = getattr(resource, f"RLIMIT_{name}")
            most = resource.getrlimit(number)[1]
            allowed = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(number, (allowed, allowed))
        drop_rights(plan, filtered=not plan["sandboxed"])  # bubblewrap itself needs what the filter refuses
        os.chdir(plan["folder"])
        os.umask(0o022 if plan["sandboxed"] else 0o077)
        command = plan["command"]
        # All that who reads it hears, if exec ends us here. Who asked may have gone: SIGPIPE is still ignored.
        tell(report, DONE)
        for number in changed_signals():
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if plan["doze"]:
            os.dup2(2, report, inheritable=False)  # it has begun; what goes wrong from now on is for its log
            tend(plan, len(wanted))
            os._exit(0)
        os.execve(command[0], command, plan["environment"])  # noqa: S606 - no shell is the point
    except Exception as error:  # noqa: BLE001 - whatever it is, this process must not go on as the one it was forked from
        tell(report, said_of(error))
    os._exit(126)


def tell(where: int, words: bytes) -> None:
    """Whoever cannot be told, as on a full disk, is no reason to fail."""
    try:  # noqa: SIM105 - contextlib is not there yet, and takes its time
        os.write(where, words)
    except OSError:
        pass


def said_of(error: Exception) -> bytes:
    """In one line, and never none."""
    expected = isinstance(error, OSError | Failed | ValueError)
    return (str(error) if expected and str(error) else repr(error)).encode()


def understood(content: object) -> list[dict[str, Any]]:
    """Whoever asks may be of another version: its files, and we with them, were replaced while it ran."""
    if not isinstance(content, list) or not all(isinstance(plan, dict) and plan.keys() >= PLAN for plan in content):
        raise Failed("this plan is of another version of CodeHub; start the coordinator anew")
    return content


def opened(plan: dict[str, Any]) -> list[int]:
    """The descriptors of its program, in their order."""
    os.umask(0o077)
    output = os.open(plan["log"], os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    wanted = [written(plan["input"].encode() if plan["input"] is not None else None), output, output]
    wanted += [listening(path, plan["dialler"]) for path in plan["listen"]]
    wanted += [os.open(path, os.O_RDONLY) for path in plan["open"]]
    if plan["info"] is not None:  # after all the others: bubblewrap is told its number
        wanted.append(os.open(plan["info"], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    if plan["seccomp"] is not None and plan["sandboxed"]:  # and after that; `tend` rewinds the last one
        wanted.append(written(bytes.fromhex(plan["seccomp"])))
    return wanted


def start(plan: dict[str, Any]) -> bytes:
    """What became of it: DONE, or why it did not begin or (if the plan waits for its end) did not end well."""
    wanted = opened(plan)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        become(plan, wanted, writing)
    os.close(writing)
    said = b""
    while more := os.read(reading, 4096):  # ends when the program has begun
        said += more
    if said != DONE:
        return said.removeprefix(DONE) or b"it was killed"
    if plan["wait"] and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
        return b"it ended with an error"
    return DONE


def answer(plans: int, report: int) -> NoReturn:
    """In a process of its own. The first plan that fails is the last one; else we become the last one's program."""
    said = DONE
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # so that whoever asks notices the launcher's end, not ours
        os.set_inheritable(report, False)
        with open(plans, "rb") as file:
            content = understood(json.load(file))
        for plan in content:
            if plan is content[-1] and not plan["wait"]:
                become(plan, opened(plan), report)
            said = start(plan)
            if said != DONE:
                break
    except Exception as error:  # noqa: BLE001 - whoever asks is told, whatever it is
        said = said_of(error)
    tell(report, said)
    os._exit(0)


def main() -> None:
    line = socket.socket(fileno=0)
    gc.disable()  # a collection in a fork would touch, and so copy, all the memory that it shares with us
    boot(), changed_signals()  # known to all forks
    leave_keyring(required=False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that have answered
    while True:
        _, descriptors, _, _ = socket.recv_fds(line, 1, 2)
        if not descriptors:
            return  # whoever asked has gone
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, for now
            tell(descriptors[-1], str(error).encode())
        else:
            if pid == 0:
                answer(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    main()
