"""Safe mode: nothing in a home keeps its owner out of it."""

import json
import shlex
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.drivers.ide import AllowList
from codehub.drivers.process import Options, inside
from codehub.drivers.process.inside import safe_mode
from codehub.errors import ActionFailed
from tests.drivers_process.notebooks import Notebook, in_terminal
from tests.drivers_process.world import Workspace, World
from tests.lab.ides import installed
from tests.support import needs_sandbox, short_folder

pytestmark = pytest.mark.timeout(300)  # JupyterLab may have to be installed

START_UP = (".bashrc", ".bash_profile", ".profile", ".inputrc")
SAFE_SETTINGS = "code-server-safe.json"


@pytest.fixture(params=["auto", "off"])
async def each_world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Sandboxed, and without: then a home has another path each time, and /tmp is everybody's."""
    folder = short_folder()
    world = World(Options(root=folder / "w", sandbox=request.param))
    if request.param == "auto":
        needs_sandbox(world.driver)
    world.driver.close()
    world.ides = installed("jupyterlab")
    world.allowed = AllowList.of(["test", "jupyterlab"])
    world.driver = world.open()
    yield world
    await world.close()
    shutil.rmtree(folder)


async def again(workspace: Workspace, image_ref: str, *, safe: bool) -> Workspace:
    await workspace.world.driver.instances.remove(workspace.id)
    return await workspace.world.start_on(workspace.id, workspace.volume, image_ref=image_ref, safe_mode=safe)


def write(workspace: Workspace, name: str, text: str) -> None:
    """As its owner."""
    home, path = workspace.home, workspace.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    while path != home:
        shutil.chown(path, home.stat().st_uid, home.stat().st_gid)
        path = path.parent


def break_shells(workspace: Workspace) -> None:
    for name in START_UP:
        write(workspace, name, "touch ~/was-read\nexit 1\n")


async def test_its_shell_reads_nothing_of_the_home_that_it_is_in(each_world: World) -> None:
    workspace = await each_world.start()
    home = workspace.run("printf %s ~")
    break_shells(workspace)
    workspace = await again(workspace, "test", safe=True)
    assert workspace.run("echo $CODEHUB_SAFE_MODE; ls -A ~") == f"{home}\n"
    shell = shlex.quote(f"{safe_mode.shell()[2]} -i")
    said = workspace.run(f"echo 'echo ~ on; cd; echo mended > .inputrc' | /bin/sh -c {shell}")
    assert f"{home} on" in said
    assert "[safe mode]" in said
    assert (workspace.home / ".inputrc").read_text() == "mended\n"
    assert not (workspace.home / "was-read").exists()
    workspace = await again(workspace, "test", safe=False)
    assert workspace.run("printf %s $HOME$CODEHUB_SAFE_MODE") == home


async def test_jupyterlab_opens_whatever_its_settings_say(each_world: World) -> None:
    workspace = await each_world.start(image_ref="jupyterlab")
    break_shells(workspace)
    for name in (".jupyter/jupyter_server_config.py", ".ipython/profile_default/startup/00.py"):
        write(workspace, name, "raise SystemExit('broken by its owner')\n")
    write(workspace, "kept", "content")
    with pytest.raises(ActionFailed, match="broken by its owner"):
        await again(workspace, "jupyterlab", safe=False)
    workspace = await again(workspace, "jupyterlab", safe=True)
    said = in_terminal(workspace, 'echo "$(cat kept) is in $HOME"')  # in one go: what is typed next is echoed, too
    assert f"content is in {'/home/coder' if each_world.driver._machine.bwrap else workspace.home}" in said
    assert not (workspace.home / "was-read").exists()
    assert Notebook(workspace).run("import os; print(os.path.isfile('kept'))") == "True\n"
    status, content = workspace.request("GET", "/api/contents/kept")
    assert (status, json.loads(content)["content"]) == (200, "content")


async def test_code_server_takes_no_settings_and_no_extensions_from_the_home(new_world: World) -> None:
    ides = installed("code-server")
    new_world.driver.close()
    new_world.ides, new_world.allowed = ides, AllowList.of(["code-server"])
    new_world.driver = new_world.open()
    workspace = await new_world.start(image_ref="code-server")
    settings = workspace.home / ".local/share/code-server/User/settings.json"
    assert "terminal.integrated.defaultProfile.linux" not in json.loads(settings.read_text())
    write(workspace, ".config/code-server/config.yaml", "bind-addr: [broken\n")
    with pytest.raises(ActionFailed, match="before it was ready"):
        await again(workspace, "code-server", safe=False)
    workspace = await again(workspace, "code-server", safe=True)
    status, content = workspace.request("GET", "/")
    assert status in (200, 302), content


def test_its_terminals_are_the_same_everywhere() -> None:
    ours = Path(inside.__file__).with_name(SAFE_SETTINGS)
    assert ours.read_text() == (Path(__file__).parents[2] / "images/workspace/settings-safe.json").read_text()
    (profile,) = json.loads(ours.read_text())["terminal.integrated.profiles.linux"].values()
    assert [profile["path"], *profile["args"]] == safe_mode.shell()
