"""Whoever started CodeHub may have keys in a session keyring (Kerberos, encrypted disks): no workspace gets near them.

The kernel's calls are made as a program in a workspace would: a key by its number, and which keyring one's session has.
The filter on system calls, which refuses them, is off here: this holds without it.
"""

import ctypes
import errno
import json
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from codehub.drivers.process import Options
from codehub.drivers.process.layout import new_token
from codehub.drivers.process.machine import Launch
from codehub.drivers.process.records import last_words
from codehub.drivers.process.sandbox import View
from tests.drivers_process.test_daemons import Ordinary
from tests.drivers_process.world import UnixConnection, World
from tests.support import missing, needs_sandbox, short_folder

GET_KEYRING_ID, JOIN_SESSION_KEYRING, READ = 0, 1, 11
SESSION = -3
ADD_KEY, KEYCTL = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine, (-1, -1))
SECRET = secrets.token_hex(8).encode()
TRY = f"""
import ctypes
call = ctypes.CDLL(None).syscall
found = ctypes.create_string_buffer(64)
read = call({KEYCTL}, {READ}, %d, found, 64)
print(found.value.decode() if read > 0 else "no key", call({KEYCTL}, {GET_KEYRING_ID}, {SESSION}, 1))
"""
libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture(scope="module")
def key() -> int:
    """The number of a key in the session keyring that everything we start from now on would have too."""
    if libc.syscall(KEYCTL, JOIN_SESSION_KEYRING, None) < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        missing("the kernel's keyrings", "a kernel with CONFIG_KEYS, outside of a container that refuses keyctl")
    number = libc.syscall(ADD_KEY, b"user", b"codehub-test", SECRET, len(SECRET), SESSION)
    assert number > 0, os.strerror(ctypes.get_errno())
    return int(number)


@pytest.fixture(scope="module")
async def keyring_worlds(key: int) -> AsyncIterator[dict[str, World]]:
    folder = short_folder()
    worlds = {
        name: World(Options(root=folder / name, sandbox="auto" if name == "sandbox" else "off", seccomp="off"))
        for name in ("sandbox", "none")
    }
    yield worlds
    for world in worlds.values():
        await world.close()
    shutil.rmtree(folder)


def _asked(endpoint: str, key: int) -> tuple[str, str]:
    connection = UnixConnection(endpoint)
    connection.request("POST", "/run", f"python3 -c '{TRY % key}'")
    said = str(json.loads(connection.getresponse().read())["output"])
    connection.close()
    found, keyring = said.strip().rsplit(" ", 1)
    return found, keyring


def test_the_attempt_is_real(key: int, capfd: pytest.CaptureFixture[str]) -> None:
    os.system(f"python3 -c '{TRY % key}'")
    assert capfd.readouterr().out.startswith(SECRET.decode())


@pytest.mark.parametrize("kind", ["sandbox", "none"])
async def test_a_workspace_has_neither_our_keys_nor_another_ones(
    keyring_worlds: dict[str, World], kind: str, key: int
) -> None:
    world = keyring_worlds[kind]
    if kind == "sandbox":
        needs_sandbox(world.driver)
    first, second = [_asked((await world.start()).endpoint, key) for _ in range(2)]
    assert [first[0], second[0]] == ["no key", "no key"]
    assert first[1] != second[1], "one keyring for both is a channel between them"


@pytest.mark.parametrize("kind", ["sandbox", "none"])
def test_nor_has_any_other_program(keyring_worlds: dict[str, World], kind: str, key: int, tmp_path: Path) -> None:
    """Such as the self-check's: what is launched and waited for."""
    machine = keyring_worlds[kind].driver._machine
    folder = machine.layout.draft(Path("record"))
    command = [str(machine.python), "-I", "-S", "-c", TRY % key]
    view = View(machine.python_binds(), {}, command, folder="/")
    machine.launch(
        Launch(
            folder=folder, mark=new_token(), view=view, user=(machine.users or [os.geteuid()])[0], plain=command,
            plain_environment={}, plain_folder=Path("/"), wait=True,
        )
    )  # fmt: skip
    assert last_words(folder / "log", 3).startswith("no key")


@pytest.fixture
def ordinary(key: int) -> Iterator[Ordinary]:
    player = Ordinary(seccomp="off")
    yield player
    player.ask("remove")
    player.close()


def test_nor_has_the_workspace_of_an_ordinary_user(ordinary: Ordinary, key: int) -> None:
    assert _asked(ordinary.do("start"), key)[0] == "no key"
