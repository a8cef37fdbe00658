"""Logging in from a machine, users and tokens, against the real application."""

import json
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from codehub.cli import credentials
from codehub.db.pool import connection
from tests.accounts.people import add_person
from tests.cli.site import PASSWORD, Shell, Site, running_site
from tests.support import Databases, free_port


@pytest.fixture(scope="module")
def site(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Site]:
    with databases.one(migrated_template) as database, running_site(database, server_redis) as site:
        yield site


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Not logged in."""
    return Shell(monkeypatch, tmp_path)


@pytest.fixture
def root(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """An administrator's."""
    return Shell(monkeypatch, tmp_path, {"CODEHUB_URL": site.url, "CODEHUB_TOKEN": site.token("root")}, site)


def login(shell: Shell, site: Site, *more: str) -> None:
    shell.ok("login", site.url, "--username", "ada", "--password-stdin", *more, given=f"{PASSWORD}\n")


def stored(shell: Shell) -> Path:
    return shell.home / "codehub" / "credentials.json"


def test_a_login_is_a_token_of_this_machine_for_its_owner_only(shell: Shell, site: Site) -> None:
    login(shell, site)
    assert stat.S_IMODE(stored(shell).stat().st_mode) == 0o600
    assert PASSWORD not in stored(shell).read_text()
    assert "ada (user)" in shell.ok("whoami").out
    assert any("codehub on " in one["name"] for one in json.loads(shell.ok("token", "list", "--json").out))
    token = json.loads(stored(shell).read_text())["servers"][site.url]["token"]
    shell.ok("logout")
    ended = shell("whoami", CODEHUB_URL=site.url, CODEHUB_TOKEN=token)
    assert ended.code == 5, "the token itself has ended"
    assert shell("whoami").line == "You are not logged in. Log in with: codehub login URL"


def test_logging_in_again_ends_the_token_before(shell: Shell, site: Site) -> None:
    login(shell, site)
    before = json.loads(stored(shell).read_text())["servers"][site.url]["token"]
    login(shell, site)
    assert shell("whoami", CODEHUB_URL=site.url, CODEHUB_TOKEN=before).code == 5
    shell.ok("whoami")
    shell.ok("logout")


def test_by_token_and_read_only(shell: Shell, site: Site) -> None:
    shell.ok("login", site.url, "--token", "-", given=f"{site.token('root')}\n")
    assert "root (admin)" in shell.ok("whoami").out
    left = shell.ok("logout")
    assert "was not revoked" in left.err
    login(shell, site, "--read-only")
    assert "read only" in shell.ok("whoami").out
    assert shell("ws", "create", "x").code == 5


def test_what_a_login_can_go_wrong_with(shell: Shell, site: Site) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    for arguments, given, code, words in (
        (["login"], "", 2, "Which server?"),
        (["login", "codehub"], "", 2, "is not a URL"),
        (["login", away, "--username", "ada", "--password-stdin"], "x\n", 7, away),
        (["login", site.url], "", 2, "nobody to ask"),
        (["login", site.url, "--password-stdin"], "x\n", 2, "--username"),
        (["login", site.url, "--username", "ada", "--password-stdin"], "", 2, "no password"),
        (["login", site.url, "--username", "ada", "--password-stdin"], "wrong password\n", 5, "password"),
        (["login", site.url, "--token", "-"], "chp_wrong\n", 5, "token"),
        (["login", site.url, "--token", "-"], "two words\n", 2, "token"),
        (["login", site.url, "--token", site.token()], "", 2, "can be seen by others"),
        (["login", site.url, "--days", "0"], "", 2, "--days"),
        (["logout"], "", 5, "not logged in"),
    ):
        done = shell(*arguments, given=given)
        assert done.code == code, (arguments, done)
        assert words in done.line
    assert not stored(shell).exists()


def test_a_server_that_is_away_and_a_token_that_has_ended(shell: Shell, site: Site) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    done = shell("ws", "list", CODEHUB_URL=away, CODEHUB_TOKEN="x")
    assert (done.code, away in done.line) == (7, True)
    expired = site.token("ada", lifetime=timedelta(seconds=-1))
    done = shell("ws", "list", CODEHUB_URL=site.url, CODEHUB_TOKEN=expired)
    assert (done.code, "token" in done.line) == (5, True)


def test_several_servers_the_last_one_is_current(shell: Shell, site: Site) -> None:
    other = site.url.replace("127.0.0.1", "localhost")
    login(shell, site)
    shell.ok("login", other, "--token", "-", given=f"{site.token('root')}\n")
    assert json.loads(shell.ok("whoami", "--json").out)["url"] == other
    assert "ada" in shell.ok("whoami", CODEHUB_URL=site.url).out, "its own token is used there"
    shell.ok("logout")
    assert json.loads(shell.ok("whoami", "--json").out)["url"] == site.url
    stored(shell).chmod(0o644)
    shell.ok("whoami")
    assert stat.S_IMODE(stored(shell).stat().st_mode) == 0o600


def test_a_token_goes_to_the_server_that_it_is_for_and_to_no_other(shell: Shell, site: Site) -> None:
    token, other = site.token(), site.url.replace("127.0.0.1", "localhost")
    alone = shell("ws", "list", CODEHUB_TOKEN=token)
    assert (alone.code, "Set CODEHUB_URL" in alone.line) == (2, True)
    shell.ok("ws", "list", CODEHUB_TOKEN=token, CODEHUB_URL=f"{site.url}/")
    for environment in ({}, {"CODEHUB_URL": site.url}):
        looked = shell("doctor", "--url", other, "--json", CODEHUB_TOKEN=token, **environment)
        (login,) = [one for one in json.loads(looked.out) if one["check"] == "login"]
        assert "You are not logged in to" in login["detail"], "it was not sent there"


def test_a_token_that_cannot_be_kept_is_revoked(root: Shell, site: Site, tmp_path: Path) -> None:
    def tokens() -> set[str]:
        return {one["id"] for one in json.loads(root.ok("token", "list", "--json").out)}

    before = tokens()
    (tmp_path / "codehub" / "credentials.lock").mkdir(parents=True)  # nobody, not even root, can write it
    done = root("login", site.url, "--username", "root", "--password-stdin", given=f"{PASSWORD}\n")
    assert (done.code, "cannot be written" in done.line) == (1, True)
    assert tokens() == before


def test_logins_at_the_same_time_are_all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    urls = [f"https://{number}.test" for number in range(20)]

    def login_to(url: str) -> None:
        credentials.change(lambda stored: stored.having(url, credentials.Login("chp_x")))

    with ThreadPoolExecutor(len(urls)) as threads:
        list(threads.map(login_to, urls))
    assert sorted(credentials.load().servers) == sorted(urls)


def test_credentials_that_are_damaged(shell: Shell) -> None:
    stored(shell).parent.mkdir()
    stored(shell).write_text("{")
    done = shell("whoami")
    assert (done.code, "is damaged" in done.line) == (2, True)


def test_users_from_first_to_last(root: Shell, shell: Shell, site: Site) -> None:
    root.ok("user", "create", "grace", "--password-stdin", given=f"{PASSWORD}\n{PASSWORD}\n")
    assert "grace" in root.ok("user", "list").out
    root.ok("user", "role", "grace", "user")
    shell.ok("login", site.url, "-u", "grace", "--password-stdin", given=f"{PASSWORD}\n")
    changed = shell.ok("user", "password", "--password-stdin", given=f"{PASSWORD}\nanother good password\n")
    assert changed.err == "grace has a new password.\n"
    assert root("user", "disable", "grace").code == 2, "it asks first"
    root.ok("user", "disable", "grace", "--yes")
    assert shell("whoami").code == 5
    root.ok("user", "enable", "grace")
    found = {one["username"]: one for one in json.loads(root.ok("user", "list", "--json").out)}
    assert found["grace"]["disabled"] is False


def test_who_makes_somebody_able_to_log_in_gives_their_own_password(root: Shell, shell: Shell, site: Site) -> None:
    """A token is what the command line has; it alone is not enough."""
    root.ok("user", "create", "alan", "--no-password")
    root.ok("user", "password", "alan", "--password-stdin", given=f"{PASSWORD}\n{PASSWORD}\n")
    for arguments in (
        ["role", "alan", "admin"],
        ["password", "alan"],
        ["create", "kurt"],
        ["create", "kurt", "--admin"],
    ):
        done = root("user", *arguments)
        assert (done.code, "CODEHUB_PASSWORD" in done.line) == (2, True)
    # Once: a few more would be too many failed logins from this address.
    assert root("user", "role", "alan", "admin", "--password-stdin", given="a wrong password\n").code == 5
    root.ok("user", "role", "alan", "admin", CODEHUB_PASSWORD=PASSWORD)
    root.ok("user", "role", "alan", "user")
    root.ok("user", "role", "alan", "admin", "--password-stdin", given=f"{PASSWORD}\n")
    root.ok("user", "password", "alan", "--password-stdin", given=f"{PASSWORD}\nanother good password\n")
    root.ok(
        "user", "create", "kurt", "--admin", "--password-stdin", given="a third password\n", CODEHUB_PASSWORD=PASSWORD
    )
    shell.ok("login", site.url, "-u", "alan", "--password-stdin", given="another good password\n")
    found = {one["username"]: one["role"] for one in json.loads(shell.ok("user", "list", "--json").out)}
    assert (found["alan"], found["kurt"]) == ("admin", "admin")
    assert site.run(sessions_of(site, "root")) == 0, "each has ended with its command"
    for name in ("alan", "kurt"):
        root.ok("user", "role", name, "user")


async def sessions_of(site: Site, username: str) -> int:
    async with connection(site.pool) as conn:
        row = await (
            await conn.execute("SELECT count(*) FROM sessions WHERE user_id = %s", [site.people[username].id])
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_a_forgotten_password_is_set_where_the_database_is(shell: Shell, site: Site) -> None:
    there = {"DATABASE_URL": site.database}
    site.people["emmy"] = site.run(add_person(site.pool, "emmy"))
    token = site.token("emmy")
    done = shell.ok("user", "reset-password", "emmy", "--password-stdin", given=f"{PASSWORD}\n", **there)
    assert done.err == "emmy has a new password.\n"
    assert shell("whoami", CODEHUB_URL=site.url, CODEHUB_TOKEN=token).code == 5, "what there was has ended"
    shell.ok("login", site.url, "-u", "emmy", "--password-stdin", given=f"{PASSWORD}\n")
    entries = site.run(entries_about(site, "emmy"))
    assert [(kind, action, details["on_the_machine"]) for kind, action, details in entries] == [
        ("system", "user.password", True)
    ]
    for username, password, code, words in (("nobody", PASSWORD, 3, "nobody"), ("emmy", "short", 2, "10 characters")):
        done = shell("user", "reset-password", username, "--password-stdin", given=f"{password}\n", **there)
        assert (done.code, words in done.line) == (code, True), done
    nowhere = {"CODEHUB_DATA_DIR": str(shell.home / "nothing")}
    done = shell("user", "reset-password", "emmy", "--password-stdin", given=f"{PASSWORD}\n", **nowhere)
    assert (done.code, "CODEHUB_DATA_DIR" in done.line) == (1, True)


async def entries_about(site: Site, username: str) -> list[tuple[str, str, dict[str, object]]]:
    async with connection(site.pool) as conn:
        rows = await conn.execute(
            "SELECT actor_kind::text, action, details FROM audit_log WHERE details ->> 'username' = %s", [username]
        )
        return await rows.fetchall()


def test_tokens(root: Shell) -> None:
    made = root.ok("token", "create", "nightly", "--days", "7")
    assert made.out.startswith("chp_")
    assert "not shown again" in made.err
    assert "nightly" in root.ok("token", "list").out
    root.ok("token", "revoke", "nightly")
    assert "nightly" not in root.ok("token", "list").out
    assert json.loads(root.ok("token", "create", "other", "--json").out)["scope"] == "read"


def test_a_collection(root: Shell) -> None:
    assert "would be" not in root.ok("gc").out
    assert "archives in the store" in root.ok("gc", "--dry-run").out
    assert json.loads(root.ok("gc", "--dry-run", "--json").out)["dry_run"] is True
    assert root("gc", "--override").code == 2, "it asks first"


def test_losses_are_accepted_by_administrators_who_were_asked_first(root: Shell) -> None:
    assert root("accept-losses", "docker").code == 2, "it asks first"
    assert "DataLost" in root.ok("accept-losses", "docker", "--yes").out
    assert "ArchiveAccessError" in root.ok("accept-losses", "archives", "--yes").out
    refused = root("accept-losses", "moon", "--yes")
    assert refused.code == 2
    assert "backend" in refused.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["user", "create", "ada", "--no-password"], 4, "ada"),
        (["user", "create", "x y\n", "--no-password"], 2, "username"),
        (["user", "create", "bob"], 2, "--password-stdin"),
        (["user", "disable", "nobody"], 3, "nobody"),
        (["user", "enable", "nobody"], 3, "nobody"),
        (["user", "role", "nobody", "admin"], 3, "nobody"),
        (["user", "role", "ada", "king"], 2, "king"),
        (["user", "password", "nobody", "--password-stdin"], 3, "nobody"),
        (["user", "disable", "root", "--yes"], 4, "administrator"),
        (["token", "create", "x", "--scope", "all"], 2, "all"),
        (["token", "create", "x", "--days", "0"], 2, "--days"),
        (["token", "create", ""], 2, "name"),
        (["token", "revoke", "nothing"], 3, "nothing"),
        (["gc", "--dry-run", "--override"], 2, "override"),
        (["ws", "show", "x"], 2, "CODEHUB_URL"),
    ],
)
def test_wrong_input(root: Shell, arguments: list[str], code: int, words: str) -> None:
    environment = {"CODEHUB_URL": "nowhere"} if words == "CODEHUB_URL" else {}
    done = root(*arguments, **environment)
    assert done.code == code, done
    assert words in done.line
