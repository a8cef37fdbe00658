"""`codehub ide`: what it says, what it leaves behind, and how it fails. Only real installers are run."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codehub.drivers.load import open_drivers
from codehub.drivers.process import install as installing
from codehub.drivers.process.install import LOCKED, RECIPES, Recipe, install
from codehub.drivers.process.install_code_server import install_code_server
from codehub.drivers.process.programs import READY
from codehub.drivers.process.running import Installer, explained
from codehub.errors import StartError
from codehub.model.workspace import InstanceBackend
from tests.cli.codehub import failing, running
from tests.cli.test_commands import output_of
from tests.cli.test_up import offline
from tests.embedded.support import needs_root, processes_at
from tests.support import AS_ROOT, eventually, missing, skip
from tests.test_config import load as settings_of
from tests.test_load import use


def test_the_list_says_what_is_installed(place: Path) -> None:
    data = {"CODEHUB_DATA_DIR": str(place / "d"), "PATH": "/nowhere"}
    assert output_of("ide", "list", **data).splitlines() == [
        "jupyterlab   not installed  JupyterLab: editor, terminal, notebooks",
        "code-server  not installed  VS Code in the browser",
    ]
    assert not (place / "d").exists(), "looking makes nothing"
    (place / "d/ide/jupyterlab").mkdir(parents=True)
    (place / "d/ide/jupyterlab" / READY).touch()
    (place / "code-server").write_text("#!/bin/sh\n")
    (place / "code-server").chmod(0o755)
    shown = output_of("ide", "list", **(data | {"PATH": str(place)}))
    assert [line.split("  ")[1].strip() for line in shown.splitlines()] == ["installed", "found on this machine"]


def test_what_is_installed_is_not_installed_again(place: Path) -> None:
    (place / "d/ide/jupyterlab/bin").mkdir(parents=True)
    for name in (READY, "bin/pip"):
        (place / "d/ide/jupyterlab" / name).touch()
    (place / "d/lock").touch()
    said = output_of("ide", "install", "jupyterlab", CODEHUB_DATA_DIR=str(place / "d"))
    assert said == "jupyterlab is installed already.\n"


def test_a_name_that_is_unknown(place: Path) -> None:
    code, lines = failing("ide", "install", "emacs", CODEHUB_DATA_DIR=str(place / "d"))
    assert (code, lines) == (2, ["codehub: There is no IDE called 'emacs'. Choose one of: jupyterlab, code-server."])
    assert not (place / "d").exists()


def test_a_home_of_nobody() -> None:
    for arguments in (["list"], ["install", "jupyterlab"]):
        _, (line,) = failing("ide", *arguments, CODEHUB_DATA_DIR="~no-such-user/x")
        assert "does not exist" in line


def test_without_a_network(place: Path) -> None:
    code, (line,) = failing("ide", "install", "jupyterlab", CODEHUB_DATA_DIR=str(place / "d"), **offline(place))
    assert code == 1
    assert line.startswith("codehub: It cannot be downloaded: ")
    assert line.endswith("Check this machine's network (behind a proxy: HTTPS_PROXY) and try again.")
    assert not (place / "d/ide/jupyterlab").exists(), "nothing half-done is left"


def test_a_folder_that_is_not_ours(place: Path) -> None:
    (place / "d").mkdir()
    (place / "d/mine").touch()
    _, (line,) = failing("ide", "install", "jupyterlab", CODEHUB_DATA_DIR=str(place / "d"))
    assert "is not a CodeHub data directory" in line


@needs_root
def test_a_disk_that_is_too_small(place: Path) -> None:
    with mounted(place / "small", "8m"), pytest.raises(StartError, match=r"not enough room .* Make 400 MB free"):
        install("jupyterlab", place / "small/ide", print)


@needs_root
def test_a_disk_that_becomes_full(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = installing.Recipe(_fill, 1 << 20)
    monkeypatch.setitem(installing.RECIPES, "jupyterlab", recipe)
    with mounted(place / "small", "8m"):
        with pytest.raises(StartError, match="not enough room"):
            install("jupyterlab", place / "small/ide", print)
        assert not (place / "small/ide/jupyterlab").exists(), "what it filled the disk with is gone"


def _fill(folder: Path, installer: Installer) -> None:
    installer.run(["dd", "if=/dev/zero", f"of={folder}/much", "bs=1M", "count=64"], lambda _: None, {})


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False)
    if done.returncode != 0:
        missing("root, who may mount", AS_ROOT)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_what_building_needs_is_told_before_anything_is_done(place: Path) -> None:
    installer = Installer(print, threading.Event(), 0, given={"PATH": "/nowhere"})
    with pytest.raises(StartError, match=r"lacks: npm, g\+\+.*apt install npm build-essential"):
        install_code_server(place / "code-server", installer)
    assert list(place.iterdir()) == []


@needs_root
def test_tools_that_whoever_builds_cannot_run_are_not_there(place: Path) -> None:
    (place / "closed/bin").mkdir(parents=True)
    (place / "closed").chmod(0o700)
    for name in ("npm", "g++", "make", "python3", "pkg-config"):
        (place / "closed/bin" / name).touch(0o755)
    installer = Installer(print, threading.Event(), 0, given={"PATH": str(place / "closed/bin")})
    with pytest.raises(StartError, match="lacks: npm"):
        install_code_server(place / "code-server", installer)


def test_an_installer_is_stopped_with_all_that_it_started(place: Path) -> None:
    stop = threading.Event()
    script = f"cd {place}; sleep 600 & sleep 600 & echo started; wait"
    said: list[str] = []

    def run() -> None:
        with pytest.raises(StartError, match="was stopped"):
            Installer(said.append, stop, 0).run(["sh", "-c", script], lambda line: line, {})

    thread = threading.Thread(target=run)
    thread.start()
    eventually(lambda: said == ["started"], "it runs")
    assert processes_at(place)
    stop.set()
    thread.join(20)
    eventually(lambda: not processes_at(place), "nothing of it is left")


def test_one_that_was_killed_in_the_middle_is_begun_again_once_what_it_started_has_ended(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installer outlives the CodeHub that started it; what it still writes must not end up in the next attempt."""
    let_go = place / "let-go"
    os.mkfifo(let_go)
    first = subprocess.Popen([sys.executable, "-m", __name__, str(place / "ide"), str(let_go)])
    eventually((place / "ide/jupyterlab/first").exists, "it installs")
    first.kill()
    first.wait(20)
    monkeypatch.setitem(installing.RECIPES, "jupyterlab", Recipe(lambda folder, _: (folder / "second").touch(), 0))
    said: list[str] = []
    second = threading.Thread(target=install, args=("jupyterlab", place / "ide", said.append))
    second.start()
    eventually(lambda: bool(said) or not second.is_alive(), "it waits, or has not noticed")
    let_go.write_text("on\n")
    second.join(20)
    eventually(lambda: not processes_at(place), "what was left has ended")
    assert said == ["Waiting for another process that installs the same …"]
    assert {path.name for path in (place / "ide/jupyterlab").iterdir()} == {"second", READY}


def _install_until_killed(ides: Path, let_go: Path) -> None:
    """Writes a file before it waits, and, should it live to hear, one after."""

    def steps(folder: Path, installer: Installer) -> None:
        (folder / "first").touch()
        script = f"read _ < {let_go}; mkdir -p {folder}; touch {folder}/late"
        installer.run(["sh", "-c", script], lambda _: None, {})

    installing.RECIPES["jupyterlab"] = Recipe(steps, 0)
    install("jupyterlab", ides, print)


@pytest.mark.exhaustive
def test_codehub_killed_while_it_installs_an_ide_does_so_at_its_next_start(place: Path) -> None:
    """The real one, from the real registry."""
    given = {"CODEHUB_IMAGES": "jupyterlab"}
    with running(place / "d", place / "out", **given) as codehub:
        eventually((place / "d/ide/jupyterlab/lib").exists, "packages come", 60)
        codehub.stop(signal.SIGKILL)
        assert not (place / "d/ide/jupyterlab" / READY).exists()
    with running(place / "d", place / "again", **given) as codehub:
        assert codehub.is_ready()
        assert (place / "d/ide/jupyterlab" / READY).exists()
        assert "was not installed" not in codehub.printed


def test_an_installer_that_left_something_behind_that_holds_its_output(place: Path) -> None:
    command = [sys.executable, "-c", f"import subprocess; subprocess.Popen(['sleep', '600'], cwd='{place}')"]
    Installer(print, threading.Event(), 0).run(command, lambda line: line, {})
    eventually(lambda: not processes_at(place), "nothing of it is left")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("npm error code ENOTFOUND", "cannot be downloaded"),
        ("npm error code ENOSPC", "not enough room"),
        ("cause: No space left on device (os error 28)", "not enough room"),
        ("cause: client error (Connect)", "cannot be downloaded"),
        (
            "cause: HTTP status client error (403 Forbidden) for url (https://x/)",
            "index answers, but .*: HTTP status .*403",
        ),
        ("npm error code E404", "index answers, but"),
        ("error: Failed to fetch: https://x/", "uv failed"),
        ("error: the hash is another one", "uv failed: .*the hash is another one"),
    ],
)
def test_what_a_failure_means(line: str, told: str) -> None:
    with pytest.raises(StartError, match=told):
        raise explained("uv", ["Resolved 3 packages", line, "more"], 1)


def test_a_registry_s_password_is_not_told() -> None:
    told = str(explained("npm", ["npm error request to https://me:hunter2@registry.example/x failed: ENOTFOUND"], 1))
    assert "hunter2" not in told
    assert "registry.example" in told


def test_every_package_of_jupyterlab_is_locked_by_hash_and_no_host_is_named() -> None:
    text = LOCKED.read_text()
    assert "://" not in text
    packages = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert any(line.startswith("jupyterlab==") for line in packages)
    assert all("==" in line for line in packages)
    assert text.count("--hash=sha256:") >= len(packages)


async def test_code_server_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    """Building it takes minutes; CODEHUB_TEST_IDES names a folder where `codehub ide install code-server` was run."""
    settings = settings_of(monkeypatch, CODEHUB_IMAGES="code-server")
    if folder := os.environ.get("CODEHUB_TEST_IDES"):
        (place / "d").mkdir()
        (place / "d/ide").symlink_to(folder)
    async with open_drivers(settings, place / "d") as drivers:
        if not drivers.images()[InstanceBackend.PROCESS]:
            skip("code-server", "codehub ide install code-server, and its folder in CODEHUB_TEST_IDES")
        page = await use(drivers, InstanceBackend.PROCESS, "code-server")
    assert "code-server" in page
    assert "vscode" in page


def test_a_strict_umask_does_not_keep_workspaces_out(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have user ids of their own. What uv's cache has is linked from there, modes included."""

    def steps(folder: Path, _installer: object) -> None:
        (folder / "lib").mkdir()
        (folder / "lib" / "library.py").touch()

    monkeypatch.setitem(RECIPES, "jupyterlab", Recipe(steps, 0))
    was = os.umask(0o077)
    try:
        install("jupyterlab", place / "ide", lambda _: None)
    finally:
        os.umask(was)
    folders = (place / "ide", place / "ide/jupyterlab", place / "ide/jupyterlab/lib")
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o755}
    assert stat.S_IMODE((place / "ide/jupyterlab/lib/library.py").stat().st_mode) == 0o644


if __name__ == "__main__":
    _install_until_killed(Path(sys.argv[1]), Path(sys.argv[2]))
