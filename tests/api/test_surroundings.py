"""What the administrator's page finds around the process: disks, public addresses, WebSockets through them."""

import asyncio
import errno
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path, PosixPath
from typing import Any

import httpx
import pytest

from codehub.config import AccountConfig
from codehub.metrics import Metrics
from codehub.services.actors import UserRole
from codehub.services.doctor import codes, room
from codehub.services.doctor.finding import Finding, State, ok
from codehub.services.doctor.serving import ADDRESS_SECONDS, Aside, Surroundings
from codehub.web.app import create_app
from codehub.web.context import Context
from tests.accounts.people import add_person, token_headers
from tests.api.caller import Caller
from tests.api.conftest import BASE_URL
from tests.lab.saying import babbling, saying
from tests.support import eventually


@asynccontextmanager
async def administrator_of(context: Context, **accounts: object) -> AsyncIterator[Caller]:
    config = AccountConfig.model_validate({**context.settings.accounts.model_dump(), **accounts})
    changed = replace(context, settings=context.settings.model_copy(update={"accounts": config}))
    person = await add_person(context.pool, "root", UserRole.ADMIN)
    transport = httpx.ASGITransport(create_app({}, Metrics(), context=changed))
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as http:
        yield Caller(http, person, await token_headers(context.pool, person))


async def findings(root: Caller) -> dict[str, Any]:
    answer = await root.get("/admin/health")
    assert answer.status_code == 200, answer.text
    return {one["check"]: one for one in answer.json()["findings"]}


async def test_everything_around_is_told_with_a_code_and_a_link(context: Context, tmp_path: Path) -> None:
    with saying(b"ok\n") as url:
        there = {"public_url": url.rstrip("/"), "workspace_host": "ws.codehub.invalid"}
        async with administrator_of(replace(context, folders=[tmp_path]), **there) as root:
            found = await findings(root)
    assert found["disk"]["state"] == "ok"
    assert found["public address"]["state"] == "ok"
    for check, code in (("wildcard name", "CH-DNS-1"), ("websockets", "CH-WS-1")):
        assert (found[check]["state"], found[check]["code"]) == ("warning", code)
        assert found[check]["link"] == f"docs/runbook.md#{code.lower()}"
        assert found[check]["advice"]


async def test_without_addresses_or_folders_there_is_nothing_to_look_at(context: Context) -> None:
    async with administrator_of(context) as root:
        assert not {"disk", "public address", "wildcard name", "websockets"} & set(await findings(root))


async def test_many_who_ask_cost_one_look(context: Context) -> None:
    asked: list[str] = []
    with saying(b"something else", counted=asked) as url:
        async with administrator_of(context, public_url=url.rstrip("/")) as root:
            told = await asyncio.gather(*(findings(root) for _ in range(20)))
    assert {one["public address"]["code"] for one in told} == {"CH-URL-1"}
    assert asked == ["/healthz"]


async def test_an_address_that_says_nothing_holds_nobody_up_for_long() -> None:
    over = threading.Event()
    with saying(b"ok\n", until=over) as url:
        around = Surroundings([], url, None)
        began = time.monotonic()
        (one,) = await around.look()
        assert time.monotonic() - began < ADDRESS_SECONDS
        over.set()
    assert (one.state, one.code) == (State.WARNING, codes.PUBLIC)


async def test_an_address_at_which_no_http_is_spoken_is_told(context: Context) -> None:
    with babbling(b"SSH-2.0-OpenSSH_9.2\r\n") as url:
        async with administrator_of(context, public_url=url.rstrip("/")) as root:
            found = await findings(root)
    assert found["public address"]["code"] == "CH-URL-1"


async def test_what_is_seen_is_told_whatever_else_takes_too_long() -> None:
    """One limit for each question: none takes the others' time, or their answers."""
    over = threading.Event()
    with babbling(b"HTTP/1.1 100 Continue\r\n\r\n", until=over) as url:
        began = time.monotonic()
        found = {one.code: one for one in await Surroundings([], url, "ws.codehub.invalid").look()}
        assert time.monotonic() - began < ADDRESS_SECONDS + 2
        over.set()
    assert set(found) == {codes.PUBLIC, codes.WILDCARD}
    assert f"within {ADDRESS_SECONDS:g} s" in found[codes.PUBLIC].detail
    assert "ws.codehub.invalid is not known here" in found[codes.WILDCARD].detail


async def test_a_look_that_breaks_is_told_and_the_others_go_on() -> None:
    class Broken(str):
        __slots__ = ()

        def rstrip(self, _chars: str | None = None, /) -> str:
            raise RuntimeError("inside")

    found = {one.code: one for one in await Surroundings([], Broken("http://x"), "ws.codehub.invalid").look()}
    assert set(found) == {codes.PUBLIC, codes.WILDCARD}
    assert found[codes.PUBLIC].state is State.WARNING


async def test_a_look_that_hangs_is_not_begun_again_beside_itself() -> None:
    begun, over, aside = [], threading.Event(), Aside()

    def hangs() -> list[Finding]:
        begun.append(1)
        over.wait(30)
        return []

    for _ in range(3):
        with pytest.raises(TimeoutError):
            await aside.do(hangs, 0.05)
    assert len(begun) == 1
    over.set()
    eventually(lambda: all(each.name != "doctor" for each in threading.enumerate()), "it ends")
    assert await aside.do(lambda: [ok("disk", "well")], 5) == [ok("disk", "well")]


async def test_a_disk_that_is_away_is_told(tmp_path: Path) -> None:
    class Broken(PosixPath):
        def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as it is elsewhere
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    (one,) = await Surroundings([Broken(tmp_path)], None, None).look()
    assert (one.state, one.code) == (State.WARNING, codes.DISK)
    assert os.strerror(errno.EIO) in one.detail


def test_disks_that_are_almost_full_are_told_each(tmp_path: Path) -> None:
    folders = [tmp_path, tmp_path / "gone", Path("/proc")]
    assert [one.state for one in room.rooms(folders, least=0)] == [State.OK]
    full = room.rooms(folders, least=1 << 60)
    assert [one.code for one in full] == [codes.DISK, codes.DISK], "two disks; the folder that is not there has none"
    assert room.rooms([]) == []
    assert room.store_folders("file:///a%20b") == [Path("/a b")]
    assert room.store_folders("s3://bucket") == room.store_folders(None) == []
