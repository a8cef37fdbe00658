"""However a run of the tests ends, nothing that it has started is left: if it was killed, the next run sees to that."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from tests.lab import runs
from tests.support import eventually, first_of, needs_root

ROOT = Path(__file__).parents[2]
# Servers under another account, a workspace in a sandbox (where there is one), and a program that ignores who ends it.
SOME = """
import os, shutil, subprocess, sys, time
from pathlib import Path
import pytest
from codehub.drivers.process import Options
from tests.drivers_process.world import World
from tests.support import short_folder

async def test_something(server_urls):
    folder = short_folder()
    world = World(Options(root=folder / "w"))
    await world.start()
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
    (folder / "sleep").symlink_to(shutil.which("sleep"))
    subprocess.Popen(["setsid", folder / "sleep", "600"], env={})
    if os.geteuid() == 0:
        (folder / "mounted").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", str(folder / "mounted")], check=True)
        (folder / "with a space").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", str(folder / "with a space")], check=True)
    Path(os.environ["TOLD"] + ".part").write_text(os.environ["CODEHUB_TEST_RUN"])
    Path(os.environ["TOLD"] + ".part").rename(os.environ["TOLD"])
    time.sleep(600)
"""


@contextmanager
def a_run(folder: Path, *arguments: str) -> Iterator[tuple["subprocess.Popen[bytes]", runs.Run]]:
    """One that is in the middle of a test, with all of this under way."""
    told = folder / "told"
    test = ROOT / "tests" / "lab" / f"some_{os.getpid()}.py"
    test.write_text(SOME)
    given = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", runs.VARIABLE))}
    command = [sys.executable, "-m", "pytest", "-q", *arguments, str(test)]
    with (folder / "out").open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**given, "TOLD": str(told)}, stdout=out, stderr=out, start_new_session=True
        )
    try:
        eventually(lambda: told.exists() or process.poll() is not None, "a test is under way", 120)
        assert told.exists(), (folder / "out").read_text()
        run = runs.Run(told.read_text())
        assert len(list(run.processes())) > 5
        yield process, run
    finally:
        test.unlink()
        process.kill()
        process.wait()


def nothing_is_left(run: runs.Run) -> None:
    assert list(run.processes()) == []
    assert run.mounts() == []
    assert not any(folder.exists() for folder in run.folders)


@pytest.mark.parametrize(
    ("how", "workers"),
    first_of([(signal.SIGTERM, "1"), (signal.SIGINT, "0"), (signal.SIGINT, "1"), (signal.SIGTERM, "0")]),
)
def test_one_that_is_ended_cleans_up(tmp_path: Path, how: signal.Signals, workers: str) -> None:
    with a_run(tmp_path, "-n", workers) as (process, run):
        process.send_signal(how)
        assert process.wait(60) != 0
        nothing_is_left(run)


def test_after_one_that_was_killed_the_next_cleans_up(tmp_path: Path) -> None:
    with a_run(tmp_path, "-n", "0") as (process, run):
        assert run not in runs.sweep(), "it lives"
        process.kill()
        process.wait()
        assert list(run.processes()), "it could not"
        done = subprocess.run(
            [sys.executable, "-m", "tests.lab.runs"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
        )
        assert f"the killed test run {run.name} had left" in done.stderr, "nothing is ended without a line"
        nothing_is_left(run)


def test_what_is_no_process_and_no_file_is_undone(tmp_path: Path) -> None:
    needs_root("whose processes may leave such things")
    done = subprocess.run(
        [sys.executable, "-c", f"from tests.lab import runs; runs.current().undo(['touch', '{tmp_path}/undone'])"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != runs.VARIABLE},
        timeout=60,
        check=True,
    )
    assert done.returncode == 0
    assert (tmp_path / "undone").exists()


def test_two_runs_share_neither_folders_nor_user_ids() -> None:
    one, other = runs.Run("aaaa"), runs.Run("aaab")
    assert not set(one.folders) & set(other.folders)
    assert not set(one.users) & set(other.users)
    workers = [set(one.users_of(worker)) for worker in range(16)]
    assert set(one.users) == set().union(*workers)
    assert sum(map(len, workers)) == len(one.users)


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> runs.Run:
    """One that was killed, and has left its folders in places of this test's own."""
    monkeypatch.setattr(runs, "DISK", tmp_path / "disk")
    monkeypatch.setattr(runs, "MEMORY", tmp_path / "memory")
    run = runs.Run("0k7z")
    for folder in run.folders:
        (folder / "x").mkdir(parents=True)
        (folder / ".lock").touch()
    return run


@contextmanager
def beside(command: Sequence[str], folder: Path, more: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that no run has started; it waits for its end."""
    env = {name: value for name, value in os.environ.items() if name != runs.VARIABLE} | dict(more)
    with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.PIPE, start_new_session=True) as process:
        try:
            said = Path(f"/proc/{process.pid}/cmdline")
            eventually(lambda: said.read_bytes().startswith(os.fsencode(command[0])), "it runs")
            yield process
        finally:
            process.kill()


# What people do in such a folder, or after they were there.
PEOPLE: dict[str, tuple[list[str], bool, dict[str, str]]] = {
    "a shell in it": (["sh", "-c", "read x; :"], True, {"PWD": "{folder}"}),
    "a shell that was there": (["sh", "-c", "read x; :"], False, {"OLDPWD": "{folder}"}),
    "one who follows a log": (["tail", "-f", "{folder}/log"], False, {}),
    "one who reads": (["cat", "--", "{folder}/log", "-"], False, {"LESSHISTFILE": "{folder}/history"}),
}


@pytest.mark.parametrize("who", PEOPLE)
def test_who_only_looks_at_it_is_not_ended(killed: runs.Run, who: str) -> None:
    folder = killed.folders[0] / "x"
    (folder / "log").touch()
    words, inside, more = PEOPLE[who]
    command = [word.format(folder=folder) for word in words]
    given = {name: value.format(folder=folder) for name, value in more.items()}
    with beside(command, folder if inside else Path("/"), given) as process:
        assert runs.sweep() == {killed: []}
        assert process.poll() is None
    assert not any(folder.exists() for folder in killed.folders)


OURS: dict[str, tuple[list[str], dict[str, str]]] = {
    "its mark": (["cat"], {runs.VARIABLE: "0k7z"}),
    "its data": (["cat"], {"CODEHUB_DATA_DIR": "{folder}/d"}),
    "its home": (["cat"], {"HOME": "{folder}"}),
    "its program": (["{folder}/cat"], {}),
    "a folder that it was given": (["sh", "-c", "read x; :", "-D", "{folder}/postgres"], {}),
    "the same in one word": (["sh", "-c", "read x; :", "-dir={folder}"], {}),
}


@pytest.mark.parametrize("what", OURS)
def test_what_it_has_started_is_ended(killed: runs.Run, what: str) -> None:
    folder = killed.folders[0] / "x"
    (folder / "cat").symlink_to(str(shutil.which("cat")))
    words, more = OURS[what]
    given = {name: value.format(folder=folder) for name, value in more.items()}
    with beside([word.format(folder=folder) for word in words], Path("/"), given) as process:
        assert len(runs.sweep()[killed]) == 1
        assert process.wait(10) == -signal.SIGTERM


def test_a_workspace_in_its_folder_is_ended(killed: runs.Run) -> None:
    with beside(["cat"], killed.folders[0] / "x", {"CODEHUB_MARK": "some"}) as process:
        assert runs.sweep() == {killed: ["cat"]}
        assert process.wait(10) == -signal.SIGTERM


def test_whoever_has_started_us_is_not_ended() -> None:
    inner = "from tests.lab import runs; print(runs.Run('0k7z').end())"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    given = {**os.environ, runs.VARIABLE: "0k7z"}
    done = subprocess.run(
        [sys.executable, "-c", outer], cwd=ROOT, env=given, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_a_link_of_its_name_is_not_followed(killed: runs.Run, tmp_path: Path) -> None:
    """Anybody can make one in /tmp: nothing there is run, and nothing is removed."""
    theirs = tmp_path / "theirs"
    killed.folders[0].rename(theirs)
    (theirs / ".undo").write_text(f'["touch", "{tmp_path}/undone"]\n')
    killed.folders[0].symlink_to(theirs)
    assert runs.sweep() == {killed: []}
    assert not killed.folders[1].exists()
    assert (theirs / "x").exists()
    assert not (tmp_path / "undone").exists()


def test_another_users_folder_is_not_ours(killed: runs.Run, tmp_path: Path) -> None:
    needs_root("to give a folder away")
    os.chown(killed.folders[0], 65534, 65534)
    (killed.folders[0] / ".undo").write_text(f'["touch", "{tmp_path}/undone"]\n')
    assert runs.sweep() == {killed: []}
    assert not killed.folders[1].exists()
    assert (killed.folders[0] / "x").exists()
    assert not (tmp_path / "undone").exists()


def test_other_names_are_nobodys(killed: runs.Run) -> None:
    (runs.DISK / "ch-ABCD").mkdir()
    (runs.DISK / "ch-ABCD" / ".lock").touch()
    assert runs.sweep() == {killed: []}
    assert (runs.DISK / "ch-ABCD").exists()


def test_one_that_lives_in_either_folder_lives(killed: runs.Run) -> None:
    with beside(["flock", str(killed.folders[0] / ".lock"), "cat"], Path("/"), {}):
        eventually(lambda: runs._lives(killed.folders[0]), "it is locked")
        assert runs.sweep() == {}
    assert killed.folders[1].exists()


def test_what_is_mounted_is_never_removed(
    killed: runs.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_root("to mount something")
    dear, at = tmp_path / "dear", killed.folders[0] / "with a space\\"
    for folder in (dear, at):
        folder.mkdir()
    (dear / "file").touch()
    subprocess.run(["mount", "--bind", str(dear), str(at)], check=True)
    try:
        assert killed.mounts() == [at]
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "run", lambda *_, **__: None)  # there is no umount
            killed.end()
        assert f"{at} is mounted still" in capsys.readouterr().err
        assert (dear / "file").exists()
        assert all(folder.exists() for folder in killed.folders)
        killed.end()
        assert killed.mounts() == []
        assert (dear / "file").exists()
        assert not any(folder.exists() for folder in killed.folders)
    finally:
        subprocess.run(["umount", str(at)], check=False, stderr=subprocess.DEVNULL)


def test_no_two_have_the_same_user_ids(killed: runs.Run) -> None:
    same = next(run for run in map(runs.Run, _names()) if run.users == killed.users and run != killed)
    assert not runs._claim(same), "its user ids are somebody's"
    assert not any(folder.exists() for folder in same.folders)
    assert not runs._claim(killed), "its name is somebody's"
    killed.end()
    assert runs._claim(same)
    assert runs.sweep() == {}, "it lives"


def _names() -> Iterator[str]:
    return map("".join, product("abcdefghijklmnopqrstuvwxyz0123456789", repeat=4))
