"""Bubblewrap is installed where it is missing and the machine lets us, said in one line; else nothing is touched."""

import asyncio
import os
import shutil
import threading
from pathlib import Path

import pytest

from codehub.cli import first_start
from codehub.config import Settings
from codehub.drivers import places
from codehub.drivers.load import workspaces_folder
from codehub.drivers.process import install_sandbox as installing
from codehub.drivers.process.install_sandbox import install_sandbox
from codehub.drivers.process.layout import Layout
from tests.lab.skips import reason
from tests.support import AS_USER, until

APT = """#!/bin/sh
echo "$@" >>{log}
case $1 in
  update) touch {folder}/listed ;;
  install)
    [ -e {folder}/listed ] || exit 100
    case "$*" in
      *--download-only*) sleep {download}; touch {folder}/downloaded ;;
      *--no-download*) [ -e {folder}/downloaded ] || exit 100; sleep {install}; ln -s /bin/true {folder}/bwrap ;;
      *) sleep {download}; sleep {install}; ln -s /bin/true {folder}/bwrap ;;
    esac ;;
esac
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with programs, but for what shell scripts need."""
    for name in ("sh", "touch", "ln", "sleep", "timeout"):
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def as_root(folder: Path) -> None:
    """Without root by a sudo that asks for nothing."""
    if os.geteuid() != 0:
        program(folder, "sudo", '#!/bin/sh\nshift\nexec "$@"\n')
        program(folder, "true", "#!/bin/sh\n")


def test_it_is_installed_once_the_lists_are_there(programs: Path) -> None:
    as_root(programs)
    log = programs / "log"
    program(programs, "apt-get", APT.format(log=log, folder=programs, download=0, install=0))
    said: list[str] = []
    assert install_sandbox(said.append)
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["install", "update", "install", "install"]
    assert ["--no-remove" in line for line in lines] == [True, False, True, True]
    assert said == ["Installing bubblewrap, the sandbox of workspaces (apt-get) …"]


def test_only_the_download_has_a_limit_of_time(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who ends apt while it installs leaves the system half installed."""
    as_root(programs)
    monkeypatch.setattr(installing, "_SECONDS", 1)
    program(programs, "apt-get", APT.format(log=programs / "log", folder=programs, download=0, install=2))
    (programs / "listed").touch()
    assert install_sandbox(lambda _: None)


def test_a_download_that_takes_too_long_is_ended(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_root(programs)
    monkeypatch.setattr(installing, "_SECONDS", 1)
    program(programs, "apt-get", APT.format(log=programs / "log", folder=programs, download=30, install=0))
    (programs / "listed").touch()
    assert not install_sandbox(lambda _: None)
    assert not (programs / "downloaded").exists()


def test_after_a_stop_nothing_more_is_begun(programs: Path) -> None:
    as_root(programs)
    program(programs, "apt-get", APT.format(log=programs / "log", folder=programs, download=0, install=0))
    stop = threading.Event()
    assert not install_sandbox(lambda _: stop.set(), stop)
    assert not (programs / "log").exists()


async def test_whoever_stops_codehub_meanwhile_is_told_what_it_waits_for(
    programs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_root(programs)
    program(programs, "apt-get", APT.format(log=programs / "log", folder=programs, download=0, install=1))
    (programs / "listed").touch()
    task = asyncio.create_task(first_start._install_sandbox(Settings.load(), programs / "data"))
    log = programs / "log"
    await until(lambda: log.exists() and "--no-download" in log.read_text(), "apt installs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (programs / "bwrap").exists()
    assert capsys.readouterr().out.splitlines() == [
        "Installing bubblewrap, the sandbox of workspaces (apt-get) …",
        "Waiting for apt-get to finish …",
    ]


async def test_what_failed_is_tried_again_for_a_shorter_time_until_somebody_has_a_workspace(programs: Path) -> None:
    """As a first start without network: then nothing can be downloaded, neither packages nor lists of them."""
    as_root(programs)
    data = programs / "data"
    layout = Layout(workspaces_folder(data))
    program(programs, "apt-get", "#!/bin/sh\nexit 100\n")
    (programs / "timeout").unlink()
    limits = programs / "limits"
    program(programs, "timeout", f'#!/bin/sh\necho "$1" >>{limits}\nshift\nexec "$@"\n')
    for seconds in ({"120"}, {"15"}):
        limits.unlink(missing_ok=True)
        await first_start._install_sandbox(Settings.load(), data)
        assert set(limits.read_text().split()) - {"5"} == seconds  # five are for the question whether sudo asks
        layout.make_folders()
        places.remember_workspaces(data, layout)
    program(programs, "apt-get", APT.format(log=programs / "log", folder=programs, download=0, install=0))
    (layout.homes / "ws-home").mkdir()
    await first_start._install_sandbox(Settings.load(), data)
    assert not (programs / "bwrap").exists()
    (layout.homes / "ws-home").rmdir()
    await first_start._install_sandbox(Settings.load(), data)
    assert (programs / "bwrap").exists()


def test_one_that_is_there_is_left_alone(programs: Path) -> None:
    program(programs, "bwrap", "#!/bin/sh\n")
    said: list[str] = []
    assert install_sandbox(said.append)
    assert not said


def test_a_manager_that_fails_is_no_reason_to_fail(programs: Path) -> None:
    as_root(programs)
    program(programs, "dnf", "#!/bin/sh\nexit 1\n")
    assert not install_sandbox(lambda _: None)


def test_without_a_manager_nothing_is_said(programs: Path) -> None:
    said: list[str] = []
    assert not install_sandbox(said.append)
    assert not said


@pytest.mark.skipif(os.geteuid() == 0, reason=reason("an ordinary user, who needs sudo", AS_USER))
def test_a_sudo_that_asks_for_a_password_is_not_used(programs: Path) -> None:
    program(programs, "sudo", "#!/bin/sh\nexit 1\n")
    program(programs, "apt-get", f"#!/bin/sh\ntouch {programs}/touched\n")
    assert not install_sandbox(lambda _: None)
    assert not (programs / "touched").exists()
