"""The filter on system calls: what it says on each machine, and what the kernel makes of it on this one."""

import ctypes
import ctypes.util
import errno
import os
import shutil
import signal
import struct
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from codehub.drivers.process import Options, syscalls
from codehub.drivers.process.seccomp import filter_for
from tests.drivers_process.test_daemons import Ordinary
from tests.drivers_process.world import Workspace, World
from tests.support import eventually, missing, short_folder

ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
I386, ARM = 0x40000003, 0x40000028
ALLOW, KILL, ERRNO, X32 = 0x7FFF0000, 0x80000000, 0x00050000, 0x40000000
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
machines = pytest.mark.parametrize("machine", ARCHES)

REFUSED = """
acct add_key bpf chroot clock_settime delete_module fanotify_init finit_module fsconfig fsmount fsopen fspick
get_mempolicy init_module io_uring_enter io_uring_register io_uring_setup kcmp kexec_file_load kexec_load keyctl
lookup_dcookie mbind mount mount_setattr move_mount move_pages nfsservctl open_by_handle_at open_tree perf_event_open
pidfd_getfd pivot_root quotactl reboot request_key set_mempolicy setdomainname sethostname setns settimeofday swapoff
swapon syslog umount2 userfaultfd vhangup
"""


@pytest.fixture(scope="session")
def libseccomp() -> ctypes.CDLL:
    name = ctypes.util.find_library("seccomp")
    return ctypes.CDLL(name) if name else missing("libseccomp, who knows the numbers too", "apt install libseccomp2")


def number_of(libseccomp: ctypes.CDLL, name: str, machine: str) -> int | None:
    found = int(libseccomp.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(ARCHES[machine]), name.encode()))
    return found if found >= 0 else None


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the program answers, by a machine of our own that knows nothing of how it was made."""
    program = list(struct.iter_unpack("<HBBI", filter_for(machine) or b""))
    words = struct.pack("<iIQ6Q", number, arch or ARCHES[machine], 0, *arguments, *[0] * (6 - len(arguments)))
    at = loaded = 0
    while True:
        code, yes, no, operand = program[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", words, operand)
            case 0x05:
                at += operand
            case 0x15:
                at += yes if loaded == operand else no
            case 0x35:
                at += yes if loaded >= operand else no
            case 0x45:
                at += yes if loaded & operand else no
            case 0x06:
                return int(operand)
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


# -- what it says ----------------------------------------------------------------------------------------------------


@machines
def test_numbers_are_those_of_libseccomp(libseccomp: ctypes.CDLL, machine: str) -> None:
    ours = syscalls.numbers(machine)
    theirs = {name: number_of(libseccomp, name, machine) for name in ours}
    known = {name: number for name, number in theirs.items() if number is not None}
    assert {name: ours[name] for name in known} == known
    assert len(known) >= 240, "an older libseccomp does not know the newest"


@machines
def test_each_call_of_the_list_is_allowed_and_no_other(machine: str) -> None:
    allowed = set(syscalls.numbers(machine).values()) - {syscalls.numbers(machine)["clone3"]}
    sockets = {syscalls.numbers(machine)[name] for name in ("socket", "socketpair")}
    highest = max(allowed)
    for number in range(1024):
        said = verdict(machine, number, INET if number in sockets else 0)
        refusal = ERRNO | (errno.EPERM if number <= highest else errno.ENOSYS)
        clone3 = number == syscalls.numbers(machine)["clone3"]
        assert said == (ALLOW if number in allowed else ERRNO | errno.ENOSYS if clone3 else refusal), number


@machines
def test_what_leads_into_the_kernel_is_refused(libseccomp: ctypes.CDLL, machine: str) -> None:
    numbers = {name: number_of(libseccomp, name, machine) for name in REFUSED.split()}
    allowed = [name for name, number in numbers.items() if number and verdict(machine, number) != ERRNO | errno.EPERM]
    assert allowed == []
    assert len([number for number in numbers.values() if number]) > 35


@machines
def test_calls_in_the_numbers_of_another_machine_are_refused(machine: str) -> None:
    others = {I386, ARM, *ARCHES.values()} - {ARCHES[machine]}
    assert {verdict(machine, number, arch=arch) for arch in others for number in range(500)} == {KILL}
    assert {verdict(machine, X32 | number) for number in range(500)} == {ERRNO | errno.ENOSYS}


@machines
@pytest.mark.parametrize("name", ["socket", "socketpair"])
def test_sockets_by_their_family(machine: str, name: str) -> None:
    number = syscalls.numbers(machine)[name]
    allowed = {family for family in range(64) if verdict(machine, number, family) == ALLOW}
    assert allowed == {UNIX, INET, INET6, NETLINK}
    assert verdict(machine, number, NETLINK, 3, 0) == ALLOW
    assert {verdict(machine, number, NETLINK, 3, other) for other in range(1, 40)} == {ERRNO | errno.EPROTONOSUPPORT}
    assert verdict(machine, number, 40) == ERRNO | errno.EAFNOSUPPORT
    # The kernel reads 32 bits of it: what stands above is no way around.
    assert verdict(machine, number, 40 | 1 << 32) == ERRNO | errno.EAFNOSUPPORT
    assert verdict(machine, number, UNIX | 1 << 32) == ALLOW


@machines
def test_new_namespaces_by_flags(machine: str) -> None:
    numbers = syscalls.numbers(machine)
    for bit in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert verdict(machine, numbers["clone"], bit | 17) == ERRNO | errno.EPERM
        assert verdict(machine, numbers["unshare"], bit) == ERRNO | errno.EPERM
    assert verdict(machine, numbers["unshare"], 0x80) == ERRNO | errno.EPERM
    assert verdict(machine, numbers["unshare"], 0x400) == ALLOW, "its own table of files is its own affair"
    assert verdict(machine, numbers["clone"], 0x3D0F00) == ALLOW, "a thread"


def test_no_filter_for_a_machine_whose_numbers_are_not_known() -> None:
    assert filter_for("riscv64") is None


# -- what the kernel makes of it -------------------------------------------------------------------------------------

CALL = """
import ctypes, errno
call = ctypes.CDLL(None, use_errno=True).syscall
def said(number, *arguments):
    ctypes.set_errno(0)
    return "worked" if call(number, *arguments) >= 0 else errno.errorcode[ctypes.get_errno()]
"""


ASK = "curl -s -m 10 -o /dev/null -w '%{http_code}' http://10.1.2.3/"


@pytest.fixture(scope="module")
async def unsandboxed(bare_world: World) -> AsyncIterator[Workspace]:
    workspace = await bare_world.start()
    yield workspace
    await bare_world.driver.instances.remove(workspace.id)


@pytest.fixture(scope="module")
async def sandboxed(world: World) -> AsyncIterator[Workspace]:
    workspace = await world.start()
    yield workspace
    await world.driver.instances.remove(workspace.id)


@pytest.fixture(scope="module", params=["sandboxed", "unsandboxed"])
def either(request: pytest.FixtureRequest) -> Workspace:
    found: Workspace = request.getfixturevalue(request.param)
    return found


def _said(workspace: Workspace, script: str) -> str:
    workspace.request("PUT", "/files/try.py", CALL + script)
    return workspace.run("python3 try.py").strip()


def test_it_is_in_force_for_every_process(either: Workspace) -> None:
    found = {pid: _status(pid) for pid in either.processes()}
    # What made the sandbox, and what waits to make the one of the way out, has to be able to.
    unfiltered = [pid for pid, status in found.items() if "Seccomp:\t2" not in status]
    inside = [pid for pid, status in found.items() if _is_inside(status)]
    assert not set(unfiltered) & set(inside)
    assert inside or not unfiltered


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def _is_inside(status: str) -> bool:
    """Whether it has a pid in a sandbox too."""
    return len(status.partition("NSpid:")[2].splitlines()[0].split()) > 1


def test_the_kernel_refuses_them(either: Workspace, libseccomp: ctypes.CDLL) -> None:
    machine = os.uname().machine
    numbers = {name: number_of(libseccomp, name, machine) for name in REFUSED.split() if name != "reboot"}
    numbers = {name: number for name, number in numbers.items() if number is not None}
    said = _said(either, f"for name, number in {numbers}.items(): print(name, said(number, 0, 0, 0, 0, 0))")
    assert {line.split()[1] for line in said.splitlines()} == {"EPERM"}, said


def test_keys_are_out_of_reach(either: Workspace) -> None:
    join = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
    assert _said(either, f"print(said({join}, 0, -3, 1))") == "EPERM"


def test_no_socket_but_the_usual_ones(either: Workspace) -> None:
    """AF_VSOCK, for one, reaches the machine below whatever the network namespace is."""
    script = """
import socket
for family in range(1, 46):
    for protocol in (0, 15) if family == 16 else (0,):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            try:
                socket.socket(family, kind, protocol).close()
                print(family, protocol)
            except OSError:
                pass
"""
    assert set(_said(either, script).splitlines()) <= {"1 0", "2 0", "10 0", "16 0"}


def test_no_new_namespace(either: Workspace) -> None:
    assert "not permitted" in either.run("unshare --user true")
    assert _said(either, "import os; print(said({'x86_64': 56}.get(os.uname().machine, 220), 0x10000011))") == "EPERM"
    assert _said(either, "print(said(435, 0, 0))") == "ENOSYS"


def test_calls_of_an_older_machine_end_the_program(either: Workspace) -> None:
    if os.uname().machine != "x86_64":
        missing("an x86-64 machine", "run the tests on one")
    script = """
import mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))  # getpid() of i386
print(said(0x40000000 | 39), flush=True)  # and of x32
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
print("worked")
"""
    assert _said(either, script).splitlines() == ["ENOSYS", "Bad system call"]


@pytest.fixture
def ordinary() -> Iterator[Ordinary]:
    player = Ordinary()
    yield player
    player.ask("remove")
    player.close()


def test_an_ordinary_users_workspace_without_a_sandbox_has_it_too(ordinary: Ordinary) -> None:
    ordinary.do("start")
    assert "Seccomp:\t2" in _status(ordinary.main())


async def test_the_way_out_has_it_too_each_time_it_is_made(world: World) -> None:
    workspace = await world.start()
    known = workspace.processes()
    for _ in range(2):  # the second time the filter is read again
        eventually(lambda: workspace.run(ASK) == "403", "an answer: who comes too soon is sent away")
        made = {pid: _status(pid) for pid in workspace.processes() - known}
        inside = {pid: status for pid, status in made.items() if _is_inside(status)}
        assert inside
        assert all("Seccomp:\t2" in status for status in inside.values())
        for pid in inside:
            with suppress(ProcessLookupError):  # the first takes the others along
                os.kill(pid, signal.SIGKILL)
        # Who keeps the log of them all stays.
        eventually(lambda gone=set(inside): not gone & workspace.processes(), "it has ended")  # type: ignore[misc]
    await world.driver.instances.remove(workspace.id)


# -- where it cannot be had ------------------------------------------------------------------------------------------


@pytest.fixture
def new_folder() -> Iterator[Path]:
    folder = short_folder()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def old_bwrap() -> Iterator[Path]:
    """One whose kernel has no filters."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))  # /tmp is covered when a sandbox is made as root
    folder.chmod(0o755)
    script = folder / "bwrap"
    real = shutil.which("bwrap") or missing("bubblewrap", "apt install bubblewrap")
    refusal = 'case " $* " in *" --seccomp "*) echo "no seccomp" >&2; exit 1;; esac'
    script.write_text(f'#!/bin/sh\n{refusal}\nexec {real} "$@"\n')
    script.chmod(0o755)
    yield script
    shutil.rmtree(folder)


async def test_without_it_workspaces_run_all_the_same_and_it_is_said(old_bwrap: Path, new_folder: Path) -> None:
    world = World(Options(root=new_folder / "w", bwrap=str(old_bwrap)))
    try:
        said = [line for line in world.driver.isolation() if "not filtered" in line]
        assert len(said) == 1
        assert said[0].startswith("WARNING")
        assert "no seccomp" in said[0]
        workspace = await world.start()
        assert workspace.run("grep Seccomp: /proc/self/status").split() == ["Seccomp:", "0"]
    finally:
        await world.close()


def test_it_can_be_switched_off(new_folder: Path) -> None:
    world = World(Options(root=new_folder / "w", seccomp="off"))
    assert any("not filtered, because it is switched off" in line for line in world.driver.isolation())
    world.driver.close()
