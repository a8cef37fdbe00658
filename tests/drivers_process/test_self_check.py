"""Before anything is announced: that a workspace can live here, by letting one live."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import obstore
import pytest
import zstandard

import codehub
from codehub.config import Settings
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.ide import AllowList
from codehub.drivers.load import open_drivers, process_self_check
from codehub.drivers.process import Options
from codehub.drivers.process.programs import READY
from codehub.drivers.process.self_check import self_check
from codehub.drivers.process.self_check_record import SelfCheck, digest_of
from codehub.errors import StartError, Unreachable
from tests.support import needs_root, short_folder, workspace_users
from tests.test_config import load as settings_of

ALLOWED = AllowList.of(["jupyterlab"])
CACHES = shutil.ignore_patterns("__pycache__")


class Place:
    """A data directory with a store in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ides = folder / "ide"
        self.archives = folder / "archives"
        self.store = ArchiveStore.open(self.archives.as_uri())
        self.options = Options(root=folder / "self-check", users=workspace_users())

    async def check(self) -> None:
        await self_check(self.options, ALLOWED, self.ides, self.store)

    def install(self, program: str) -> None:
        """Something that JupyterLab is run with."""
        python = self.ides / "jupyterlab/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(program)
        python.chmod(0o755)
        (self.ides / "jupyterlab" / READY).write_text("jupyterlab\n")


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    folder = short_folder()
    place = Place(folder)
    await place.store.prepare()
    yield place
    shutil.rmtree(folder)


@pytest.fixture(params=["auto", "off"])
def any_place(request: pytest.FixtureRequest, place: Place) -> Place:
    """With a sandbox, where this machine has one, and without."""
    place.options = replace(place.options, sandbox=request.param)
    return place


async def test_where_everything_works_it_passes_and_leaves_nothing(any_place: Place) -> None:
    any_place.install("#!/bin/sh\nexit 0\n")
    await any_place.check()
    assert not any_place.options.root.exists()
    assert not list(any_place.archives.rglob("home*"))


async def test_what_an_ide_is_run_with_must_run_as_the_workspaces_user(any_place: Place) -> None:
    any_place.install("#!/bin/sh\necho it lacks a library >&2\nexit 127\n")
    with pytest.raises(StartError, match=r"A workspace cannot run here: .*it lacks a library"):
        await any_place.check()
    assert not any_place.options.root.exists()


async def test_a_store_that_takes_nothing_is_told_before_anybody_needs_it(any_place: Place) -> None:
    (any_place.archives / "archives").write_text("a file where the archives' folder should be")
    with pytest.raises(StartError, match="A home cannot be archived here"):
        await any_place.check()


async def test_a_store_that_is_out_is_an_outage_not_a_reason_to_fail(place: Place) -> None:
    shutil.rmtree(place.archives)
    with pytest.raises(Unreachable):
        await place.check()


async def test_a_disk_that_is_short_of_room_is_named(place: Place) -> None:
    options = replace(place.options, reserve=1 << 60)
    record = SelfCheck(
        lambda: self_check(options, ALLOWED, place.ides, place.store), lambda: "same", place.folder / "self-check.json"
    )
    with pytest.raises(Unreachable, match="The disk of the homes is almost full"):
        await record.ensure()
    assert "The disk of the homes is almost full" in record.sentence()
    assert "archive store" not in record.sentence()


CLOSED = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
import codehub
from codehub.drivers.process import Options
from tests.drivers_process.test_self_check import Place
from tests.drivers_process.world import World

async def main(folder, sandbox):
    assert Path(codehub.__file__).is_relative_to(folder / "packages"), codehub.__file__
    place = Place(folder)
    place.options = replace(place.options, sandbox=sandbox)
    await place.check()
    world = World(Options(root=folder / "w", sandbox=sandbox))
    try:
        print((await world.start()).run("echo it runs"))
    finally:
        await world.close()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def test_packages_that_only_root_can_read_are_copied_for_workspaces(any_place: Place) -> None:
    """As pip and uvx leave them where the umask is 077."""
    needs_root("whose workspaces have user ids of their own")
    any_place.install("#!/bin/sh\nexit 0\n")
    packages = any_place.folder / "packages"
    packages.mkdir()
    for package in (codehub, obstore, zstandard):
        shutil.copytree(Path(package.__path__[0]), packages / package.__name__, ignore=CACHES)
    subprocess.run(["chmod", "-R", "go=", str(packages)], check=True)
    done = subprocess.run(
        [sys.executable, "-B", "-c", CLOSED, str(any_place.folder), any_place.options.sandbox],
        env={**os.environ, "PYTHONPATH": str(packages)}, cwd=Path(__file__).parents[2], capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert "it runs" in done.stdout, done.stderr
    assert not any_place.options.root.exists()


async def test_what_a_killed_check_left_is_in_nobodys_way(place: Place) -> None:
    (place.options.root / "homes/ws-x-home/left").mkdir(parents=True)
    await place.check()
    assert not place.options.root.exists()


async def test_what_passed_is_not_made_again_for_the_same_digest(tmp_path: Path) -> None:
    made = []
    digests = ["one"]

    async def check() -> None:
        made.append(digests[-1])

    record = SelfCheck(check, lambda: digests[-1], tmp_path / "self-check.json")
    for digest in ("one", "one", "two", "two", "one"):
        digests.append(digest)
        await record.ensure()
    assert made == ["one", "two", "one"]


async def test_what_failed_is_made_again(tmp_path: Path) -> None:
    tries = []

    async def check() -> None:
        tries.append(1)
        raise StartError("no")

    record = SelfCheck(check, lambda: "same", tmp_path / "self-check.json")
    for _ in range(2):
        with pytest.raises(StartError):
            await record.ensure()
    assert len(tries) == 2
    assert "not passed" in record.sentence()


async def test_where_it_has_passed_before_a_failure_is_a_warning(tmp_path: Path) -> None:
    """People have workspaces there: they must reach them, whatever an upgrade has broken."""
    fails = [False]

    async def check() -> None:
        if fails[0]:
            raise StartError("A home cannot be archived here: no.")

    digests = ["old"]
    record = SelfCheck(check, lambda: digests[-1], tmp_path / "self-check.json")
    await record.ensure()
    fails[0] = True
    digests.append("new")
    await record.ensure()
    assert record.sentence() == "WARNING: A home cannot be archived here: no."
    assert record.is_due


@pytest.mark.parametrize("written", ["", "[]", "{", '{"digest": 1}'])
async def test_a_record_that_cannot_be_read_has_it_made_again(tmp_path: Path, written: str) -> None:
    path = tmp_path / "self-check.json"
    path.write_text(written)

    async def check() -> None:
        pass

    record = SelfCheck(check, lambda: "same", path)
    assert record.is_due
    await record.ensure()
    assert json.loads(path.read_text())["digest"] == "same"


def test_another_sandbox_setting_ide_or_store_is_another_digest(place: Place) -> None:
    def digest(options: Options = place.options, bwrap: str | None = None, store: str = "a") -> str:
        return digest_of(options, ALLOWED, place.ides, bwrap, store)

    first = digest()
    assert digest() == first
    others = {digest(replace(place.options, sandbox="off")), digest(bwrap="/bin/sh"), digest(store="b")}
    others.add(digest(bwrap="/nowhere/bwrap"))
    others.add(digest(replace(place.options, root=Path("/proc/self-check"))))  # on another disk
    place.install("")
    others.add(digest())
    assert len({first, *others}) == 7


def test_another_credential_of_the_store_is_another_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def is_due(**given: str) -> bool:
        settings = settings_of(monkeypatch, ARCHIVE_URL="s3://bucket", S3_ACCESS_KEY_ID="key", **given)
        check = process_self_check(settings, tmp_path, ArchiveStore.open((tmp_path / "archives").as_uri()))
        if not (tmp_path / "self-check.json").exists():
            (tmp_path / "self-check.json").write_text(json.dumps({"digest": check._digest(), "at": "once"}))
        return check.is_due

    assert not is_due(S3_SECRET_ACCESS_KEY="one")
    assert not is_due(S3_SECRET_ACCESS_KEY="one")
    assert is_due(S3_SECRET_ACCESS_KEY="two")
    assert is_due(S3_SECRET_ACCESS_KEY="one", S3_SESSION_TOKEN="token")
    assert "one" not in (tmp_path / "self-check.json").read_text().replace("once", "")


def test_another_set_of_capabilities_is_another_digest(place: Place) -> None:
    needs_root("who has capabilities to give up")
    program = (
        "import sys; from pathlib import Path; from codehub.drivers.ide import AllowList;"
        " from codehub.drivers.process import Options;"
        " from codehub.drivers.process.self_check_record import digest_of;"
        " root = Path(sys.argv[1]);"
        " print(digest_of(Options(root=root), AllowList.of(['jupyterlab']), root, None, ''))"
    )
    command = [sys.executable, "-c", program, str(place.ides)]
    fewer = ["setpriv", "--bounding-set=-sys_admin", *command]
    found = [subprocess.run(one, capture_output=True, check=True).stdout for one in (command, command, fewer)]
    assert found[0] == found[1] != found[2]


async def test_the_doctor_and_the_start_make_the_same_check(settings: Settings) -> None:
    folder = short_folder()
    try:
        async with open_drivers(settings, folder) as drivers:
            assert drivers.self_check is not None
            await drivers.self_check.ensure()
            assert any("The self-check passed" in line for line in drivers.isolation()["process"])
            again = process_self_check(settings, folder, ArchiveStore.open((folder / "archives").as_uri()))
            assert not again.is_due
    finally:
        shutil.rmtree(folder)
