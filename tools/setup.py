"""Sets up .venv with one group of locked packages and CodeHub itself: python3 tools/setup.py run|build|dev

`make` calls it before everything else. It uses the standard library alone, so that a bare python3 can run it.

- A group is what requirements/GROUP.txt locks by hash. `dev` includes the others, and installing `run` removes nothing,
  so that `make up` and `make test` can follow each other.
- One at a time: whoever comes second waits, and finds the work done. An installer that outlives us keeps the lock.
- .venv carries a record of what is in it. The record is taken away during a change: where a change was interrupted
  there is none, and .venv is made anew. So it is when this Python is not the one that .venv was made for.
- The installer's output is shown only when it fails.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
RECORD = VENV / "codehub-setup.json"
LOCK = ROOT / ".tools" / "setup.lock"
REQUIREMENTS = ROOT / "requirements"
OLDEST = (3, 11)
# Groups whose packages include those of the group.
INCLUDED_IN = {"run": ("run", "dev"), "build": ("build", "dev"), "dev": ("dev",)}
PURPOSE = {"run": "what CodeHub runs on", "build": "what builds CodeHub", "dev": "what tests and checks need"}
_NO_NETWORK = re.compile(
    r"name resolution|Name or service not known|dns error|failed to lookup|Connection refused|Network is unreachable"
    r"|No route to host|timed out|NewConnectionError|ProxyError|tunnel error|error sending request"
)
# Of uv, and of pip, which says no more of an index than that it has nothing.
_REFUSAL = re.compile(
    r"HTTP status \w+ error \((\d{3} [^)]+)\)|\b(40[13] (?:Unauthorized|Forbidden))\b|HTTP error (\d{3})"
)
_ABSENCE = re.compile(r"was not found in the package registry|No matching distribution found")


class Failed(Exception):
    """Setup cannot go on; the message is for people."""


class NotDownloaded(Failed):
    """And so nothing changed."""


def main(group: str) -> int:
    """Exit code: 0 when .venv has the group, else a sentence on standard error and 1."""
    if sys.version_info < OLDEST:
        found = ".".join(map(str, sys.version_info[:3]))
        return _fail(f"CodeHub needs Python 3.11 or newer; {sys.executable} is {found}. Try: make PYTHON=python3.12 …")
    os.umask(0o022)  # storage jobs read these packages under user ids of their own
    try:
        if not is_ready(group):
            with locked() as lock:
                if not is_ready(group):
                    install(group, lock)
    except Failed as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"Setup failed: {error.filename or ROOT}: {error.strerror or error}.")
    except KeyboardInterrupt:
        sys.stderr.write("\nSetup was interrupted. Run make again to finish it.\n")
        return 130
    return 0


def is_ready(group: str) -> bool:
    """Whether .venv has the group as it is locked now, and this CodeHub."""
    record = read_record()
    return record.get("codehub") == _codehub_digest() and any(
        record.get(one) == _digest(REQUIREMENTS / f"{one}.txt") for one in INCLUDED_IN[group]
    )


def read_record() -> dict[str, str]:
    """What is in .venv; nothing where it was not finished, was made elsewhere, or its Python is gone or another."""
    try:
        record: dict[str, str] = json.loads(RECORD.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    # Scripts name their Python by its whole path, and packages are in a folder that is named after its version.
    fits = record.get("root") == str(ROOT) and record.get("python") == python_of_venv() and _python().exists()
    return record if fits else {}


def python_of_venv() -> str:
    """Where .venv's Python is, and the version of the one that makes it: /usr/bin/python3 may become another one."""
    return f"{os.path.realpath(_python())} {sys.implementation.cache_tag}{sys.abiflags}"


@contextlib.contextmanager
def locked() -> Iterator[int]:
    """One setup of this folder at a time. The kernel frees the lock when nobody who has it is alive."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Waiting for another make that is setting up this folder …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def install(group: str, lock: int) -> None:
    """Bring .venv to the group. A failed download leaves it as it was."""
    _say(f"Installing {PURPOSE[group]} into .venv …")
    if is_in_use():
        _say("CodeHub runs from this folder: start it again afterwards.")
    began = time.monotonic()
    before = read_record()
    RECORD.unlink(missing_ok=True)
    if not before:
        _make_venv(lock)
    locks = str(REQUIREMENTS / f"{group}.txt")
    try:
        if group == "dev":  # includes all the others, so that what is not in it is left over
            _uv(lock, "pip", "sync", "--compile-bytecode", "--require-hashes", locks)
        else:
            _uv(lock, "pip", "install", "--require-hashes", "--no-deps", "-r", locks)
    except NotDownloaded:
        if before:
            # uv downloads everything before it changes anything.
            _write_record(before)
        raise
    _install_codehub(lock)
    _write_record(
        {
            **still_there(before),
            "root": str(ROOT),
            "python": python_of_venv(),
            group: _digest(Path(locks)),
            "codehub": _codehub_digest(),
        }
    )
    _say(f"Installed in {time.monotonic() - began:.0f} s.")


def still_there(before: dict[str, str]) -> dict[str, str]:
    """Groups that another one left as they were: those locked now as they were then, because locks of one commit agree.

    Of a group that was locked otherwise, versions may have been replaced.
    """
    return {one: was for one, was in before.items() if one in PURPOSE and was == _digest(REQUIREMENTS / f"{one}.txt")}


def is_in_use() -> bool:
    """Whether a `codehub` of .venv runs; it may miss a module that it has not yet imported."""
    program = os.fsencode(VENV / "bin" / "codehub")
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if program in path.read_bytes().split(b"\0")[:2]:
                return True
    return False


def _make_venv(lock: int) -> None:
    """An empty .venv with uv in it. pip brings uv, whichever pip there is; uv brings the rest."""
    pip = _pip_folder()
    if pip is None and importlib.util.find_spec("ensurepip") is None:
        raise Failed(
            f"{sys.executable} has no pip, and no ensurepip to get one. Install it (on Debian and Ubuntu:"
            " apt install python3-pip), then run make again."
        )
    alone = [] if pip is None else ["--without-pip"]
    _run(lock, [sys.executable, "-m", "venv", "--clear", *alone, str(VENV)])
    # pip runs as .venv's Python does: older ones have no option to install for another.
    program = ["-m", "pip"] if pip is None else [pip]
    options = ["--quiet", "--retries=2", "--disable-pip-version-check", "--root-user-action=ignore", "--no-compile"]
    options += ["--ignore-installed", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    _run(lock, [str(_python()), *program, "install", *options, "-r", str(REQUIREMENTS / "uv.txt")])


def _pip_folder() -> str | None:
    """Where the package pip is: this Python's, or, when this is a virtual environment without it, its base's."""
    found = importlib.util.find_spec("pip")
    if found is not None and found.origin is not None and VENV not in Path(found.origin).parents:
        return str(Path(found.origin).parent)
    base = getattr(sys, "_base_executable", sys.executable)
    if base == sys.executable:
        return None
    asked = subprocess.run(
        [base, "-c", "import pip; print(pip.__path__[0])"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def _install_codehub(lock: int) -> None:
    """CodeHub from this folder, as an editable install: a wheel of a path and a command. No build backend is needed."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = editable_wheel(Path(folder))
        _uv(lock, "pip", "install", "--no-deps", "--no-index", "--no-cache", "--reinstall", str(wheel))


def editable_wheel(folder: Path) -> Path:
    """Writes it into the folder."""
    import tomllib  # noqa: PLC0415 - an older Python must get as far as the sentence about its age

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"].replace("-", "_"), _version()
    info = f"{name}-{version}.dist-info"
    metadata = [f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {version}"]
    metadata += [f"Requires-Python: {project['requires-python']}"]
    metadata += [f"Requires-Dist: {one}" for one in project["dependencies"]]
    files = {
        # Relative to site-packages, so that no letter of this folder's name has to be encoded.
        "_codehub.pth": "../../../../src\n",
        f"{info}/METADATA": "\n".join(metadata) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: codehub\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\n"
        + "".join(f"{command} = {target}\n" for command, target in project["scripts"].items()),
    }
    record = "".join(f"{path},{_record_hash(text)},{len(text.encode())}\n" for path, text in files.items())
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return wheel


def _record_hash(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={digest.decode().rstrip('=')}"


def _version() -> str:
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/codehub/__init__.py").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def _uv(lock: int, *arguments: str) -> None:
    _run(lock, [str(VENV / "bin" / "uv"), *arguments])


def _run(lock: int, command: list[str]) -> None:
    """The command keeps the lock: when we alone are ended, it still changes .venv."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        pass_fds=[lock],
    )
    if done.returncode == 0:
        return
    if done.returncode < 0:  # uv heard Ctrl-C before we did
        raise KeyboardInterrupt
    if why := why_not_downloaded(done.stdout):
        raise NotDownloaded(f"Packages cannot be downloaded: {why}, then run make again.")
    raise Failed(f"{done.stdout.rstrip()}\nSetup failed: {' '.join(map(str, command[:4]))} … said the above.")


def why_not_downloaded(said: str) -> str | None:
    """By an installer that failed: two clauses, what is wrong and what to check; None where it is something else."""
    if _NO_NETWORK.search(said):
        return "the package index does not answer. Check the network (or HTTPS_PROXY and PIP_INDEX_URL)"
    if refusal := _REFUSAL.search(said):
        told = f"refuses them ({next(filter(None, refusal.groups()))})"
    elif _ABSENCE.search(said):
        told = "does not have them"
    else:
        return None
    return f"the package index answers, but {told}. Check PIP_INDEX_URL and its password"


def _environment() -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    env["VIRTUAL_ENV"] = str(VENV)
    env["UV_PYTHON_DOWNLOADS"] = "never"  # nothing is downloaded but locked packages
    env["UV_SYSTEM_CERTS"] = "true"  # trust what the machine trusts, such as a company's certificate authority
    if "PIP_INDEX_URL" in env and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL"} & env.keys():
        env["UV_DEFAULT_INDEX"] = env["PIP_INDEX_URL"]
    return env


def _python() -> Path:
    return VENV / "bin" / "python"


def _codehub_digest() -> str:
    return _digest(ROOT / "pyproject.toml", ROOT / "src/codehub/__init__.py", Path(__file__))


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _write_record(record: dict[str, str]) -> None:
    draft = RECORD.with_suffix(".new")
    draft.write_text(json.dumps(record, indent=1), encoding="utf-8")
    draft.replace(RECORD)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _fail(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return 1


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in INCLUDED_IN:
        sys.exit("usage: python3 tools/setup.py run|build|dev")
    sys.exit(main(sys.argv[1]))
