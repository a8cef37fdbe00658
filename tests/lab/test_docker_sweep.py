"""docker.sh sweep removes images of CodeHub that no run has used lately: shown with a stand-in engine."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import needs_root

SCRIPT = Path(__file__).with_name("docker.sh")
FOLDERS = ("images/codehub", "images/test-workspace", "images/network-guard", "images/storage-job", "images/workspace")
FILES = (
    "src/codehub/storage_job/a",
    *(f"requirements/{name}.txt" for name in ("uv", "image", "dev")),
    "tools/dashboard.py",
    *(f"frontend/{name}" for name in ("package.json", "package-lock.json", "index.html", "tsconfig.json")),
    *("frontend/vite.config.ts", "frontend/src/a", "docs/runbook.md"),
)
ABANDONED = "codehub/codehub:lab-0123456789ab"
# Each image is there, and was made yesterday.
DOCKER = """#!/bin/sh
case "$1 $2" in
  "image ls") cat {told}/images ;;
  "image inspect") date -u -d yesterday +%FT%TZ ;;
  "image rm") echo "$3" >>{told}/removed ;;
esac
"""


@dataclass(frozen=True)
class Lab:
    folder: Path

    def checkout(self, name: str) -> Path:
        tree = self.folder / name
        for path in (*FILES, *(f"{folder}/Dockerfile" for folder in FOLDERS)):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(f"{name}'s")
        (tree / "tests/lab").mkdir(parents=True)
        shutil.copy(SCRIPT, tree / "tests/lab")
        return tree

    def run(self, tree: Path, verb: str) -> dict[str, str]:
        """What it prints."""
        given = {"PATH": f"{self.folder}:{os.environ['PATH']}", "CODEHUB_LAB_DIR": str(self.folder / "lab")}
        done = subprocess.run(
            [str(tree / "tests/lab/docker.sh"), verb], check=True, capture_output=True, text=True, timeout=60, env=given
        )
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    def removed(self) -> list[str]:
        told = self.folder / "removed"
        return told.read_text().splitlines() if told.exists() else []


@pytest.fixture
def stand_in(tmp_path: Path) -> Lab:
    needs_root("for whom docker.sh is")
    (tmp_path / "docker").write_text(DOCKER.format(told=tmp_path))
    (tmp_path / "docker").chmod(0o755)
    return Lab(tmp_path)


@pytest.mark.parametrize("verb", ["image", "env"])
def test_an_old_image_that_another_run_uses_stays(stand_in: Lab, verb: str) -> None:
    mine, theirs = stand_in.checkout("mine"), stand_in.checkout("theirs")
    names = [stand_in.run(tree, verb)["CODEHUB_TEST_IMAGE"] for tree in (mine, theirs)]
    assert len(set(names)) == 2
    (stand_in.folder / "images").write_text("\n".join([*names, ABANDONED, ""]))
    stand_in.run(mine, "sweep")
    assert stand_in.removed() == [ABANDONED]


def test_one_that_was_used_yesterday_goes(stand_in: Lab) -> None:
    mine, theirs = stand_in.checkout("mine"), stand_in.checkout("theirs")
    name = stand_in.run(theirs, "image")["CODEHUB_TEST_IMAGE"]
    (stand_in.folder / "images").write_text(f"{name}\n")
    for mark in (stand_in.folder / "lab/used").iterdir():
        os.utime(mark, (0, 0))
    stand_in.run(mine, "sweep")
    assert stand_in.removed() == [name]
    assert not list((stand_in.folder / "lab/used").iterdir())
