"""The home's own Python: what is installed in a notebook or a terminal is there again, whatever happened meanwhile."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from codehub.drivers.process import Options
from codehub.drivers.process.inside import home_python
from codehub.model.names import archive_key
from codehub.model.observation import JobState
from codehub.model.workspace import OpId
from tests.drivers_process.notebooks import Notebook, in_terminal, package_index, venv_of
from tests.drivers_process.world import Workspace, World
from tests.lab.ides import installed
from tests.support import eventually_async, needs_sandbox, short_folder

pytestmark = pytest.mark.timeout(300)  # JupyterLab may have to be installed

SCRIPT = Path(home_python.__file__)
IMPORTED = "import parcel; parcel.content()"


@pytest.fixture(scope="module")
def index() -> Iterator[str]:
    with package_index() as url:
        yield url


@pytest.fixture(scope="module", params=["auto", pytest.param("off", marks=pytest.mark.exhaustive)])
async def world(request: pytest.FixtureRequest, index: str) -> AsyncIterator[World]:
    """Sandboxed, and without: then a home has another path each time."""
    ides = installed("jupyterlab")
    folder = short_folder()
    environment = {"PIP_INDEX_URL": index, "PIP_TRUSTED_HOST": index.split("/")[2]}
    hosts = (index.split("/")[2],)
    world = World(Options(root=folder / "w", sandbox=request.param, hosts=hosts, environment=environment))
    if request.param == "auto":
        needs_sandbox(world.driver)
    world.driver.close()
    world.ides = ides
    world.driver = world.open()
    yield world
    await world.close()
    shutil.rmtree(folder)


@pytest.fixture
async def workspace(world: World) -> AsyncIterator[Workspace]:
    workspace = await world.start(image_ref="jupyterlab")
    yield workspace
    await world.driver.instances.remove(workspace.id)


async def test_what_a_notebook_installs_is_there_after_an_archive_and_a_restore(workspace: Workspace) -> None:
    world, notebook = workspace.world, Notebook(workspace)
    said = notebook.run("%pip install parcel")
    assert "Successfully installed parcel-1.0" in said, said
    assert "kept" in notebook.run(IMPORTED)
    notebook.close()
    shown = in_terminal(workspace, "parcel", "which jupyter pip", "echo $PATH")
    assert "kept" in shown
    assert "venv/bin/pip" in shown
    assert "bin/jupyter" in shown
    assert ".local/bin" in shown
    archiving, restoring = OpId(uuid4()), OpId(uuid4())
    await world.driver.instances.remove(workspace.id)
    await world.driver.jobs.archive(workspace.id, archiving, workspace.volume)
    await _succeeds(world, workspace, archiving)
    await world.driver.volumes.delete(workspace.id, workspace.volume)
    _, volume = await world.create(workspace.id)
    await world.driver.jobs.restore(workspace.id, restoring, archive_key(workspace.id, archiving), volume)
    await _succeeds(world, workspace, restoring)
    restored = await world.start_on(workspace.id, volume, image_ref="jupyterlab")
    notebook = Notebook(restored)
    assert "kept" in notebook.run(IMPORTED)
    notebook.close()
    assert "kept" in in_terminal(restored, "parcel"), "a program names its interpreter by its path"


async def _succeeds(world: World, workspace: Workspace, op_id: OpId) -> None:
    async def has_ended() -> bool:
        (job,) = (await world.driver.jobs.observe())[workspace.id]
        return job.state is not JobState.RUNNING

    await eventually_async(has_ended, "the end of the job")
    (job,) = (await world.driver.jobs.observe())[workspace.id]
    assert job.state is JobState.SUCCEEDED, job.message
    await world.driver.jobs.remove(workspace.id, op_id)


async def test_packages_that_break_the_kernel_leave_another_one(workspace: Workspace) -> None:
    packages = next(venv_of(workspace.home).glob("lib/*/site-packages"))
    (packages / "ipykernel_launcher.py").write_text("raise SystemExit('broken by its user')")
    notebook = Notebook(workspace, "python3-ide")
    assert notebook.run("print(6 * 7)").strip() == "42"
    notebook.close()


class Prepared:
    """A home that the preparation is run on, with the Python of a real JupyterLab."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.venv = venv_of(home)
        self._python = installed("jupyterlab") / "jupyterlab/bin/python"

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        words = [str(self._python), "-B", str(SCRIPT), *command]
        environment = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        return subprocess.run(words, env=environment, check=True, capture_output=True, text=True)

    @property
    def packages(self) -> Path:
        (found,) = self.venv.glob("lib/python3*/site-packages")
        return found


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    prepared = Prepared(tmp_path)
    prepared.run("python", "--version")
    (prepared.packages / "parcel.py").write_text("print('kept')")
    return prepared


def _move_interpreter(venv: Path) -> None:
    for name in ("python", "python3"):
        (venv / "bin" / name).unlink()
        (venv / "bin" / name).symlink_to("/nowhere/python3.11")


def _remove_half(venv: Path) -> None:
    shutil.rmtree(venv / "bin")
    (venv / "pyvenv.cfg").unlink()


def _remove_settings(venv: Path) -> None:
    for path in (*venv.glob("lib/*/site-packages/codehub.pth"), venv / "codehub.json"):
        path.unlink()


def _spoil_the_record(venv: Path) -> None:
    (venv / "codehub.json").write_text("[")


@pytest.mark.parametrize("harm", [_move_interpreter, _remove_half, _remove_settings, _spoil_the_record])
def test_what_was_broken_is_mended_at_the_next_start(prepared: Prepared, harm: Callable[[Path], None]) -> None:
    harm(prepared.venv)
    assert prepared.run("python", "-c", "import pip, ipykernel, parcel").stdout.strip() == "kept"
    assert prepared.run("pip", "--version").stdout.startswith("pip ")


def test_one_that_was_deleted_is_made_anew(prepared: Prepared) -> None:
    shutil.rmtree(prepared.venv)
    assert "parcel" not in prepared.run("pip", "list").stdout
    assert prepared.run("python", "-c", "import sys; print(sys.prefix)").stdout.strip() == str(prepared.venv)


def test_where_it_cannot_be_made_the_ides_own_python_works(prepared: Prepared) -> None:
    shutil.rmtree(prepared.venv)
    prepared.venv.write_text("in the way")
    done = prepared.run("python", "-c", "import ipykernel; print('works')")
    assert done.stdout.strip() == "works"
    assert "no Python of its own" in done.stderr
    assert prepared.venv.read_text() == "in the way"


def test_what_is_emptied_at_each_start_is_nobodys_but_codehubs() -> None:
    home = short_folder()
    prepared = Prepared(home)
    theirs = home / ".cache/tmp/notes.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    tmp = Path(prepared.run("sh", "-c", 'touch "$TMPDIR/left"; echo "$TMPDIR"').stdout.strip())
    assert (tmp / "left").exists()
    assert prepared.run("sh", "-c", 'ls "$TMPDIR"').stdout == ""
    assert theirs.read_text() == "theirs"
    shutil.rmtree(home)


def test_a_home_that_moved_takes_its_programs_along(prepared: Prepared, tmp_path: Path) -> None:
    long = "so-long-a-name-that-the-line-which-names-the-interpreter-must-be-another-one-" + "x" * 60
    for name in ("elsewhere", long, "and back"):
        moved = tmp_path.parent / f"{tmp_path.name}-{name}"
        prepared.home.rename(moved)
        prepared = Prepared(moved)
        prepared.run("true")
        program = prepared.venv / "bin/pip"
        assert subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout


def test_another_version_of_python_lists_what_to_install_again(prepared: Prepared) -> None:
    record = prepared.venv / "codehub.json"
    record.write_text(record.read_text().replace('"version": "3.', '"version": "2.'))
    earlier = prepared.packages.parent.name.replace("python3.", "python2.")
    old = prepared.venv / "lib" / earlier / "site-packages/parcel-1.0.dist-info"
    old.mkdir(parents=True)
    done = prepared.run("true")
    (listed,) = prepared.venv.glob("requirements-2.*.txt")
    assert listed.read_text() == "parcel==1.0\n"
    assert str(listed) in done.stderr
    assert old.exists(), "nothing that was installed is removed"


def test_what_is_right_is_left_alone(prepared: Prepared) -> None:
    def state() -> list[tuple[str, int]]:
        return sorted(
            (str(path), path.lstat().st_mtime_ns) for path in prepared.venv.rglob("*") if path.suffix != ".pyc"
        )

    before = state()
    prepared.run("true")
    assert state() == before
