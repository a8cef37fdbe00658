"""Scripts that are compiled before a sandbox runs them."""

import os
import shutil
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from codehub.drivers.process import inside
from codehub.drivers.process.layout import Layout
from codehub.drivers.process.scripts import compiled
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
    assert "Read-only" in workspace.run("touch /opt/codehub/__pycache__/tiny 2>&1")
    await world.driver.instances.remove(workspace.id)
