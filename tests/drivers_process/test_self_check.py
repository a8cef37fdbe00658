"""Before anything is announced: that a workspace can live here, by letting one live."""

import asyncio
import inspect
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import obstore
import pytest
import zstandard

import codehub
from codehub.config import Settings
from codehub.dependencies import Dependency
from codehub.drivers import load
from codehub.drivers.archives import ArchiveStore
from codehub.drivers.ide import AllowList
from codehub.drivers.load import open_drivers, process_self_check, warnings_in
from codehub.drivers.process import Options
from codehub.drivers.process.layout import file_lock
from codehub.drivers.process.programs import READY
from codehub.drivers.process.self_check import self_check
from codehub.drivers.process.self_check_record import SelfCheck, digest_of
from codehub.errors import CodeHubError, StartError, Unreachable
from tests.support import background, needs_root, short_folder, until, workspace_users
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
            raise StartError("A home cannot be archived here: no.", "Make room.")

    digests = ["old"]
    record = SelfCheck(check, lambda: digests[-1], tmp_path / "self-check.json")
    await record.ensure()
    fails[0] = True
    digests.append("new")
    await record.ensure()
    told = record.sentence()
    assert told.startswith("WARNING: The self-check has not passed with these versions and settings"), told
    assert told.endswith("): A home cannot be archived here: no. Make room."), "what is wrong, and what to do"
    assert record.is_due


async def test_an_outage_after_an_upgrade_says_that_this_version_is_unproven(tmp_path: Path) -> None:
    is_out = [False]

    async def check() -> None:
        if is_out[0]:
            raise Unreachable("The store does not answer.", "Start it.")

    digests = ["old"]
    record = SelfCheck(check, lambda: digests[-1], tmp_path / "self-check.json")
    await record.ensure()
    assert record.sentence().startswith("The self-check passed")
    is_out[0] = True
    digests.append("new")
    await record.ensure()
    told = record.sentence()
    assert "not passed with these versions and settings" in told
    assert told.endswith("The store does not answer. Start it.")
    assert warnings_in([told]), "/readyz has it"


async def test_it_is_repeated_until_it_has_passed_and_then_no_more(tmp_path: Path) -> None:
    troubles: list[CodeHubError | None] = [
        Unreachable("It is out."),
        Unreachable("It is out."),
        StartError("No."),
        None,
    ]
    made: list[CodeHubError | None] = []

    async def check() -> None:
        made.append(troubles[len(made)])
        if (trouble := made[-1]) is not None:
            raise trouble

    record = SelfCheck(check, lambda: "same", tmp_path / "self-check.json")
    await record.repeat()
    assert made == [], "a start has not come to it yet"
    await record.ensure()
    for told in ("It is out.", "No."):
        assert warnings_in([record.sentence()])
        await record.repeat()
        assert record.sentence().endswith(told)
    for _ in range(2):
        await record.repeat()
        assert record.sentence().startswith("The self-check passed")
    assert len(made) == 4


async def test_one_that_another_process_has_passed_meanwhile_is_not_repeated(tmp_path: Path) -> None:
    async def out() -> None:
        raise Unreachable("It is out.")

    async def passes() -> None:
        pass

    ours, doctors = (SelfCheck(check, lambda: "same", tmp_path / "self-check.json") for check in (out, passes))
    await ours.ensure()
    await doctors.make()
    await ours.repeat()
    assert ours.sentence().startswith("The self-check passed")


async def test_who_waited_for_another_one_s_finds_it_made(tmp_path: Path) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    made = []

    async def check() -> None:
        made.append(1)
        began.set()
        await go_on.wait()

    one, two = (SelfCheck(check, lambda: "same", tmp_path / "self-check.json") for _ in range(2))
    async with background(one.ensure()) as first:
        await began.wait()
        async with background(two.ensure()) as second:
            await until(lambda: _first_await_of(second), "it waits")
            go_on.set()
            await asyncio.wait({first, second}, timeout=20)
    assert made == [1]
    assert two.sentence().startswith("The self-check passed")


def _first_await_of(task: "asyncio.Task[None]") -> bool:
    coroutine = task.get_coro()
    assert isinstance(coroutine, Coroutine)
    return inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED


async def test_who_is_stopped_while_it_waits_leaves_the_lock_alone(tmp_path: Path) -> None:
    async def check() -> None:
        pass

    record = SelfCheck(check, lambda: "same", tmp_path / "self-check.json")
    lock = tmp_path / "self-check.lock"
    with file_lock(lock):
        async with background(record.make()) as waiting:
            await until(lambda: _first_await_of(waiting), "it waits")
            waiting.cancel()
            await asyncio.wait({waiting}, timeout=20)
        assert len(list(_descriptors_of(lock))) == 1, "ours; nobody goes on waiting for it"
    with file_lock(lock, seconds=0):
        pass


def _descriptors_of(path: Path) -> Iterator[Path]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if descriptor.readlink() == path:
                yield descriptor


async def test_a_store_that_comes_back_has_it_made_again_while_codehub_runs(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what repeats the checks of the other backends, too."""
    monkeypatch.setattr(load, "PREPARED_AGAIN_SECONDS", 0.2)
    folder = short_folder()
    try:
        async with open_drivers(settings, folder) as drivers:
            assert drivers.self_check is not None
            (folder / "archives").rename(folder / "away")
            await drivers.self_check.ensure()
            detail = await drivers.checks[Dependency.PROCESS]()
            assert "The self-check has not passed yet: " in str(detail)
            (folder / "away").rename(folder / "archives")
            await until(lambda: "The self-check passed" in drivers.isolation()["process"][-1], "it is made again")
            assert "self-check" not in str(await drivers.checks[Dependency.PROCESS]())
    finally:
        shutil.rmtree(folder)


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
