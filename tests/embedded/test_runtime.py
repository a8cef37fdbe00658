import json
import os
from pathlib import Path

import pytest

from codehub.embedded.runtime import Package, install, postgres_package, prune, remove_drafts, valkey_package
from codehub.errors import StartError


@pytest.fixture
def package(tmp_path: Path) -> Package:
    (tmp_path / "wheel").mkdir(mode=0o700)
    program, text = tmp_path / "wheel" / "program", tmp_path / "wheel" / "text"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    text.write_text("text")
    text.chmod(0o600)
    return Package("tool", "2.0", {"bin/program": program, "share/text": text})


@pytest.fixture
def runtime(tmp_path: Path) -> Path:
    (tmp_path / "runtime").mkdir()
    return tmp_path / "runtime"


def test_the_copy_is_readable_by_the_servers_account(package: Package, runtime: Path) -> None:
    target = install(package, runtime)
    assert target == runtime / "tool-2.0"
    assert (target / "bin" / "program").stat().st_mode & 0o777 == 0o755
    assert (target / "share" / "text").stat().st_mode & 0o777 == 0o644
    assert (target / "bin").stat().st_mode & 0o777 == 0o755


def test_a_whole_copy_is_kept(package: Package, runtime: Path) -> None:
    before = (install(package, runtime) / "bin").stat().st_ino
    assert (install(package, runtime) / "bin").stat().st_ino == before


@pytest.mark.parametrize("damage", ["truncated", "missing", "no manifest"])
def test_a_damaged_copy_is_made_anew(package: Package, runtime: Path, damage: str) -> None:
    target = install(package, runtime)
    if damage == "truncated":
        os.truncate(target / "share" / "text", 0)
    elif damage == "missing":
        (target / "bin" / "program").unlink()
    else:
        (target / "manifest.json").unlink()
    install(package, runtime)
    assert (target / "share" / "text").read_text() == "text"
    assert (target / "bin" / "program").exists()
    remove_drafts(runtime)
    assert [path.name for path in runtime.iterdir()] == ["tool-2.0"]


def test_a_failed_copy_leaves_nothing_that_looks_whole(package: Package, runtime: Path) -> None:
    package.files["share/text"].unlink()
    with pytest.raises(StartError, match="cannot be copied"):
        install(package, runtime)
    assert list(runtime.iterdir()) == []


def test_pruning_spares_other_packages(package: Package, runtime: Path) -> None:
    install(package, runtime)
    for name in ("tool-1.0", "other-1.0"):
        (runtime / name).mkdir()
    prune(package, runtime)
    assert sorted(path.name for path in runtime.iterdir()) == ["other-1.0", "tool-2.0"]


def test_only_what_is_needed_is_copied() -> None:
    files = postgres_package().files
    names = {Path(name).name for name in files}
    assert {"postgres", "initdb", "psql", "pg_dump", "pg_restore", "postgres.bki", "plpgsql.so"} <= names
    assert not [name for name in files if name.endswith((".a", ".h")) or "/include/" in name]
    assert sum(path.stat().st_size for path in files.values()) < 35_000_000
    assert json.dumps(sorted(valkey_package().files)) == '["bin/valkey-server"]'
