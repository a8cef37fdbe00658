"""What stops a start is told in one line with the next step, and nothing is damaged."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.cli.codehub import environment, failing, running
from tests.cli.test_ide import mounted
from tests.embedded.support import copy_of, processes_at
from tests.support import missing


@pytest.fixture
def data(place: Path, used_data: Path) -> Path:
    return copy_of(used_data, place / "d")


def refused(*arguments: str, code: int = 1, **settings: str) -> str:
    """The one line."""
    exit_code, said = failing(*arguments, **settings)
    lines = [line for line in said if not line.startswith("{")]  # without its log
    assert len(lines) == 1, said
    assert exit_code == code
    assert lines[0].startswith("codehub: ")
    return lines[0]


def test_a_port_in_use(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        line = refused("up", CODEHUB_DATA_DIR=str(data), CODEHUB_PORT=port)
    assert f"Port {port} on 127.0.0.1 is already in use." in line
    assert "CODEHUB_PORT" in line


def test_an_address_that_is_not_this_machine_s(data: Path) -> None:
    assert "CODEHUB_HOST" in refused("up", CODEHUB_DATA_DIR=str(data), CODEHUB_HOST="no-such-host.invalid")


def test_a_host_name_that_cannot_be_one(data: Path) -> None:
    assert "CODEHUB_HOST" in refused("up", CODEHUB_DATA_DIR=str(data), CODEHUB_HOST="x" * 70)


def test_a_home_of_nobody() -> None:
    assert "does not exist" in refused("up", CODEHUB_DATA_DIR="~no-such-user/x", CODEHUB_PORT="0")


def test_a_second_start_on_the_same_data(data: Path, place: Path) -> None:
    with running(data, place / "out") as codehub:
        assert codehub.is_ready()
        for port in ("0", str(urlsplit(codehub.url).port)):
            line = refused("up", CODEHUB_DATA_DIR=str(data), CODEHUB_PORT=port)
            assert f"pid {codehub.process.pid}" in line
            assert codehub.url in line
        assert codehub.is_ready(), "the first one is not disturbed"


def test_a_data_directory_that_is_a_file(place: Path) -> None:
    (place / "file").write_text("mine")
    line = refused("up", CODEHUB_DATA_DIR=str(place / "file"), CODEHUB_PORT="0")
    assert str(place / "file") in line
    assert (place / "file").read_text() == "mine"


def test_a_corrupt_data_directory(data: Path) -> None:
    control = data / "postgres" / "global" / "pg_control"
    control.write_bytes(b"garbage")
    line = refused("up", CODEHUB_DATA_DIR=str(data), CODEHUB_PORT="0")
    assert str(data / "postgres") in line
    assert control.read_bytes() == b"garbage", "nothing was touched"
    assert processes_at(data) == []


def test_a_database_of_a_newer_version(data: Path, place: Path, empty_database: str) -> None:
    with psycopg.connect(empty_database) as conn:
        conn.execute("CREATE TABLE alembic_version (version_num text)")
        conn.execute("INSERT INTO alembic_version VALUES ('9999')")
    for command in ("up", "migrate"):
        line = refused(command, CODEHUB_DATA_DIR=str(place / "x"), CODEHUB_PORT="0", DATABASE_URL=empty_database)
        assert "schema version 9999, newer than this CodeHub" in line
    with psycopg.connect(empty_database) as conn:
        tables = conn.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        assert tables == (1,), "nothing was touched"


def test_a_database_that_is_away_without_its_password(place: Path) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/db"
    line = refused("migrate", DATABASE_URL=url)
    assert "cannot be reached" in line
    assert "hunter2" not in line


def test_wrong_settings_one_line_each(place: Path) -> None:
    code, lines = failing("up", CODEHUB_DATA_DIR=str(place / "d"), CODEHUB_PORT="x", TTL_STANDBY_SECONDS="3")
    assert code == 2
    assert [line.split("=")[0] for line in lines] == ["codehub: CODEHUB_PORT", "codehub: TTL_STANDBY_SECONDS"]
    assert not (place / "d").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("ARCHIVE_URL", "ftp://x"), ("CODEHUB_IMAGES", "emacs"), ("DOCKER_HOST", "ssh://me@there")],
)
def test_a_setting_that_only_a_driver_can_judge(data: Path, name: str, value: str) -> None:
    settings = {"CODEHUB_BACKENDS": "docker", "CODEHUB_DATA_DIR": str(data), "CODEHUB_PORT": "0", name: value}
    assert refused("up", code=2, **settings).startswith(f"codehub: {name}={value}: ")


def test_homes_whose_disk_is_not_mounted(data: Path) -> None:
    (data / "workspaces").rename(data / "away")
    line = refused("up", CODEHUB_DATA_DIR=str(data), CODEHUB_PORT="0")
    assert str(data / "workspaces") in line
    assert "Is its disk mounted?" in line
    assert not (data / "workspaces").exists()


def test_migrate_without_a_database() -> None:
    assert "DATABASE_URL is not set" in refused("migrate")


def test_an_unknown_command_or_option() -> None:
    for arguments in (["upp"], ["up", "--fast"]):
        code, lines = failing(*arguments)
        assert code == 2
        assert not any("Traceback" in line for line in lines)


def test_a_proxy_without_an_api() -> None:
    servers = {"DATABASE_URL": "postgresql://localhost/x", "REDIS_URL": "redis://localhost"}
    assert "CODEHUB_API_URL is not set" in refused("proxy", code=1, **servers)
    assert "CODEHUB_API_URL" in refused("proxy", code=2, **{**servers, "CODEHUB_API_URL": "ftp://x"})


def test_a_workspaces_host_without_a_way_back() -> None:
    assert "CODEHUB_PUBLIC_URL" in refused("settings", code=2, CODEHUB_WORKSPACE_HOST="ws.example.com")


def started_by_a_shell(before: str, data: Path, part: str = "up", **settings: str) -> tuple[int, list[str]]:
    """`codehub up`, or another part, after these commands of a shell."""
    done = subprocess.run(
        ["bash", "-c", f'{before} && exec "$0" -m codehub "$1"', sys.executable, part],
        env=environment(CODEHUB_DATA_DIR=str(data), CODEHUB_PORT="0", CODEHUB_IMAGES="test", **settings),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr.splitlines()


def test_too_few_open_files(place: Path) -> None:
    code, (line,) = started_by_a_shell("ulimit -n 256", place / "d")
    assert code == 1
    assert "Only 256 files may be open at once" in line
    assert "ulimit -n" in line
    assert not (place / "d").exists()


@pytest.mark.parametrize("part", ["api", "coordinator", "proxy"])
def test_too_few_open_files_for_one_part(place: Path, part: str, database: str, server_redis: str) -> None:
    settings = {"DATABASE_URL": database, "REDIS_URL": server_redis, "CODEHUB_API_URL": "http://127.0.0.1:1"}
    code, (line,) = started_by_a_shell("ulimit -n 256", place / "d", part, **settings)
    assert code == 1
    assert "Only 256 files may be open at once" in line


@pytest.fixture
def disk(place: Path) -> Iterator[Path]:
    """A small one."""
    folder = place / "disk"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "codehub-test", folder], check=False
        ).returncode
    ):
        missing("a disk of one's own", "run the tests as root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk(disk: Path) -> None:
    line = refused("up", CODEHUB_DATA_DIR=str(disk), CODEHUB_PORT="0")
    assert "MB are free on the disk of" in line
    assert "Make room" in line


def test_a_disk_without_a_byte_left(disk: Path) -> None:
    fill(disk)
    line = refused("up", CODEHUB_DATA_DIR=str(disk), CODEHUB_PORT="0")
    assert str(disk) in line


def test_a_disk_that_fills_up_to_the_last_byte_loses_nothing(place: Path) -> None:
    """Full while CodeHub runs, it is stopped all the same; it does not start, and starts once there is room."""
    disk = place / "disk"
    with mounted(disk, "400m"):
        with running(disk / "d", place / "out") as codehub:
            assert codehub.is_ready()
            fill(disk)
            codehub.get("/readyz")  # whatever it says: what it has made room for before goes on
            assert codehub.stop() == 0
            assert "Traceback" not in codehub.printed
        assert "MB are free on the disk of" in refused("up", CODEHUB_DATA_DIR=str(disk / "d"), CODEHUB_PORT="0")
        (disk / ".filler").unlink()
        with running(disk / "d", place / "again") as codehub:
            assert codehub.is_ready()
            assert "Username   admin" not in codehub.printed, "the database is whole"


def fill(disk: Path) -> None:
    with (disk / ".filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass


def test_a_data_directory_that_cannot_be_written(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    line = refused("up", CODEHUB_DATA_DIR=str(disk), CODEHUB_PORT="0")
    assert f"The data directory {disk} cannot be used: read-only file system. Choose a folder" in line
