"""What is released: its name, its commit, its content, its licences, and the same bytes each time."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from codehub import __version__
from codehub.commit import commit
from tests.release.test_locks import locked
from tools import dist as releasing
from tools import parts

ROOT = Path(__file__).parents[2]
WHEEL, SDIST = f"codehub_server-{__version__}-py3-none-any.whl", f"codehub_server-{__version__}.tar.gz"


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return subprocess.run(
        ["git", "-C", str(folder), *author, *words], env=env, check=True, capture_output=True, text=True, timeout=30
    ).stdout.strip()


def test_the_name_on_the_index_is_ours() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == "codehub-server"
    assert project["scripts"] == {"codehub": "codehub.cli.main:main"}


def test_the_commit_is_git_s_in_a_checkout_and_the_build_s_elsewhere(tmp_path: Path) -> None:
    package = tmp_path / "src/codehub"
    package.mkdir(parents=True)
    assert commit(package) is None
    (package / "a").write_text("1")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "a"], ["tag", "v1"]):
        git(tmp_path, *words)
    head = git(tmp_path, "rev-parse", "--short=7", "HEAD")
    assert commit(package) == head
    (package / "a").write_text("2")
    assert commit(package) == f"{head}-dirty"
    (package / "commit.txt").write_text("abc1234\n")
    assert commit(package) == "abc1234"


def test_every_part_has_a_licence() -> None:
    found = parts.all_parts(ROOT)
    assert {part.name: part.version for part in found if part.kind == "pypi"} == locked("run")
    assert {part.name for part in found if part.kind == "npm"} == {"react", "react-dom", "scheduler"}
    assert {part.name for part in found if part.kind == "generic"} == {"PostgreSQL", "Valkey"}
    for part in found:
        assert re.fullmatch(r"[A-Z][\w.-]+( (AND|OR) [A-Z][\w.-]+)*", part.licence), part
        assert part.hashes or part.kind == "generic", part
        assert not re.search(r"\b(AGPL|GPL-|SSPL|BUSL)", part.licence.replace("LGPL-", "")), part


def test_the_bill_of_materials_names_every_part_once() -> None:
    found = parts.all_parts(ROOT)
    bom = parts.sbom("1.2.3", found, 0)
    assert (bom["bomFormat"], bom["specVersion"], bom["metadata"]["component"]["version"]) == (
        "CycloneDX",
        "1.6",
        "1.2.3",
    )
    references = [component["bom-ref"] for component in bom["components"]]
    assert len(set(references)) == len(references) == len(found)
    assert bom["dependencies"][0]["dependsOn"] == references
    assert bom == parts.sbom("1.2.3", found, 0)
    assert bom["serialNumber"] != parts.sbom("1.2.4", found, 0)["serialNumber"]


@pytest.mark.parametrize("sums", [None, "", f"{'0' * 64}  debian.iso\n", f"{'0' * 64}  ../codehub_server-1.whl\n"])
def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path, sums: str | None) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/text").write_text("years of work")
    if sums is not None:
        (tmp_path / "SHA256SUMS").write_text(sums)
    command = [sys.executable, str(ROOT / "tools/dist.py"), str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert (done.returncode, (tmp_path / "thesis/text").read_text()) == (1, "years of work")
    assert done.stderr.startswith(f"{tmp_path} has files that are no release of CodeHub.")


def test_only_the_files_of_an_earlier_release_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "deep/dist"
    for version in ("1.0", "1.1"):
        made = tmp_path / version
        made.mkdir()
        names = (f"codehub_server-{version}.tar.gz", "licences.txt")
        for name in names:
            (made / name).write_text(version)
        (made / "SHA256SUMS").write_text("".join(f"{'a' * 64}  {name}\n" for name in names))
        releasing.replace(folder, made)
        (folder / "mine.txt").write_text("mine")
    expected = {"codehub_server-1.1.tar.gz", "licences.txt", "SHA256SUMS", "mine.txt"}
    assert {path.name for path in folder.iterdir()} == expected
    assert (folder / "licences.txt").read_text() == "1.1"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return released(tmp_path_factory.mktemp("one"))


def released(folder: Path) -> Path:
    command = [sys.executable, str(ROOT / "tools/dist.py"), str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.exhaustive
def test_a_wheel_has_what_running_needs_and_no_tests(dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        names = wheel.namelist()
        assert wheel.read("codehub/commit.txt").decode().strip() == commit()
    for needed in (
        "codehub/web/dashboard/built/index.html",
        "codehub/web/visit/assets/visit.css",
        "codehub/drivers/process/ide-jupyterlab.txt",
        "codehub/drivers/process/code_server/vscode/package-lock.json",
        "codehub/drivers/process/code_server/build.sh",
        "codehub/db/migrations/__init__.py",
        "codehub/py.typed",
    ):
        assert needed in names, needed
    tree = [*(ROOT / "src/codehub/db/migrations/versions").glob("*.py")]
    tree += [path for path in (ROOT / "src/codehub/web/dashboard/built").rglob("*") if path.is_file()]
    assert len(tree) > 20
    assert {str(path.relative_to(ROOT / "src")) for path in tree} <= set(names)
    folders = {name.partition("/")[0] for name in names}
    assert folders == {"codehub", f"codehub_server-{__version__}.dist-info"}


@pytest.mark.exhaustive
def test_a_wheel_of_this_folder_is_that_of_the_sdist(dist: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    assert contents(tmp_path / WHEEL) == contents(dist / WHEEL)


def contents(wheel: Path) -> dict[str, bytes]:
    """But the order of the record is that of the files, which differs."""
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    return {name: b"".join(sorted(each.splitlines())) if "RECORD" in name else each for name, each in found.items()}


@pytest.mark.exhaustive
def test_an_sdist_can_be_started_from_and_built_from(dist: Path) -> None:
    with tarfile.open(dist / SDIST) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "tools/setup.py", "requirements/run.txt", "frontend/package-lock.json", "LICENSE"} <= names
    assert not {name for name in names if name.startswith(("tests", "frontend/node_modules", ".venv"))}


@pytest.mark.exhaustive
def test_the_same_commit_makes_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    again = released(tmp_path)
    assert (again / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()
    sums = {line[66:]: line[:64] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert (
        set(sums)
        == {WHEEL, SDIST, "sbom.cdx.json", "licences.txt"}
        == {p.name for p in dist.iterdir()} - {"SHA256SUMS"}
    )
    for name, digest in sums.items():
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    assert json.loads((dist / "sbom.cdx.json").read_text())["metadata"]["component"]["version"] == __version__
