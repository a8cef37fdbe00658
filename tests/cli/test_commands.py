"""The commands that end by themselves."""

import json
import subprocess
import sys

import psycopg

from codehub import __version__
from codehub.db.migrate import newest_version
from tests.cli.codehub import environment


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
    assert output_of("--version") == f"codehub {__version__}\n"


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
