"""Installers run programs of others: they are told nothing of CodeHub, and as root they are not root."""

import os
import pwd
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codehub.drivers.process import identity
from codehub.drivers.process import install_code_server as building
from codehub.drivers.process.installer_environment import fetching_environment, npm_settings, uv_files
from codehub.drivers.process.layout import remove_tree
from codehub.drivers.process.running import Installer
from codehub.errors import StartError
from tests.drivers_process.test_keyrings import SECRET, TRY, key
from tests.support import needs_root, short_folder

__all__ = ["key"]

SECRETS = {
    "DATABASE_URL": "postgresql://owner:secret@host/db",
    "S3_SECRET_ACCESS_KEY": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "CODEHUB_ADMIN_PASSWORD": "secret",
    "UV_PUBLISH_TOKEN": "secret",
    "npm_config_script_shell": "/tmp/secret",
    "NODE_OPTIONS": "--require=/tmp/secret",
    "LD_PRELOAD": "/tmp/secret.so",
}
FETCHING = {
    "HTTPS_PROXY": "http://proxy:3128",
    "no_proxy": "localhost",
    "npm_config_registry": "https://npm.example/",
    "NPM_CONFIG_CAFILE": "/etc/ca.pem",
    "PIP_INDEX_URL": "https://pip.example/simple",
    "UV_DEFAULT_INDEX": "https://pip.example/simple",
    "UV_INDEX_OURS_PASSWORD": "of the index",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
}


@pytest.fixture
def place() -> Iterator[Path]:
    folder = short_folder()
    yield folder
    remove_tree(folder)


def said_by(command: list[str], *, fetches: bool = False, user: int | None = None) -> list[str]:
    given = {**os.environ, **SECRETS, **FETCHING}
    said: list[str] = []
    installer = Installer(said.append, threading.Event(), 0, home=Path("/nonexistent/own"), given=given, user=user)
    installer.run(command, lambda line: line, {}, fetches=fetches)
    return said


@pytest.mark.parametrize("fetches", [False, True])
def test_an_installer_is_told_how_packages_are_reached_and_nothing_else(fetches: bool) -> None:
    told = dict(line.split("=", 1) for line in said_by(["env"], fetches=fetches))
    assert told.keys() & SECRETS.keys() == set()
    assert {name: told.get(name) for name in FETCHING} == (FETCHING if fetches else dict.fromkeys(FETCHING))
    assert told["HOME"] == "/nonexistent/own"
    assert told["PATH"] == os.environ["PATH"]


def test_nothing_unknown_is_told() -> None:
    assert fetching_environment({"ANYTHING": "x", **SECRETS}, Path("/own")).keys() == {"PATH", "HOME", "LANG"}


def test_settings_of_uv_and_npm_are_found_where_its_person_has_them(place: Path) -> None:
    given = {"HOME": str(place), "XDG_CACHE_HOME": str(place / "cache")}
    assert uv_files(given) == {"UV_CACHE_DIR": str(place / "cache/uv")}
    (place / ".config/uv").mkdir(parents=True)
    (place / ".config/uv/uv.toml").touch()
    assert uv_files(given)["UV_CONFIG_FILE"] == str(place / ".config/uv/uv.toml")
    assert uv_files({**given, "UV_NO_CONFIG": "1", "UV_CACHE_DIR": "/other"}) == {}
    assert npm_settings(given) == place / ".npmrc"
    assert npm_settings({**given, "NPM_CONFIG_USERCONFIG": "/x"}) == Path("/x")


def test_whoever_is_started_without_a_home_has_the_one_that_the_machine_knows(place: Path) -> None:
    assert npm_settings({}) == Path(pwd.getpwuid(os.geteuid()).pw_dir) / ".npmrc"
    (place / "no folder").touch()
    assert uv_files({"HOME": str(place / "no folder")}) == {}, "no cache where none can be made"


def test_an_installer_has_not_our_keys(key: int) -> None:
    (line,) = said_by(["python3", "-c", TRY % key])
    assert line.startswith("no key ")
    assert SECRET.decode() not in line


def test_as_root_it_is_a_user_of_its_own_without_a_network() -> None:
    needs_root("who may become another user")
    user = building._USERS[7]
    assert said_by(["sh", "-c", "id -u; id -G; grep NoNewPrivs /proc/self/status"], user=user) == [
        str(user), str(user), "NoNewPrivs:\t1",
    ]  # fmt: skip
    links = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | grep -cv '^lo$'"
    assert said_by(["sh", "-c", f"{links}; true"], user=user) == ["0"]
    assert said_by(["sh", "-c", f"{links}; true"], user=user, fetches=True) != ["0"]


def test_what_has_left_its_session_ends_with_it() -> None:
    needs_root("who may become another user")
    user = building._USERS[8]
    said_by(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 & sleep 0.2"], user=user)
    assert [found for found in identity.everything() if user in identity.users_of(found.pid)] == []


def test_what_was_built_is_taken_over_without_what_acts_in_its_owners_name(place: Path) -> None:
    needs_root("who may give files away")
    user = building._USERS[9]
    (place / "deep").mkdir()
    program, link = place / "deep/program", place / "link"
    program.touch()
    link.symlink_to("/etc/passwd")
    for path in (place, place / "deep", program, link):
        os.chown(path, user, user, follow_symlinks=False)
    program.chmod(0o6775)
    building._own(place, user)
    assert {path.lstat().st_uid for path in (place / "deep", program, link)} == {0}
    assert program.stat().st_mode & 0o7777 == 0o755
    assert Path("/etc/passwd").stat().st_mode & 0o777 == 0o644
    os.chown(program, user + 1, -1)
    with pytest.raises(StartError, match="somebody else"):
        building._own(place, user)


def test_a_login_is_lent_to_what_fetches_alone(place: Path) -> None:
    settings, own = place / "settings", place / ".npmrc"
    settings.write_text("//npm.example/:_authToken=secret\n")
    with building._lent(settings, own, None):
        assert own.read_text() == settings.read_text()
        assert own.stat().st_mode & 0o777 == 0o600
    assert not own.exists()
    with building._lent(place / "absent", own, None):
        assert not own.exists()


def test_what_a_killed_installation_left_is_removed_and_nothing_of_others(place: Path) -> None:
    prefix = ".codehub-x-"
    ours, others = place / f"{prefix}1", place / ".codehub-y-1"
    ours.mkdir()
    others.mkdir()
    (place / f"{prefix}2").symlink_to(others)
    assert building._left_over(place, prefix) == [ours]
