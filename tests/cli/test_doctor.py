"""`codehub doctor`: everything well is said so, and each broken thing is found, with what to do."""

import asyncio
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from codehub.cli.checks import machine, standing
from codehub.db.adoption import AdoptionDue
from codehub.db.diagnosis import Diagnosis
from codehub.db.leading import open_seat
from codehub.embedded.postgres import url_at
from codehub.model.workspace import WorkspaceId
from codehub.services.doctor import codes, public, websockets
from codehub.services.doctor import standing as doctor_standing
from codehub.services.doctor.finding import Finding, State
from tests.cli.codehub import environment, running
from tests.cli.site import Done, Shell
from tests.conftest import ServerUrls
from tests.db.support import add_workspace
from tests.embedded.support import copy_of
from tests.lab.saying import babbling, saying
from tests.lab.wire import wire_to_database
from tests.support import free_port, short_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place for a data directory, which is not there yet."""
    place = short_folder()
    yield place / "d"
    shutil.rmtree(place)


@pytest.fixture
def shell(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """As `codehub up` would be started with a folder of its own."""
    given = {"CODEHUB_DATA_DIR": str(folder), "CODEHUB_PORT": "0", "CODEHUB_IMAGES": "test", "PROCESS_SANDBOX": "off"}
    return Shell(monkeypatch, tmp_path, given)


def found(done: Done, check: str) -> list[dict[str, str]]:
    everything: list[dict[str, str]] = json.loads(done.out)
    return [one for one in everything if one["check"] == check]


def broken(shell: Shell, check: str, **settings: str) -> dict[str, str]:
    """What it says about the one thing that is broken."""
    done = shell("doctor", "--json", **settings)
    assert done.code == 1, done
    (one,) = [one for one in found(done, check) if one["state"] == "failed"]
    assert one["advice"], "it says what to do"
    return one


def test_a_machine_on_which_all_is_well(shell: Shell, folder: Path) -> None:
    done = shell.ok("doctor")
    assert "FAILED" not in done.out
    assert "Python 3." in done.out
    assert "will be made by the first start" in done.out
    assert not folder.exists(), "it changes nothing"


def test_a_python_that_is_too_old() -> None:
    one = machine.python((3, 10, 4))
    assert (one.state, one.detail) == (State.FAILED, "Python 3.10.4 is too old.")


def test_wrong_settings(shell: Shell) -> None:
    assert "CODEHUB_PORT=x" in broken(shell, "settings", CODEHUB_PORT="x")["detail"]


def test_a_data_directory_that_is_a_file(shell: Shell, folder: Path) -> None:
    folder.write_text("mine")
    assert str(folder) in broken(shell, "data directory")["detail"]
    assert folder.read_text() == "mine"


def test_a_data_directory_with_somebody_else_s_files(shell: Shell, folder: Path) -> None:
    folder.mkdir()
    (folder / "thesis.tex").touch()
    assert "holds other files" in broken(shell, "data directory")["detail"]
    assert [entry.name for entry in folder.iterdir()] == ["thesis.tex"]


def test_a_data_directory_of_nobody(shell: Shell) -> None:
    assert "does not exist" in broken(shell, "data directory", CODEHUB_DATA_DIR="~no-such-user/x")["detail"]


def test_a_disk_that_is_full(folder: Path) -> None:
    room = machine.data_directory(folder, in_use=False, least=1 << 60)[-1]
    assert (room.check, room.state) == ("disk", State.WARNING)


def test_secrets_that_others_can_see(shell: Shell, folder: Path) -> None:
    (folder / "secrets").mkdir(parents=True)
    (folder / "secrets").chmod(0o755)
    warned = machine.data_directory(folder, in_use=True)
    assert any("Others can look into" in one.detail for one in warned)


async def _late(seconds: float, **settings: str) -> Done:
    """In a process of its own, which is to end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "codehub", "doctor", "--json", "--timeout", f"{seconds:g}"),
        env=environment(CODEHUB_PORT="0", CODEHUB_IMAGES="test", **settings),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(seconds + 20):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), err.decode())


@pytest.mark.exhaustive
async def test_it_stops_looking_after_some_time_and_tells_what_it_has_found(folder: Path) -> None:
    """Each look has a limit of its own; one after the other they could take minutes."""
    over = threading.Event()
    with saying(b"ok\n", until=over) as url:
        try:
            began = time.monotonic()
            done = await _late(8, CODEHUB_DATA_DIR=str(folder), PROCESS_SANDBOX="off", CODEHUB_PUBLIC_URL=url)
            took = time.monotonic() - began
        finally:
            over.set()
    assert done.code == 1
    assert took < 15, "what it waits for would have taken longer"
    assert found(done, "port")
    (late,) = found(done, "doctor")
    assert (late["state"], late["code"]) == ("failed", "CH-TIME-1")
    assert "after 8 s" in late["detail"]


async def test_it_ends_though_a_database_lets_it_in_and_then_says_nothing(folder: Path, database: str) -> None:
    async with wire_to_database(database) as (wire, url):
        is_silent = asyncio.Event()

        async def hear(data: bytes) -> None:
            if b"SET timezone" in data:
                wire.silence()
                is_silent.set()

        wire.hear = hear
        done = await _late(8, CODEHUB_DATA_DIR=str(folder), DATABASE_URL=url)
    assert is_silent.is_set(), "it was let in"
    assert done.code == 1
    assert found(done, "doctor")[0]["code"] == "CH-TIME-1"


def test_a_database_that_is_away_not_migrated_or_too_new(shell: Shell, empty_database: str, database: str) -> None:
    away = f"postgresql://me:hunter2@127.0.0.1:{free_port()}/db"
    assert "cannot be reached" in broken(shell, "postgresql", DATABASE_URL=away)["detail"]
    done = shell.ok("doctor", "--json", DATABASE_URL=empty_database)
    (one,) = found(done, "postgresql")
    assert (one["state"], "codehub migrate" in one["advice"]) == ("warning", True)
    with psycopg.connect(empty_database) as conn:
        conn.execute("CREATE TABLE alembic_version (version_num text)")
        conn.execute("INSERT INTO alembic_version VALUES ('9999')")
    assert "newer than this CodeHub" in broken(shell, "postgresql", DATABASE_URL=empty_database)["detail"]
    done = shell.ok("doctor", "--json", DATABASE_URL=database)
    assert [one["state"] for one in found(done, "postgresql") + found(done, "clock")] == ["ok", "ok"]


@pytest.mark.exhaustive
def test_an_embedded_database_that_an_older_codehub_runs_on(shell: Shell, place: Path, used_data: Path) -> None:
    """Somebody has upgraded the program, and not started it anew yet."""
    data = copy_of(used_data, place / "d")
    with running(data, place / "out") as codehub:
        assert codehub.url
        with psycopg.connect(url_at(data)) as conn:
            conn.execute("UPDATE alembic_version SET version_num = '0017'")
            conn.execute("ALTER TABLE leadership DROP COLUMN unknown_resources, DROP COLUMN unknown_epoch")
        done = shell("doctor", "--json", CODEHUB_DATA_DIR=str(data))
    (one,) = [one for one in found(done, "postgresql") if one.get("code") == "CH-DB-2"]  # it answers, too
    assert one["state"] == "warning"
    assert "schema version 0017" in one["detail"]
    assert "codehub up" in one["advice"], "`codehub migrate` would not do it"


def test_redis_that_is_away_or_answers(shell: Shell, server_urls: ServerUrls) -> None:
    assert "Redis" in broken(shell, "redis", REDIS_URL=f"redis://127.0.0.1:{free_port()}/0")["detail"]
    assert found(shell.ok("doctor", "--json", REDIS_URL=server_urls.redis), "redis")[0]["state"] == "ok"


def test_an_archive_store_that_is_away(shell: Shell) -> None:
    away = {
        "ARCHIVE_URL": "s3://bucket/x",
        "S3_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "S3_ACCESS_KEY_ID": "k",
        "S3_SECRET_ACCESS_KEY": "hunter2",
        "ARCHIVE_REQUEST_TIMEOUT": "1",
    }
    one = broken(shell, "archive store", **away)
    assert "hunter2" not in str(one)


def test_an_engine_that_is_away(shell: Shell, folder: Path) -> None:
    settings = {"CODEHUB_BACKENDS": "docker", "DOCKER_HOST": f"unix://{folder}/no.sock"}
    assert "DOCKER_HOST" in broken(shell, "docker", **settings)["advice"]


def test_a_sandbox_that_is_off_or_required_and_missing(shell: Shell) -> None:
    done = shell.ok("doctor", "--json")
    assert any(one["state"] == "warning" and "PROCESS_SANDBOX" in one["advice"] for one in found(done, "sandbox"))
    no_bwrap = {"PROCESS_SANDBOX": "required", "PROCESS_BWRAP": "/nonexistent/bwrap"}
    assert "cannot be sandboxed" in broken(shell, "sandbox", **no_bwrap)["detail"]


def test_an_ide_that_is_not_installed(shell: Shell) -> None:
    done = shell.ok("doctor", "--json", CODEHUB_IMAGES="code-server,jupyterlab", PATH=os.defpath)
    told = {one["state"]: one for one in found(done, "ide")}
    assert told["warning"]["advice"] == "codehub ide install code-server"
    assert "first start" in told["ok"]["detail"]


def test_clocks_that_disagree() -> None:
    now = datetime.now(UTC)
    assert doctor_standing.skew(now, now + timedelta(seconds=2), "x").state is State.OK
    ahead = doctor_standing.skew(now, now + timedelta(seconds=90), "the database")
    assert (ahead.state, ahead.detail) == (
        State.WARNING,
        "This machine's clock is 90 s ahead of that of the database.",
    )


def test_a_server_elsewhere(shell: Shell) -> None:
    assert shell("doctor", "--remote").code == 5
    assert shell("doctor", "--url", "nonsense").code == 2
    done = shell("doctor", "--url", f"http://127.0.0.1:{free_port()}", "--json")
    assert done.code == 1
    (one,) = found(done, "server")
    assert "cannot be reached" in one["detail"]


def _looked(**changes: object) -> list[Finding]:
    given = {
        "now": datetime.now(UTC),
        "is_led": True,
        "holder": "here:1",
        "unknown": 0,
        "lost_commits": None,
        "lost_commits_at": None,
        "store_trouble": None,
        "adoption": None,
        "stuck": 0,
        "oldest": None,
        "errors": 0,
        "store_waits": 0,
        "store_outage": None,
        "gc": {},
    }
    return doctor_standing.findings(Diagnosis(**{**given, **changes}), is_running=True)  # type: ignore[arg-type]  # what each test changes


def test_how_things_stand() -> None:
    assert {one.state for one in _looked()} == {State.OK}
    report = {"stopped": "implausible", "missing_count": 4, "unremembered_count": 5}
    bad = _looked(is_led=False, stuck=2, oldest="x (ARCHIVING)", errors=3, gc=report)
    assert {one.code.id: one.state for one in bad if one.code} == {
        "CH-LEAD-1": State.FAILED,
        "CH-OP-1": State.WARNING,
        "CH-OP-2": State.WARNING,
        "CH-GC-1": State.WARNING,
        "CH-GC-2": State.WARNING,
        "CH-GC-3": State.WARNING,
    }


def test_lost_commits_are_told_with_the_commands_that_settle_them() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    (one,) = [found for found in _looked(lost_commits=7, lost_commits_at=at) if found.code]
    assert one.code is not None
    assert (one.code.id, one.state) == ("CH-DB-4", State.FAILED)
    assert one.detail == "The database lost 7 commits or more; found at 2026-01-02 03:04:05 UTC."
    assert one.advice == "Stop every CodeHub, then: codehub backup FILE && codehub restore FILE --force"


def test_a_restore_that_has_not_ended_is_told_with_the_command_that_ends_it() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for only, whose in ((None, "of workspaces"), (frozenset({WorkspaceId(uuid4())}), "of 1 workspaces")):
        (one,) = [found for found in _looked(adoption=AdoptionDue(at, only)) if found.code]
        assert one.code is not None
        assert (one.code.id, one.state) == ("CH-DB-5", State.FAILED)
        assert f"restored to 2026-01-02 03:04:05 UTC, and newer archives {whose} are not adopted" in one.detail
        assert "codehub restore --adopt-newer" in one.advice


def test_a_store_that_takes_nothing_is_one_finding_however_many_wait() -> None:
    (one,) = [found for found in _looked(store_waits=12, store_outage="the archive store is full (507)") if found.code]
    assert one.code is not None
    assert (one.code.id, one.state) == ("CH-STO-2", State.FAILED)
    assert one.detail == "12 workspaces wait to be archived or restored: the archive store is full (507)"


async def test_what_the_database_says_about_it(database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as owner:
        long_ago = datetime.now(UTC) - timedelta(hours=2)
        await add_workspace(owner, phase="STANDBY", operation="ARCHIVING", op_started_at=long_ago)
        await add_workspace(owner, phase="ERROR", error_reason="Timeout")
        await add_workspace(owner, phase="STANDBY", operation="STARTING", op_started_at=datetime.now(UTC))
        told = {one.code.id: one for one in await standing.of_database(database, is_running=False) if one.code}
        assert set(told) == {"CH-LEAD-1", "CH-OP-1", "CH-OP-2"}
        assert told["CH-LEAD-1"].state is State.WARNING, "nobody said that one should run"
        assert told["CH-OP-1"].detail.startswith("1 operation began more than 30 minutes ago; the oldest: ")
        async with open_seat(database) as seat:
            assert await seat.try_to_take()
            found = await standing.of_database(database, is_running=True)
            assert found[0].state is State.OK


def test_a_public_address_that_leads_nowhere_or_elsewhere(shell: Shell) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    (one,) = found(shell.ok("doctor", "--json", CODEHUB_PUBLIC_URL=nowhere), "public address")
    assert (one["state"], one["code"], one["link"]) == ("warning", "CH-URL-1", "docs/runbook.md#ch-url-1")
    with saying(b"hello") as url:
        assert "something else than CodeHub" in public.public_address(url).detail
    with saying(b"ok\n") as url:
        assert public.public_address(url).state is State.OK


def test_an_address_at_which_no_http_is_spoken() -> None:
    """A setting that leads to the port of ssh, or without TLS to one that has it."""
    with babbling(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        for one, code in ((public.public_address(url), codes.PUBLIC), (public.wildcard_name(url), codes.WILDCARD)):
            assert one.code == code
            assert "what answers there speaks no HTTP" in one.detail
        assert websockets.tried([url.rstrip("/")]).code == codes.WEBSOCKET


def test_orphans_are_told() -> None:
    def told(**changes: object) -> list[tuple[State, str]]:
        return [(one.state, one.detail) for one in _looked(**changes) if one.check == codes.ORPHANS.check]

    assert told(unknown=3) == [(State.WARNING, "3 containers or volumes belong to no workspace.")]
    (advice,) = [one.advice for one in _looked(unknown=3) if one.check == codes.ORPHANS.check]
    assert "codehub gc --orphans --dry-run" in advice
    assert [state for state, _ in told(unknown=0)] == [State.OK]
    assert told(unknown=None) == [], "the leader has not looked yet, or is of a version that does not say"
    assert told(unknown=3, is_led=False) == [], "of long ago, perhaps"


def test_every_code_is_one_and_everything_broken_has_one(shell: Shell) -> None:
    assert len({code.id for code in codes.ALL}) == len(codes.ALL)
    done = shell("doctor", "--json", CODEHUB_PORT="x")
    assert all("code" in one for one in json.loads(done.out) if one["state"] != "ok")
    assert "CH-SET-1: docs/runbook.md#ch-set-1" in shell("doctor", CODEHUB_PORT="x").out


def test_names_of_workspaces_that_lead_nowhere() -> None:
    assert public.any_workspace(None, None) is public.any_workspace("none", None) is None
    origin = public.any_workspace("ws.codehub.invalid:81", "https://codehub.invalid")
    assert origin is not None
    assert re.fullmatch(r"https://[0-9a-f-]{36}\.ws\.codehub\.invalid:81", origin)
    one = public.wildcard_name(origin)
    assert (one.state, one.code) == (State.WARNING, codes.WILDCARD)
    assert "*.ws.codehub.invalid" in one.advice
    assert public.wildcard_name(f"http://127.0.0.1:{free_port()}").code == codes.WILDCARD
    with saying(b"anything") as url:
        assert public.wildcard_name(url.rstrip("/")).state is State.OK


def test_a_proxy_in_front_that_passes_no_handshakes_on() -> None:
    with saying(b"ok\n") as url:
        address, one = public.look(url.rstrip("/"), None)
        assert address.state is State.OK
        assert (one.state, one.code) == (State.WARNING, codes.WEBSOCKET)
        assert "HTTP/1.0 200 OK" in one.detail
    nowhere = f"http://127.0.0.1:{free_port()}"
    assert websockets.tried([nowhere]).state is State.WARNING
    assert [one.code for one in public.look(nowhere, None)] == [codes.PUBLIC], "what does not answer is told once"
