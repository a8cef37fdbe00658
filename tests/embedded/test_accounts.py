import os
import pwd
import shutil
from pathlib import Path

import psycopg
import pytest

from codehub.embedded import DataDir, EmbeddedServers
from codehub.embedded.accounts import server_account
from codehub.errors import StartError
from tests.embedded.support import holding, needs_root, owners_of, server_pids
from tests.lab.skips import reason
from tests.support import AS_USER


@needs_root
class TestAsRoot:
    def test_an_unprivileged_user_is_found(self) -> None:
        account = server_account(None)
        assert account.name in ("codehub", "nobody")
        assert account.uid != 0
        assert server_account("daemon").uid == pwd.getpwnam("daemon").pw_uid

    def test_an_unknown_user(self) -> None:
        with pytest.raises(StartError, match="There is no user no-such-user"):
            server_account("no-such-user")

    def test_root_itself(self) -> None:
        with pytest.raises(StartError, match="refuses to run as root"):
            server_account("root")

    async def test_the_servers_run_as_the_user_named(self, place: Path) -> None:
        with DataDir.open(place / "d") as data:
            async with EmbeddedServers(data, server_user="daemon", durable=False).running():
                assert owners_of(server_pids(data.path)) == {pwd.getpwnam("daemon").pw_uid}
            assert (data.path / "secrets").stat().st_uid == 0

    async def test_a_closed_parent_is_named_and_stays_closed(self, place: Path) -> None:
        (place / "home").mkdir(mode=0o700)
        with DataDir.open(place / "home" / "d") as data, pytest.raises(StartError) as caught:
            async with EmbeddedServers(data).running():
                pass
        assert caught.value.message.endswith(f"who may not enter {place / 'home'}.")
        assert "/var/lib/codehub" in caught.value.hint
        assert (place / "home").stat().st_mode & 0o777 == 0o700


@needs_root
class TestAsAnOrdinaryUser:
    """The same in a process that has no privileges, started from this one that has them."""

    @pytest.fixture
    def home(self, place: Path) -> Path:
        folder = place / "home"
        folder.mkdir(mode=0o700)
        shutil.chown(folder, "daemon", "daemon")
        return folder

    def test_everything_belongs_to_the_user(self, home: Path) -> None:
        with holding(home / ".codehub", user="daemon", home=home) as other:
            report = other.report()
            with psycopg.connect(report["database_url"]) as connection:
                assert connection.execute("SELECT 1").fetchone() == (1,)
            assert owners_of(server_pids(home / ".codehub")) == {pwd.getpwnam("daemon").pw_uid}
            assert (home / ".codehub").stat().st_mode & 0o777 == 0o700
            other.finish()
            assert other.process.returncode == 0
        assert not server_pids(home / ".codehub")
        owners = {path.lstat().st_uid for path in (home / ".codehub").rglob("*")}
        assert owners == {pwd.getpwnam("daemon").pw_uid}

    def test_killed_outright_the_servers_go_too(self, home: Path) -> None:
        with holding(home / ".codehub", user="daemon", home=home) as other:
            other.report()
            other.kill()
        with holding(home / ".codehub", user="daemon", home=home) as again:
            assert "database_url" in again.report()


@pytest.mark.skipif(os.geteuid() == 0, reason=reason("an ordinary user", AS_USER))
def test_only_root_may_choose_the_user() -> None:
    with pytest.raises(StartError, match="only root can"):
        server_account("daemon" if pwd.getpwuid(os.geteuid()).pw_name != "daemon" else "nobody")
