"""`codehub ws` against the real application: the whole life of a workspace, and everything that can be said wrongly."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from codehub.cli import ws_text
from codehub.client.models import HomeSize, Usage
from codehub.model.workspace import WorkspaceId
from codehub.services.actors import Scope
from tests.cli.site import Shell, Site, running_site
from tests.support import Databases


@pytest.fixture(scope="module")
def site(databases: Databases, migrated_template: str, server_redis: str) -> Iterator[Site]:
    with databases.one(migrated_template) as database, running_site(database, server_redis) as site:
        yield site


@pytest.fixture
def shell(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Logged in as ada; afterwards nothing of hers runs."""
    shell = Shell(monkeypatch, tmp_path, {"CODEHUB_URL": site.url, "CODEHUB_TOKEN": site.token()}, site)
    yield shell
    for one in listed(shell):
        shell.ok("ws", "delete", one["id"], "--purge", "--yes", "--wait", "--json")


def listed(shell: Shell, *more: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shell.ok("ws", "list", "--json", *more).out)
    return found


def made(shell: Shell, name: str = "thesis", *more: str) -> str:
    """The id of a new workspace that is at rest."""
    done = shell.ok("ws", "create", name, "--wait", "--json", *more)
    return str(json.loads(done.out)["id"])


def test_the_whole_life_of_a_workspace(shell: Shell, site: Site) -> None:
    done = shell.ok("ws", "create", "thesis", "--state", "stopped", "--description", "chapter 3", "--stop-after", "2h")
    assert done.out.startswith(f"{site.url}/w/")
    assert "thesis was made" in done.err
    for verb, words in (
        ("start", "thesis is running."),
        ("stop", "thesis is stopped."),
        ("archive", "thesis is archived."),
        ("restore", "thesis is stopped."),
    ):
        done = shell.ok("ws", verb, "thesis", "--wait")
        assert done.out == f"{words}\n"
    assert "thesis: " in done.err, "what happens is told on standard error"
    shown = shell.ok("ws", "show", "thesis").out
    assert "chapter 3" in shown
    assert "after 2 h without use" in shown
    assert "Archive key" not in shown
    assert "Archive size" in shown
    used = shell.ok("ws", "usage", "thesis")
    assert "is not running" in used.err + used.out
    assert "Archive size" in used.out
    places = shell.ok("ws", "show", "thesis", "--admin").out
    row = json.loads(shell.ok("ws", "show", "thesis", "--json").out)
    for place in (
        f"ws-{row['id']} (process)",
        f"{row['home_store_key']} (directory)",
        row["archive_key"],
        row["op_id"],
    ):
        assert place in places
    assert shell.ok("ws", "delete", "thesis", "--yes", "--wait").out == "thesis is deleted.\n"
    assert listed(shell) == []
    assert "thesis" in shell.ok("ws", "list", "--deleted").out
    assert shell.ok("ws", "undelete", "thesis", "--wait").out == "thesis is archived.\n"
    assert [one["phase"] for one in listed(shell)] == ["ARCHIVED"]
    history = shell.ok("ws", "history", "thesis").out
    assert "RESTORING" in history
    assert "user ada" in history
    assert shell.ok("ws", "delete", "thesis", "--purge", "--yes", "--wait").out == "thesis is deleted for good.\n"


def test_the_size_of_a_home_is_told_with_its_time() -> None:
    at = datetime.now(UTC) - timedelta(minutes=5)
    told = dict(ws_text.size_facts(Usage(home=HomeSize(at=at, bytes=2_000_000), archive_bytes=None)))
    assert set(told) == {"Home size"}
    assert told["Home size"].endswith("measured 5 min ago")
    assert ws_text.size_facts(Usage(home=HomeSize(at=at)))[0][1].startswith("not known")


def test_safe_mode_is_for_one_start_and_leads_out_of_an_error(shell: Shell, site: Site) -> None:
    identity = made(shell, "thesis", "--state", "stopped")

    def last_start() -> str:
        return site.world.instances[WorkspaceId(UUID(identity))].log[0]

    assert shell.ok("ws", "start", "thesis", "--safe", "--wait").out == "thesis is running.\n"
    assert last_start().endswith("in safe mode")
    assert "Safe mode" in shell.ok("ws", "show", "thesis").out
    shell.ok("ws", "stop", "thesis", "--wait")
    assert "Safe mode" not in shell.ok("ws", "show", "thesis").out
    shell.ok("ws", "start", "thesis", "--wait")
    assert not last_start().endswith("in safe mode")
    refused = shell("ws", "start", "thesis", "--safe")
    assert (refused.code, "Stop it first" in refused.err) == (4, True)


def test_a_home_is_downloaded_from_its_archive(shell: Shell, tmp_path: Path) -> None:
    identity, file = made(shell, "thesis", "--state", "running"), tmp_path / "home"
    refused = shell("ws", "download", "thesis", "-o", str(file))
    assert (refused.code, "Stop it first" in refused.line) == (4, True)
    assert shell("ws", "download", "thesis", "--last", "-o", str(file)).code == 4, "there is no archive yet"
    shell.ok("ws", "stop", "thesis", "--wait")
    assert shell("ws", "download", "thesis", "-o", str(file)).code == 2, "it asks before it archives"
    done = shell.ok("ws", "download", "thesis", "-o", str(file), "--yes")
    assert done.out.startswith(f"{file} (")
    assert json.loads(file.read_bytes()) == {}
    (listed,) = json.loads(shell.ok("ws", "archives", "thesis", "--json").out)
    assert (listed["is_current"], identity in listed["op_id"]) == (True, False)
    assert "current" in shell.ok("ws", "archives", "thesis").out
    assert shell("ws", "download", "thesis", "-o", str(file)).code == 2, "nothing is overwritten"
    other = tmp_path / "other"
    shell.ok("ws", "delete", "thesis", "--yes", "--wait")
    shell.ok("ws", "download", identity, "--archive", listed["op_id"], "-o", str(other))
    assert other.read_bytes() == file.read_bytes()
    assert sorted(tmp_path.glob("*.part")) == []


def test_wishes_that_came_true_already_are_done_at_once(shell: Shell) -> None:
    identity = made(shell)
    assert shell.ok("ws", "start", identity, "--wait").out == "thesis is running.\n"
    shell.ok("ws", "archive", identity, "--wait")
    assert shell.ok("ws", "stop", identity).out == "thesis does not run: it is archived.\n"
    assert [one["phase"] for one in listed(shell)] == ["ARCHIVED"], "to stop it is not to restore it"


def test_a_workspace_that_is_busy_is_waited_for_by_whoever_waits(shell: Shell, site: Site) -> None:
    identity = made(shell, "busy", "--state", "archived")
    shell.ok("ws", "start", identity)
    assert shell.ok("ws", "stop", identity, "--wait").out == "busy is stopped.\n"


def test_json_is_all_there_is_on_standard_output(shell: Shell) -> None:
    identity = made(shell)
    for arguments in (
        ["show", identity],
        ["stop", identity, "--wait"],
        ["start", identity, "--wait"],
        ["rename", identity, "paper"],
        ["keep-awake", identity, "2"],
        ["open", identity],
        ["archive", identity, "--wait"],
        ["restore", identity, "--wait"],
        ["delete", identity, "--yes", "--wait"],
        ["undelete", identity, "--wait"],
    ):
        done = shell.ok("ws", *arguments, "--json")
        assert json.loads(done.out)["id"] == identity
    assert isinstance(json.loads(shell.ok("ws", "history", identity, "--json").out), list)


def test_named_by_id_beginning_or_name(shell: Shell) -> None:
    first, second = made(shell, "same", "--state", "archived"), made(shell, "same", "--state", "archived")
    assert json.loads(shell.ok("ws", "show", first[:13], "--json").out)["id"] == first
    ambiguous = shell("ws", "show", "same")
    assert ambiguous.code == 2
    assert first in ambiguous.line
    assert second in ambiguous.line
    missing = shell("ws", "show", "other")
    assert (missing.code, missing.line) == (3, "There is no workspace called 'other'. See: codehub ws list")


def test_going_to_error_ends_the_wait_with_the_reason(shell: Shell, site: Site) -> None:
    identity = made(shell, "broken", "--state", "stopped")
    site.misfortune("lose_volume", identity)
    done = shell("ws", "start", identity, "--wait")
    assert done.code in (1, 4)
    assert "DataLost" in done.err
    assert "codehub ws recover" in done.err
    refused = shell("ws", "start", identity)
    assert refused.code == 4
    assert "DataLost" in refused.line
    assert "DataLost" in shell("ws", "start", identity, "--safe").line, "there is no home to start with"
    assert "ERROR: DataLost" in shell.ok("ws", "list").out
    assert shell("ws", "recover", identity, "--from", "blank").code == 2, "it asks first"
    assert shell.ok("ws", "recover", identity, "--from", "blank", "--yes", "--wait").out == "broken is well again.\n"


def test_not_in_time(shell: Shell, site: Site) -> None:
    outage = site.world.engine_out()
    done = shell("ws", "create", "slow", "--wait", "--timeout", "0.5")
    site.loop.call_soon_threadsafe(site.world.engine_back, outage)
    assert done.code == 1
    assert "slow is still" in done.err
    shell.ok("ws", "start", "slow", "--wait")


def test_over_the_limit(shell: Shell) -> None:
    for name in ("one", "two"):
        made(shell, name)
    done = shell("ws", "create", "three")
    assert done.code == 6
    assert "2 running workspaces" in done.line


def test_a_table_in_a_pipe_is_whole_and_without_colour(shell: Shell) -> None:
    name = "a name that is quite a bit longer than what a terminal of eighty columns has room for in a table"
    identity = made(shell, name, "--state", "archived")
    table = shell.ok("ws", "list").out
    assert name in table
    assert identity in table
    assert "\x1b" not in table
    assert table.splitlines()[0].split() == ["NAME", "STATE", "IMAGE", "ID", "USED", "NEXT"]
    assert shell.ok("ws", "list", "--search", "nothing like it").out == ""


def test_images_are_shown(shell: Shell) -> None:
    assert "jupyterlab" in shell.ok("images").out
    assert json.loads(shell.ok("images", "--json").out)["default_backend"] == "process"


WRONG = [
    (["ws", "list", "--phase", "ASLEEP"], 2, "ASLEEP"),
    (["ws", "create"], 2, "NAME"),
    (["ws", "create", ""], 2, "name"),
    (["ws", "create", "x", "--image", "emacs"], 2, "emacs"),
    (["ws", "create", "x", "--backend", "vm"], 2, "backend"),
    (["ws", "create", "x", "--state", "asleep"], 2, "asleep"),
    (["ws", "create", "x", "--stop-after", "soon"], 2, "soon"),
    (["ws", "create", "x", "--stop-after", "5s"], 2, "60"),
    (["ws", "create", "x", "--from", "nothing"], 3, "nothing"),
    (["ws", "show", "nothing"], 3, "nothing"),
    (["ws", "show", "0b1f6e0c-5f5e-4b3e-9d7e-0d2f4f8f9a11"], 3, "no such workspace"),
    (["ws", "start", "nothing"], 3, "nothing"),
    (["ws", "start", "nothing", "--timeout", "-1"], 2, "--timeout"),
    (["ws", "stop", "nothing"], 3, "nothing"),
    (["ws", "archive", "nothing"], 3, "nothing"),
    (["ws", "restore", "nothing"], 3, "nothing"),
    (["ws", "recover", "nothing"], 3, "nothing"),
    (["ws", "recover", "nothing", "--from", "thin air"], 2, "thin air"),
    (["ws", "delete", "nothing"], 3, "nothing"),
    (["ws", "undelete", "nothing"], 3, "nothing"),
    (["ws", "rename", "nothing", "x"], 3, "nothing"),
    (["ws", "open", "nothing"], 3, "nothing"),
    (["ws", "logs", "nothing"], 3, "nothing"),
    (["ws", "logs", "nothing", "--lines", "many"], 2, "--lines"),
    (["ws", "history", "nothing"], 3, "nothing"),
    (["ws", "history", "nothing", "--limit", "0"], 2, "--limit"),
    (["ws", "keep-awake", "nothing"], 3, "nothing"),
    (["ws", "keep-awake", "nothing", "25"], 2, "24"),
    (["ws", "dance"], 2, "dance"),
    (["user", "list"], 5, "administrators"),
    (["gc", "--dry-run"], 5, "administrators"),
    (["ws", "list", "--all"], 5, "administrators"),
]


@pytest.mark.parametrize(("arguments", "code", "words"), WRONG, ids=[" ".join(each[0]) for each in WRONG])
def test_wrong_input_is_one_line_and_its_exit_code(shell: Shell, arguments: list[str], code: int, words: str) -> None:
    done = shell(*arguments)
    assert done.code == code, done
    assert words in done.line


def test_what_the_present_state_does_not_allow(shell: Shell) -> None:
    identity = made(shell, "thesis", "--state", "archived")
    for arguments in (["logs", identity], ["undelete", identity], ["recover", identity]):
        done = shell("ws", *arguments)
        assert done.code == 4, done
        assert done.line
    assert shell("ws", "rename", identity, "").code == 2


def test_deleting_asks_and_says_what_is_lost(shell: Shell) -> None:
    identity = made(shell, "thesis", "--state", "archived")
    for more in ([], ["--purge"]):
        done = shell("ws", "delete", identity, *more)
        assert (done.code, done.line) == (2, "There is nobody to ask: this is no terminal. Give --yes.")
    assert [one["phase"] for one in listed(shell)] == ["ARCHIVED"]


def test_a_token_that_may_only_read(shell: Shell, site: Site) -> None:
    token = site.token(scope=Scope.READ)
    shell.ok("ws", "list", CODEHUB_TOKEN=token)
    done = shell("ws", "create", "x", CODEHUB_TOKEN=token)
    assert done.code == 5
    assert "may only read" in done.line
