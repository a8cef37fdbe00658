"""As root the embedded servers have an account of their own, made by the first start, which takes over `nobody`'s data.

The machine's own accounts stay as they are: /etc is a copy, in a mount namespace.
"""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest

from codehub.embedded.accounts import NOT_OWN
from tests.cli.codehub import running, running_from_nothing
from tests.embedded.support import needs_root, owners_of, server_pids
from tests.support import skip

pytestmark = needs_root
NOBODY = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else -1
BY_DEFAULT = {"CODEHUB_EMBEDDED_USER": ""}


@pytest.fixture
def elsewhere(place: Path) -> list[str]:
    """Goes before a command: accounts that it makes are in a copy of /etc, which begins without one for CodeHub."""
    etc = place / "etc"
    shutil.copytree("/etc", etc, symlinks=True, ignore_dangling_symlinks=True)
    for name in ("passwd", "group", "shadow", "gshadow"):
        if (etc / name).exists():
            lines = (etc / name).read_text().splitlines(keepends=True)
            (etc / name).write_text("".join(line for line in lines if not line.startswith("codehub:")))
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    script = f'mount --bind "{etc}" /etc && exec "$@"'
    if subprocess.run([*command, 'mount --bind "$0" /etc', str(etc)], capture_output=True, check=False).returncode:
        skip("mount namespaces", "a machine whose root may make them")
    return [*command, script, "sh"]


def account_in(etc: Path) -> int | None:
    lines = [line.split(":") for line in (etc / "passwd").read_text().splitlines()]
    return next((int(line[2]) for line in lines if line[0] == "codehub"), None)


def owners_in(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def may_read(uid: int, path: Path) -> bool:
    done = subprocess.run(["cat", str(path)], user=uid, group=uid, extra_groups=[], capture_output=True, check=False)
    return done.returncode == 0


def test_the_first_start_makes_it(place: Path, elsewhere: list[str]) -> None:
    data = place / "d"
    with running_from_nothing(data, place / "out", before=elsewhere, **BY_DEFAULT) as codehub:
        assert codehub.is_ready()
        account = account_in(place / "etc")
        assert account not in (None, 0, NOBODY)
        assert owners_of(server_pids(data)) == {account}
    assert owners_in(data / "postgres") == owners_in(data / "valkey") == {account}
    assert not may_read(NOBODY, data / "postgres" / "PG_VERSION")
    assert "Making the system account codehub" in codehub.printed


def test_what_a_version_without_it_has_left_is_taken_over(place: Path, elsewhere: list[str]) -> None:
    data = place / "d"
    with running_from_nothing(data, place / "out", CODEHUB_EMBEDDED_USER="nobody") as codehub:
        assert codehub.is_ready()
    assert owners_in(data / "postgres") == owners_in(data / "valkey") == {NOBODY}
    # By nobody, who could: it is root's, and stays root's.
    secret = place / "secret"
    secret.touch(0o600)
    (data / "postgres" / "link").symlink_to(secret)
    (data / "postgres" / "hard").hardlink_to(secret)
    wal = place / "wal"
    (data / "postgres" / "pg_wal").rename(wal)
    (data / "postgres" / "pg_wal").symlink_to(wal)
    with running(data, place / "again", before=elsewhere, **BY_DEFAULT) as codehub:
        assert codehub.is_ready()
        account = account_in(place / "etc")
        assert owners_of(server_pids(data)) == {account}
    assert owners_in(data / "postgres") == {account, 0}
    assert owners_in(wal) == owners_in(data / "valkey") == {account}
    assert secret.stat().st_uid == 0
    assert "Username   admin" not in codehub.printed, "it is the same database"


def test_where_it_cannot_be_made_a_line_says_what_that_means(place: Path, elsewhere: list[str]) -> None:
    read_only = [*elsewhere[:-2], elsewhere[-2].replace("&&", "&& mount -o remount,bind,ro /etc &&", 1), elsewhere[-1]]
    with running_from_nothing(place / "d", place / "out", before=read_only, **BY_DEFAULT) as codehub:
        assert codehub.is_ready()
        assert owners_of(server_pids(place / "d")) == {NOBODY}
    assert NOT_OWN in codehub.printed
