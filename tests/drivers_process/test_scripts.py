"""Scripts that are compiled before a sandbox runs them."""

import fcntl
import os
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from codehub.drivers.process import inside
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.old_scripts import KEPT_SECONDS, remove_old_scripts
from codehub.drivers.process.scripts import Scripts, compiled
from tests.drivers_process.world import World

OURS = Path(inside.__file__).parent


@pytest.mark.parametrize("mask", [0o022, 0o077], ids=oct)
def test_a_copy_is_made_once_and_whole(layout: Layout, mask: int) -> None:
    before = os.umask(mask)
    try:
        place = compiled(OURS, layout)
    finally:
        os.umask(before)
    assert {path.name for path in OURS.iterdir() if path.is_file()} == {p.name for p in place.iterdir() if p.is_file()}
    made = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert compiled(OURS, layout) == place
    assert made == {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert all(path.stat().st_mode & 0o444 == 0o444 for path in [place, *made])
    assert not list(layout.trash.iterdir())


def test_what_a_sandbox_runs_is_not_compiled_again(layout: Layout, tmp_path: Path) -> None:
    """One that cannot be compiled any more still runs: beside.py takes what was."""
    (tmp_path / "hello.py").write_text("print('hello')\n")
    shutil.copy(OURS / "beside.py", tmp_path)
    place = compiled(tmp_path, layout)
    (place / "hello.py").write_text("this is no Python\n")
    bare = (str(Path(sys.executable)), "-I", "-S", "-B")
    said = subprocess.run(
        [*bare, str(place / "beside.py"), "-", "-", "-", *bare, str(place / "hello.py")],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert said.stdout == "hello\n"


PREPARES = """
import sys
from pathlib import Path
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.scripts import Scripts
scripts = Scripts(Path(sys.argv[2]), Layout(Path(sys.argv[1])))
print(scripts.path / scripts.runnable("hello.py"))
"""


@pytest.mark.parametrize("setting", ["PYTHONPYCACHEPREFIX", "PYTHONOPTIMIZE"])
def test_what_is_run_is_there_whatever_our_own_python_is_told(layout: Layout, tmp_path: Path, setting: str) -> None:
    (tmp_path / "hello.py").write_text("print('hello')\n")
    for given in ({setting: str(tmp_path / "1") if setting.endswith("PREFIX") else "1"}, {}):
        prepare = [sys.executable, "-c", PREPARES, str(layout.root), str(tmp_path)]
        found = subprocess.run(
            prepare, env={**os.environ, **given}, capture_output=True, text=True, timeout=60, check=True
        ).stdout.strip()
        assert found.endswith(".pyc")
        said = subprocess.run([sys.executable, "-I", "-S", "-B", found], capture_output=True, timeout=60, check=True)
        assert said.stdout == b"hello\n"


def test_a_copy_that_lacks_what_was_compiled_is_run_as_it_is(layout: Layout, tmp_path: Path) -> None:
    shutil.rmtree(_older(layout, tmp_path) / "__pycache__")
    assert Scripts(tmp_path, layout).runnable("hello.py") == "hello.py"


def test_whoever_is_frozen_while_removing_a_copy_is_not_waited_for(layout: Layout, tmp_path: Path) -> None:
    older = os.open(_older(layout, tmp_path), os.O_RDONLY)
    fcntl.flock(older, fcntl.LOCK_EX)
    try:
        assert (Scripts(tmp_path, layout).path / "hello.py").exists()
    finally:
        os.close(older)


def test_other_scripts_have_another_place(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text("print('hello')\n")
    first = compiled(tmp_path, layout)
    (tmp_path / "hello.py").write_text("print('world')\n")
    second = compiled(tmp_path, layout)
    assert first != second
    assert (first / "hello.py").read_text() == "print('hello')\n"
    code = SourceFileLoader("hello", str(second / "hello.py")).get_code("hello")
    assert code is not None
    assert "world" in code.co_consts


def test_without_room_the_scripts_themselves_are_used(layout: Layout) -> None:
    shutil.rmtree(layout.scripts)
    assert compiled(OURS, layout) == OURS
    assert not list(layout.trash.iterdir())


async def test_a_workspace_is_shown_the_copy(world: World) -> None:
    workspace = await world.start()
    assert "tiny." in workspace.run("ls /opt/codehub/__pycache__")
    assert "/opt/codehub/__pycache__/beside." in workspace.run("cat /proc/*/cmdline | tr '\\0' ' '")
    assert "Read-only" in workspace.run("touch /opt/codehub/__pycache__/tiny 2>&1")
    await world.driver.instances.remove(workspace.id)


def _older(layout: Layout, folder: Path, text: str = "print('older')\n") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "hello.py").write_text(text)
    return compiled(folder, layout)


def _days_pass(layout: Layout) -> None:
    for since in layout.scripts.glob("*.unused"):
        os.utime(since, (since.stat().st_atime, since.stat().st_mtime - KEPT_SECONDS - 1))


def test_a_copy_goes_days_after_it_was_first_seen_without_use(layout: Layout, tmp_path: Path) -> None:
    """Not at once: a coordinator of a version that says nothing may run beside us, whatever the age of its copy."""
    ours, older = compiled(OURS, layout), _older(layout, tmp_path)
    os.utime(older, (0, 0))
    remove_old_scripts(layout, ours)
    remove_old_scripts(layout, ours)
    assert older.exists()
    _days_pass(layout)
    remove_old_scripts(layout, ours)
    assert [path.name for path in layout.scripts.iterdir()] == [ours.name]
    assert not list(layout.trash.iterdir())


def test_a_copy_stays_while_a_driver_is_open_that_uses_it(layout: Layout, tmp_path: Path) -> None:
    ours, older = compiled(OURS, layout), _older(layout, tmp_path)
    held = Scripts(tmp_path, layout)
    assert held.path == older
    for _ in range(2):
        remove_old_scripts(layout, ours)
        _days_pass(layout)
    assert older.exists()
    held.close()
    remove_old_scripts(layout, ours)
    assert not older.exists()


def test_who_is_back_before_it_goes_is_not_counted_from_the_first_time(layout: Layout, tmp_path: Path) -> None:
    """As after going back one version: then ours is the one that was seen without use."""
    ours, older = compiled(OURS, layout), _older(layout, tmp_path)
    remove_old_scripts(layout, ours)
    remove_old_scripts(layout, older)
    _days_pass(layout)
    remove_old_scripts(layout, ours)
    assert older.exists()


async def test_a_copy_stays_while_a_workspace_shows_it(world: World, tmp_path: Path) -> None:
    """Also if no driver says that it uses it."""
    workspace = await world.start()
    layout = Layout(world.root)
    (used,) = (path for path in layout.scripts.iterdir() if path.is_dir())
    ours = _older(layout, tmp_path)

    def is_left_after_days_without_a_driver() -> bool:
        world.driver.close()
        for _ in range(3):
            remove_old_scripts(layout, ours)
            _days_pass(layout)
        found = used.exists()
        world.driver = world.open()
        return found

    assert is_left_after_days_without_a_driver()
    assert "tiny.py" in workspace.run("ls /opt/codehub")
    await world.driver.instances.remove(workspace.id)
    assert not is_left_after_days_without_a_driver()
