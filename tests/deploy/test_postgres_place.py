"""A database elsewhere in the volume is never passed over for an empty one: the shell of both manifests, run."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.compose import file
from tests.deploy.manifests import templates, written
from tests.support import eventually

PLACE = "/var/lib/postgresql"
STARTED = "started"


def shell(installed_by: str) -> str:
    """What runs before PostgreSQL does, or instead of it."""
    if installed_by == "compose":
        sh, c, text = file.services()["postgres"]["command"]
        text = text.replace("$$", "$")
    else:
        (spec,) = (spec for name, _, spec in templates(written("trial")) if name == "postgres")
        (place,) = spec["initContainers"]
        sh, c, text = place["command"]
        text += f"echo {STARTED}"  # what comes after init containers
    assert (sh, c) == ("sh", "-c")
    return str(text)


def start(installed_by: str, volume: Path) -> "subprocess.Popen[str]":
    programs = volume.parent / "programs"
    programs.mkdir(exist_ok=True)
    entrypoint = programs / "docker-entrypoint.sh"
    entrypoint.write_text(f"#!/bin/sh\n[ $1 = postgres ] && echo {STARTED}\n")
    entrypoint.chmod(0o755)
    given = {"PATH": f"{programs}:{os.environ['PATH']}", "PGDATA": f"{volume}/codehub"}
    script = shell(installed_by).replace(PLACE, str(volume))
    out = subprocess.PIPE
    return subprocess.Popen(["sh", "-c", script], env=given, stdout=out, stderr=out, text=True, start_new_session=True)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    made = tmp_path / "volume"
    made.mkdir()
    return made


@pytest.mark.parametrize("installed_by", ["compose", "kubernetes"])
@pytest.mark.parametrize("has", [(), ("codehub",), ("codehub", "18/docker")])
def test_it_starts_where_nothing_is_passed_over(installed_by: str, has: tuple[str, ...], volume: Path) -> None:
    for folder in has:
        (volume / folder).mkdir(parents=True)
        (volume / folder / "PG_VERSION").write_text("18")
    with start(installed_by, volume) as process:
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out.strip(), said) == (0, STARTED, "")


@pytest.mark.parametrize("folder", ["18/docker", "17/docker", "data"])
def test_compose_refuses_in_one_line_with_the_command_that_moves_it(folder: str, volume: Path) -> None:
    (volume / folder).mkdir(parents=True)
    (volume / folder / "PG_VERSION").write_text("18")
    with start("compose", volume) as process:
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out, len(said.splitlines())) == (1, "", 1), said
    assert not (volume / "codehub").exists()
    before, _, move = said.partition("docker compose run --rm --no-deps --entrypoint mv postgres ")
    assert before
    subprocess.run(["mv", *move.split()], check=True, timeout=30)
    with start("compose", volume) as process:
        assert process.communicate(timeout=30)[0].strip() == STARTED


@pytest.mark.parametrize("folder", ["18/docker", "data"])
def test_kubernetes_waits_until_it_is_moved_and_says_how(folder: str, volume: Path) -> None:
    (volume / folder).mkdir(parents=True)
    (volume / folder / "PG_VERSION").write_text("18")
    with start("kubernetes", volume) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            before, _, move = said.partition("kubectl -n codehub exec postgres-0 -c place -- mv ")
            assert before
            assert process.poll() is None
            subprocess.run(["mv", *move.split()], check=True, timeout=30)
            eventually(lambda: process.poll() == 0, "it goes on", 60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
