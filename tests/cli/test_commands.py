"""The commands that end by themselves."""

import json
import subprocess
import sys

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

from codehub import __version__
from codehub.cli.platforms import require_linux
from codehub.commit import commit
from codehub.db.migrate import newest_version
from codehub.errors import StartError
from tests.cli.codehub import environment
from tests.support import Databases


def output_of(*arguments: str, **settings: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "codehub", *arguments],
        env=environment(**settings),
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def test_version() -> None:
    found = commit()
    assert output_of("--version") == f"codehub {__version__}" + (f" ({found})\n" if found else "\n")


def test_commands_for_a_server_elsewhere_need_nothing_that_only_linux_has() -> None:
    program = """import sys
for name in ("fcntl", "grp", "pwd", "resource", "termios", "uvloop"):
    sys.modules[name] = None
import codehub.cli.exits
sys.platform = "win32"
import codehub.cli.credentials  # chooses by platform
sys.platform = "linux"
from codehub.cli.main import main
main()
"""
    for words in (("ws", "--help"), ("login", "--help"), ("user", "--help"), ("--version",)):
        command = [sys.executable, "-c", program, *words]
        done = subprocess.run(command, env=environment(), check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_servers_say_where_they_run(platform: str) -> None:
    with pytest.raises(StartError, match=r"`codehub up` runs on Linux only\. Here the commands"):
        require_linux("up", platform)
    require_linux("up", "linux")


def test_settings_are_shown_with_their_values_but_no_secret() -> None:
    shown = output_of("settings", CODEHUB_PORT="9001", DATABASE_URL="postgresql://u:hunter2@h/d")
    assert "CODEHUB_PORT" in shown
    assert "9001" in shown
    assert "hunter2" not in shown


def test_settings_and_ides_as_json() -> None:
    shown = json.loads(output_of("settings", "--json", CODEHUB_PORT="9001", DATABASE_URL="postgresql://u:hunter2@h/d"))
    assert (shown["CODEHUB_PORT"], shown["DATABASE_URL"]) == ("9001", "(set)")
    assert "jupyterlab" in [one["name"] for one in json.loads(output_of("ide", "list", "--json"))]


def test_migrate_brings_a_database_up_to_date_and_can_be_repeated(empty_database: str) -> None:
    for _ in range(2):
        said = output_of("migrate", DATABASE_URL=empty_database)
        assert said == f"The database is at schema version {newest_version()}.\n"
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("SELECT count(*) FROM workspaces").fetchone() == (0,)


def test_migrate_makes_the_logins_that_it_is_given(databases: Databases, empty_database: str) -> None:
    names = {part: f"{databases.prefix}_{part}" for part in ("api", "proxy")}
    urls = {part: make_conninfo(empty_database, user=name, password=name) for part, name in names.items()}
    try:
        for _ in range(2):
            output_of(
                "migrate",
                DATABASE_URL=empty_database,
                API_DATABASE_URL=urls["api"],
                PROXY_DATABASE_URL=urls["proxy"],
            )
        for part, url in urls.items():
            with psycopg.connect(url, autocommit=True) as conn:
                conn.execute(f"SET ROLE codehub_{part}".encode())
        with psycopg.connect(empty_database) as conn:
            assert conn.execute(
                "SELECT has_database_privilege('public', current_database(), 'CONNECT')"
            ).fetchone() == (False,), "it is a grant to the logins that lets them in"
    finally:
        with psycopg.connect(empty_database, autocommit=True) as conn:
            for name in names.values():
                conn.execute(SQL("DROP OWNED BY {}").format(Identifier(name)))
                conn.execute(SQL("DROP ROLE {}").format(Identifier(name)))
