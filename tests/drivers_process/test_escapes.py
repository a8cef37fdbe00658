"""What a workspace tries against its sandbox, from inside, with a shell. Each target is really there."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from codehub.drivers.base import Resources
from tests.drivers_process.world import Workspace, World
from tests.support import eventually

CAP_SYS_RESOURCE = 1 << 24
SECRET = f"secret-{secrets.token_hex(8)}"


@pytest.fixture(scope="module")
async def ours(world: World) -> AsyncIterator[Workspace]:
    os.environ["CODEHUB_TEST_SECRET"] = SECRET
    workspace = await world.start()
    yield workspace
    del os.environ["CODEHUB_TEST_SECRET"]
    await world.driver.instances.remove(workspace.id)


@pytest.fixture(scope="module")
async def theirs(world: World) -> AsyncIterator[Workspace]:
    workspace = await world.start()
    workspace.request("PUT", "/files/private", SECRET)
    workspace.run(f"chmod 755 . ; chmod 644 private; echo {SECRET} > /tmp/shared; chmod 666 /tmp/shared")
    yield workspace
    await world.driver.instances.remove(workspace.id)


@pytest.fixture(scope="module")
def outside(folder: Path) -> Path:
    """A file that every user of the machine may read, so that only the sandbox hides it."""
    path = folder / "anybody-may-read"
    path.write_text(SECRET)
    path.chmod(0o644)
    return path


@pytest.fixture(scope="module")
def host_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_the_attempts_are_real(outside: Path, theirs: Workspace) -> None:
    assert outside.read_text() == SECRET
    assert (theirs.home / "private").read_text() == SECRET
    assert SECRET in theirs.run("cat private /tmp/shared")


@pytest.mark.parametrize("prefix", ["", "/proc/1/root", "/proc/self/root", "/proc/1/cwd/../..", "/proc/2/cwd/../.."])
def test_files_of_the_machine_are_not_there(ours: Workspace, outside: Path, prefix: str) -> None:
    assert SECRET not in ours.run(f"cat {prefix}{outside}; cat {prefix}{outside.parent}/*")


@pytest.mark.parametrize("prefix", ["", "/proc/1/root", "/proc/self/root"])
def test_another_home_is_not_there(ours: Workspace, theirs: Workspace, prefix: str) -> None:
    assert SECRET not in ours.run(f"cat {prefix}{theirs.home}/private; cat {prefix}/home/*/private")


def test_nothing_outside_can_be_found_by_searching(ours: Workspace, outside: Path, world: World) -> None:
    names = (outside.name, "private", "ws-*", "codehub-workspaces", "instances")
    wanted = " -o ".join(f"-name '{name}'" for name in names)
    assert not ours.run(
        f"find / \\( -path /proc -o -path /usr -o -path '/*/lib/python*' \\) -prune -o \\( {wanted} \\) -print"
    )
    assert "No such file" in ours.run(f"ls {world.root}")


def test_a_folder_for_temporary_files_is_its_own(ours: Workspace, theirs: Workspace) -> None:
    assert ours.run("cat /tmp/shared /dev/shm/*") != ""
    assert SECRET not in ours.run("ls -A /tmp; cat /tmp/shared")


def test_our_environment_is_not_handed_down(ours: Workspace) -> None:
    found = ours.run("cat /proc/*/environ | tr '\\0' '\\n'")
    assert SECRET not in found
    assert "HOME=/home/coder" in found
    assert "CODEHUB_MARK" not in ours.run("env")


def test_processes_of_the_machine_are_not_seen(ours: Workspace, host_process: subprocess.Popen[bytes]) -> None:
    seen = {int(word) for word in ours.run("ls /proc").split() if word.isdigit()}
    assert len(seen) < 20
    assert host_process.pid not in seen
    assert "No such file" in ours.run(f"cat /proc/{host_process.pid}/cmdline")


def test_processes_of_the_machine_cannot_be_killed(ours: Workspace, host_process: subprocess.Popen[bytes]) -> None:
    assert "No such process" in ours.run(f"kill -9 {host_process.pid}")
    for pid in ours.processes():
        assert "No such process" in ours.run(f"kill -9 {pid}")
    assert host_process.poll() is None


@pytest.mark.parametrize("kind", ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"])
def test_every_namespace_is_its_own(ours: Workspace, theirs: Workspace, kind: str) -> None:
    found = {workspace.run(f"readlink /proc/self/ns/{kind}").strip() for workspace in (ours, theirs)}
    assert len(found) == 2
    assert str(Path(f"/proc/self/ns/{kind}").readlink()) not in found


def test_its_own_sandbox_cannot_be_killed(ours: Workspace) -> None:
    ours.run("kill -9 1")
    assert ours.run("echo still here") == "still here\n"


def test_it_is_uid_1000_and_nobody_of_the_machine(ours: Workspace) -> None:
    assert ours.run("id -u; id -g; id -G").split() == ["1000", "1000", "1000"]
    owners = {Path(f"/proc/{pid}").stat().st_uid for pid in ours.processes()}
    if os.geteuid() == 0:
        assert owners == {ours.home.stat().st_uid}
        assert owners.isdisjoint({0, 1000, 65534})


def test_two_workspaces_are_two_users_of_the_machine(ours: Workspace, theirs: Workspace) -> None:
    if os.geteuid() == 0:
        assert ours.home.stat().st_uid != theirs.home.stat().st_uid
    assert ours.home.stat().st_mode & 0o777 == 0o700 or ours.home != theirs.home


def test_it_has_no_capabilities_and_gets_none(ours: Workspace) -> None:
    status = dict(line.split(":\t") for line in ours.run("grep -E 'Cap|NoNewPrivs' /proc/self/status").splitlines())
    assert status.pop("NoNewPrivs") == "1"
    assert set(status.values()) == {"0000000000000000"}
    assert len(status) == 5


@pytest.mark.parametrize(
    "attempt",
    [
        "unshare --user true",
        "unshare --user --map-root-user true",
        "unshare --mount true",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /usr",
        "mknod disk b 254 0",
        "chroot / true",
        "touch /usr/x",
        "touch /etc/x",
        "touch /x",
        "touch /dev/x",
        "mkdir /dev/pts/x",
        "touch /opt/codehub/tiny.py",
        "echo x >> /etc/passwd",
        "hostname other",
        "nice -n -5 true 2>&1 | grep -q denied && exit 1",
        "ulimit -H -c 1000",
        "echo 1 > /proc/sys/kernel/core_pattern",
        "ls /sys/fs/cgroup",
        "bwrap --ro-bind / / true",
    ],
)
def test_nothing_of_the_machine_can_be_changed(ours: Workspace, attempt: str) -> None:
    assert ours.run(f"({attempt}) && echo it worked").splitlines()[-1:] != ["it worked"]


def test_everything_but_its_own_is_mounted_read_only(ours: Workspace) -> None:
    mounts = [line.split() for line in ours.run("cat /proc/self/mounts").splitlines()]
    writable = {words[1] for words in mounts if "rw" in words[3].split(",")}
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts", "shm")}
    assert writable <= {"/home/coder", "/tmp", "/proc", *devices}
    assert all("nosuid" in words[3] for words in mounts)


def _connect(workspace: Workspace, family: str, address: str) -> str:
    script = f"import socket; s=socket.socket(socket.{family}); s.settimeout(2); s.connect({address}); print('reached')"
    return workspace.run(f'python3 -c "{script}"')


def test_servers_of_the_machine_are_not_reached(ours: Workspace) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server, closing(socket.create_server(("", 0))) as open_one:
        assert "reached" not in _connect(ours, "AF_INET", f"('127.0.0.1', {server.getsockname()[1]})")
        for address in [*_own_addresses(), "127.0.0.1"]:
            assert "reached" not in _connect(ours, "AF_INET", f"('{address}', {open_one.getsockname()[1]})")


def test_the_metadata_address_is_not_reached(ours: Workspace) -> None:
    assert "Network is unreachable" in _connect(ours, "AF_INET", "('169.254.169.254', 80)")


def test_abstract_sockets_of_the_machine_are_not_reached(ours: Workspace) -> None:
    name = f"codehub-{secrets.token_hex(4)}"
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(f"\0{name}")
        server.listen()
        assert "refused" in _connect(ours, "AF_UNIX", f"'\\0{name}'")


def test_another_workspace_is_not_reached(ours: Workspace, theirs: Workspace) -> None:
    path = theirs.endpoint.removeprefix("unix:")
    assert "No such file" in _connect(ours, "AF_UNIX", f"'{path}'")
    assert theirs.request("GET", "/")[0] == 200


def test_its_socket_cannot_be_replaced_by_a_link_to_another(ours: Workspace, world: World) -> None:
    """The proxy dials it with our rights: whoever could put a link there would send the proxy anywhere."""
    path = Path(ours.endpoint.removeprefix("unix:"))
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.stat().st_uid == os.geteuid()
    mounts = [line.split() for line in ours.run("cat /proc/self/mountinfo").splitlines()]
    shown = [words[3] for words in mounts if str(world.root / "sockets") in words[3]]
    assert [Path(name).name for name in shown] in ([], ["out"])


def test_it_gets_no_descriptors_but_its_own(ours: Workspace) -> None:
    found = ours.run("ls -l /proc/2/fd | grep -o -- '-> .*' | sort -u").splitlines()
    assert found.count("-> /dev/null") == 1
    kinds = {line.removeprefix("-> ").split(":")[0].rpartition("/")[2] for line in found}
    assert kinds <= {"null", "log", "socket", "pipe"}, found


def test_the_log_behind_its_output_cannot_be_read_back(ours: Workspace) -> None:
    if os.geteuid() == 0:
        assert "denied" in ours.run("cat /proc/2/fd/1")


async def test_the_number_of_processes_is_limited(world: World) -> None:
    workspace = await world.start(Resources(cpus=None, memory_bytes=None, pids=40))
    said = workspace.run("for i in $(seq 100); do sleep 60 >/dev/null 2>&1 & done")
    assert "fork" in said.lower()
    assert len(workspace.processes()) <= 42
    await world.driver.instances.remove(workspace.id)


async def test_memory_is_limited(world: World) -> None:
    workspace = await world.start(Resources(cpus=None, memory_bytes=256 << 20, pids=None))
    assert "MemoryError" in workspace.run("python3 -c 'x = bytearray(512 << 20)'")
    assert workspace.run("python3 -c 'x = bytearray(64 << 20); print(len(x))'").strip() == str(64 << 20)
    await world.driver.instances.remove(workspace.id)


def test_shared_memory_has_a_size(ours: Workspace) -> None:
    assert "No space left" in ours.run("head -c 2G /dev/zero >/dev/shm/all 2>/tmp/said; cat /tmp/said; rm /dev/shm/all")


def test_it_is_killed_before_codehub_when_memory_runs_out(ours: Workspace) -> None:
    own = int(Path("/proc/self/oom_score_adj").read_text())
    scores = {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in ours.processes()}
    assert min(scores) > own
    effective = int(Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0], 16)
    if effective & CAP_SYS_RESOURCE:  # else a workspace may undo it, down to what we have ourselves
        assert ours.run("(echo 0 >/proc/self/oom_score_adj) 2>/dev/null || echo denied") == "denied\n"


async def test_endless_output_does_not_fill_the_disk(world: World) -> None:
    workspace = await world.start()
    workspace.run("(yes 0123456789abcdef | head -c 20000000 > /proc/2/fd/1) 2>&1 || true")
    log = world.root / f"instances/ws-{workspace.id}/log"
    with log.open("ab") as file:
        file.write(b"0123456789abcdef\n" * 1_000_000)
    await world.driver.instances.observe()
    assert log.stat().st_size <= 4 << 20
    workspace.request("GET", "/after-the-cut")
    eventually(lambda: b"after-the-cut" in log.read_bytes(), "writing goes on")
    assert "after-the-cut" in await world.driver.instances.logs(workspace.id, 3)
    await world.driver.instances.remove(workspace.id)


def _own_addresses() -> list[str]:
    addresses = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    return sorted(str(address) for address in addresses)
