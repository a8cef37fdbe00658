import os
from collections.abc import Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from codehub.embedded import DataDir, EmbeddedServers
from codehub.embedded.accounts import server_account
from codehub.errors import StartError
from tests.embedded.support import needs_root, server_pids
from tests.support import first_of


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def refusal(data_dir: Path, postgres: bool = True) -> StartError:
    with DataDir.open(data_dir) as data:
        with pytest.raises(StartError) as caught:
            async with EmbeddedServers(data, durable=False, postgres=postgres).running():
                pass
        assert not server_pids(data_dir)
    assert "\n" not in str(caught.value)
    return caught.value


def no_control(cluster: Path) -> None:
    (cluster / "global" / "pg_control").unlink()


def garbage_control(cluster: Path) -> None:
    (cluster / "global" / "pg_control").write_bytes(os.urandom(8192))


def short_control(cluster: Path) -> None:
    os.truncate(cluster / "global" / "pg_control", 100)


def empty_version(cluster: Path) -> None:
    (cluster / "PG_VERSION").write_text("")


def garbage_version(cluster: Path) -> None:
    (cluster / "PG_VERSION").write_bytes(b"\xff\xfe\x00garbage")


def no_wal(cluster: Path) -> None:
    for path in (cluster / "pg_wal").glob("0*"):
        path.unlink()


def garbage_configuration(cluster: Path) -> None:
    (cluster / "postgresql.conf").write_text("nonsense = = 1\n")


@pytest.mark.parametrize(
    "damage",
    first_of(
        [garbage_control, no_control, short_control, empty_version, garbage_version, no_wal, garbage_configuration]
    ),
)
async def test_a_damaged_cluster_is_reported_and_left_alone(used: Path, damage: Callable[[Path], None]) -> None:
    damage(used / "postgres")
    before = snapshot(used / "postgres")
    error = await refusal(used)
    assert error.message.startswith(f"PostgreSQL cannot start on {used / 'postgres'}: ")
    assert "backup" in error.hint
    after = snapshot(used / "postgres")
    assert before.keys() <= after.keys()
    assert {name for name in before if before[name] != after[name]} <= {"postmaster.opts"}


async def test_what_postgres_said_is_passed_on(used: Path) -> None:
    garbage_control(used / "postgres")
    error = await refusal(used)
    assert "incompatible with server" in error.message
    assert f"(log: {used / 'logs' / 'postgres.log'})" in error.message


async def test_another_major_version(used: Path) -> None:
    (used / "postgres" / "PG_VERSION").write_text("17\n")
    error = await refusal(used)
    assert "is PostgreSQL 17's, but the installed programs are PostgreSQL 18" in error.message
    assert "dump" in error.hint


async def test_a_lost_password(used: Path) -> None:
    (used / "secrets" / "postgres-password").write_text("another\n")
    error = await refusal(used)
    assert "password authentication failed" in error.message
    assert "secrets/postgres-password" in error.hint


def set_aside(data: Path) -> list[Path]:
    return list(data.glob("valkey-damaged-*"))


async def test_a_damaged_valkey_log(used: Path) -> None:
    log = next((used / "valkey").glob("appendonlydir/*.incr.aof"))
    log.write_bytes(b"garbage that is no command\r\n" * 10)
    before, warnings = snapshot(used / "valkey"), list[str]()
    with DataDir.open(used) as data, capture_logs() as logged:
        async with EmbeddedServers(data, durable=False, postgres=False, warn=warnings.append).running() as servers:
            assert servers.redis_url is not None
            async with Redis.from_url(servers.redis_url) as redis:
                assert await redis.dbsize() == 0
    (aside,) = set_aside(used)
    assert snapshot(aside) == before
    assert str(aside) in "".join(warnings)
    (line,) = [one for one in logged if "set aside" in one["event"]]
    assert line["folder"] == str(aside)
    assert "Bad file format" in line["cause"]
    with DataDir.open(used) as data:
        async with EmbeddedServers(data, durable=False, postgres=False, warn=warnings.append).running():
            assert len(warnings) == 1, "it has data of its own again"


async def test_a_valkey_that_does_not_start_without_data_either(used: Path) -> None:
    """Then the data was not at fault, and stays where it was."""
    (used / "run" / "valkey.sock").mkdir(parents=True)
    before = snapshot(used / "valkey")
    error = await refusal(used, postgres=False)
    assert error.message.startswith(f"Valkey cannot start on {used / 'valkey'}: ")
    assert not set_aside(used)
    assert snapshot(used / "valkey") == before


async def test_a_valkey_log_cut_short_by_a_crash_is_no_damage(used: Path) -> None:
    log = next((used / "valkey").glob("appendonlydir/*.incr.aof"))
    log.write_bytes(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nhal")
    with DataDir.open(used) as data:
        async with EmbeddedServers(data, durable=False, postgres=False).running():
            pass


@needs_root
async def test_data_of_another_account(used: Path) -> None:
    os.chown(used / "postgres", 1, 1)
    error = await refusal(used)
    ours = server_account(None).name
    assert error.message == f"{used / 'postgres'} belongs to the user daemon, but the servers run as {ours}."
    assert f"chown -R {ours}" in error.hint
