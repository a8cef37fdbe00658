"""The dashboard's sources: its own tests, the API's types, and the size of what is built."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from codehub.model.conditions import archive_adopted
from codehub.model.images import allows, is_reference
from codehub.model.ttl import next_transition
from codehub.model.workspace import Desired, Phase
from codehub.web.dashboard import built
from tests.api.contract import contract
from tests.model import builders as b
from tests.support import missing
from tools import dashboard

ROOT = Path(__file__).parents[2]
FRONTEND = ROOT / "frontend"
NODE = ROOT / ".venv" / "bin" / "node"
MOST_BYTES = 200_000  # of compressed JavaScript, for the first look


@pytest.fixture(scope="module")
def node() -> str:
    if not NODE.exists() or not (FRONTEND / "node_modules" / ".ready").exists():
        missing("the dashboard's packages", "make dashboard")
    return str(NODE)


def test_its_own_tests_pass(node: str) -> None:
    command = [node, "--test", "tests/*.test.ts"]
    done = subprocess.run(command, check=False, cwd=FRONTEND, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_understands_that_a_newer_archive_was_adopted(node: str) -> None:
    _, told = archive_adopted(b.NOW, b.later(3600), b.later(7200))
    script = """import { adoptionOf } from "./src/lib/because.ts";
                console.log(JSON.stringify(adoptionOf(process.argv[1])))"""
    command = [node, "--input-type=module", "-e", script, told.message]
    done = subprocess.run(command, check=True, cwd=FRONTEND, capture_output=True, text=True, timeout=60)
    said = [f"{at:%Y-%m-%dT%H:%M}:00Z" for at in (b.NOW, b.later(3600))]
    assert json.loads(done.stdout) == dict(zip(("archive", "database"), said, strict=True))


def test_it_reads_the_allow_list_as_the_server_does(node: str) -> None:
    patterns = [
        "*",
        "registry.example/*",
        "registry.example/team/*",
        "codercom/*:latest",
        "a.b/c-*",
        "r.example:5000/x/*",
    ]
    references = [
        "ide",
        "registry.example/ide",
        "registry.example/team/ide:1",
        "registryxexample/team/ide",
        "a.b/c-d/e",
    ]
    references += [
        "codercom/code-server:latest",
        "codercom/x/y:latest",
        "a.b/c-d",
        "axb/c-d",
        "r.example:5000/x/y@sha256:",
    ]
    references += ["registry.example/team/", ""]
    pairs = [(pattern, reference) for pattern in patterns for reference in references]
    script = """import { matches } from "./src/lib/images.ts";
                console.log(JSON.stringify(JSON.parse(process.argv[1]).map(([a, b]) => matches(a, b))))"""
    command = [node, "--input-type=module", "-e", script, json.dumps(pairs)]
    done = subprocess.run(command, check=True, cwd=FRONTEND, capture_output=True, text=True, timeout=60)
    for (pattern, reference), said in zip(pairs, json.loads(done.stdout), strict=True):
        # What is no reference at all is refused by the server alone.
        assert said == allows(pattern, reference) or not is_reference(reference), (pattern, reference)


def test_it_understands_why_a_ttl_acts(node: str) -> None:
    """What model/ttl.py says is taken apart by the page, to be said in other languages."""
    later = b.later(3600)
    said = []
    for seconds in (60, 600, 5400, 90000):
        for phase, wish in (
            (Phase.RUNNING, {"last_access_at": later}),
            (Phase.RUNNING, {"keep_awake_until": later}),
            (Phase.RUNNING, {}),
            (Phase.STANDBY, {}),
        ):
            ttls = {"standby_ttl_seconds": seconds, "archive_ttl_seconds": seconds}
            status = b.status(phase=phase, phase_changed_at=b.NOW)
            coming = next_transition(b.workspace(now=status, desired_state=Desired(phase.value), **ttls, **wish))
            assert coming is not None
            said.append((coming.because, seconds))
    script = """import { becauseOf } from "./src/lib/because.ts";
                console.log(JSON.stringify(JSON.parse(process.argv[1]).map(becauseOf)))"""
    command = [node, "--input-type=module", "-e", script, json.dumps([text for text, _ in said])]
    done = subprocess.run(command, check=True, cwd=FRONTEND, capture_output=True, text=True, timeout=60)
    assert [found and found["seconds"] for found in json.loads(done.stdout)] == [seconds for _, seconds in said], said


def test_its_types_are_the_api_s(node: str, tmp_path: Path) -> None:
    made = tmp_path / "schema.ts"
    tool = "node_modules/openapi-typescript/bin/cli.js"
    subprocess.run([node, tool, "-o", str(made)], cwd=FRONTEND, input=contract(), text=True, check=True, timeout=60)
    assert (FRONTEND / "src" / "api" / "schema.ts").read_text() == made.read_text(), "run `make docs`"


def test_the_first_look_is_small() -> None:
    files = built.read()
    if not files:
        missing("the dashboard", "make dashboard")
    page = files[built.INDEX].plain.decode()
    scripts = set(re.findall(r'"/(assets/[^"]+\.js)"', page))
    assert scripts
    assert sum(len(files[name].gzipped) for name in scripts) <= MOST_BYTES


def test_what_is_built_asks_nobody_else() -> None:
    files = built.read()
    if not files:
        missing("the dashboard", "make dashboard")
    assert not re.search(r'(?:src|href)="(?!/)', files[built.INDEX].plain.decode())
    for name, file in files.items():
        hosts = set(re.findall(r"https?://([a-z0-9.-]+)", file.plain.decode()))
        # Names of XML, links in React's messages; nothing that is fetched.
        assert hosts <= {"www.w3.org", "react.dev"}, name


def test_what_is_committed_is_built_of_these_sources() -> None:
    assert dashboard.is_current(), "run `make dashboard` and commit what it builds"


def test_a_changed_source_is_noticed(tmp_path: Path) -> None:
    for source in dashboard.SOURCES:
        copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / source, tmp_path / source)
    assert not dashboard.is_current(tmp_path), "nothing is built"
    (tmp_path / dashboard.BUILT).mkdir(parents=True)
    dashboard.record(tmp_path)
    assert dashboard.is_current(tmp_path)
    for path in ("frontend/src/app.tsx", "docs/runbook.md", "frontend/src/new.ts"):
        with (tmp_path / path).open("a") as file:
            file.write(" ")
        assert not dashboard.is_current(tmp_path), path
        dashboard.record(tmp_path)


@pytest.mark.exhaustive
def test_a_fresh_build_is_what_is_committed_byte_for_byte(node: str, tmp_path: Path) -> None:
    """Elsewhere, and under a name with spaces: no path of the machine gets into it."""
    root = tmp_path / "another place"
    shutil.copytree(FRONTEND, root / "frontend", ignore=shutil.ignore_patterns("node_modules"))
    (root / "frontend" / "node_modules").symlink_to(FRONTEND / "node_modules")
    (root / "docs").mkdir()
    shutil.copy(ROOT / "docs/runbook.md", root / "docs")
    vite = [node, "node_modules/vite/bin/vite.js", "build", "--logLevel=warn"]
    done = subprocess.run(vite, check=False, cwd=root / "frontend", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    dashboard.record(root)
    assert contents(root / dashboard.BUILT) == contents(ROOT / dashboard.BUILT)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_lock_names_no_host() -> None:
    lock = (FRONTEND / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
