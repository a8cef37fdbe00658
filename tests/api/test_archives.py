"""A workspace's archives through the API: listed, and downloaded as files, from a store that only the leader has."""

import asyncio
import hashlib
import os
import shutil
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import LiteralString
from uuid import uuid4

import httpx
import pytest

from codehub.cli.serving import serve_with_events
from codehub.coordinator.archive_answers import PART_BYTES, archive_answers
from codehub.db.pool import Connection, Pool
from codehub.drivers.archives import ArchiveStore
from codehub.errors import OverLimit
from codehub.metrics import Metrics
from codehub.model.names import archive_key
from codehub.model.workspace import ArchiveKey, OpId, UserId, WorkspaceId
from codehub.signals.connect import Redis
from codehub.signals.questions import Answerer, Body, Handler
from codehub.signals.usage import ARCHIVE_KEY
from codehub.web.app import create_app
from codehub.web.context import Context
from codehub.web.downloads import MOST, MOST_OF_ONE, Downloads
from codehub.web.live import Hub
from codehub.web.server import listen, url_of
from tests.accounts.people import session_headers
from tests.api.caller import Caller, error
from tests.contract.stores import meta_of
from tests.support import background, eventually_async

UNSENT = 16 << 20  # what sockets and buffers on the way may hold


@dataclass
class Store:
    """A folder as the leader has it, and what it was asked for."""

    folder: Path
    archives: ArchiveStore
    asked: Counter[str] = field(default_factory=Counter)
    answers_parts: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, key: ArchiveKey, data: bytes) -> None:
        path = self.folder / "archives" / key
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        path.with_name(f"{path.name}.meta").write_bytes(meta_of(data))

    def answers(self) -> dict[str, Handler]:
        def counted(kind: str, handler: Handler) -> Handler:
            async def answer(body: Body) -> object:
                self.asked[kind] += 1
                if kind == "archive_part":
                    await self.answers_parts.wait()
                return await handler(body)

            return answer

        return {kind: counted(kind, handler) for kind, handler in archive_answers(self.archives).items()}


@pytest.fixture
async def store(tmp_path: Path, redis: Redis) -> AsyncIterator[Store]:
    archives = ArchiveStore.open((tmp_path / "store").as_uri())
    await archives.prepare()
    store = Store(tmp_path / "store", archives)
    store.answers_parts.set()
    async with background(Answerer(redis, store.answers()).run()):  # in the leader's place
        yield store


@pytest.fixture
async def http(context: Context) -> AsyncIterator[httpx.AsyncClient]:
    """Over a real socket: only there an answer is read as slowly as one likes."""
    app = create_app({}, Metrics(), context=context)
    app.state.hub = Hub.over(context)
    with closing(listen("127.0.0.1", 0)) as listener:
        async with (
            background(serve_with_events(app, listener)),
            httpx.AsyncClient(base_url=url_of(listener).rstrip("/"), timeout=90) as client,
        ):
            yield client


async def archived(store: Store, ada: Caller, owner: Connection, size: int = 3000) -> tuple[WorkspaceId, bytes]:
    identity, data = WorkspaceId(uuid4()), os.urandom(size)
    key = archive_key(identity, OpId(uuid4()))
    await asyncio.to_thread(store.put, key, data)
    await ada.has(owner, "ARCHIVED", id=identity, name="the thesis/한국어", archive_key=key)
    return identity, data


async def test_the_last_archive_is_a_file(store: Store, ada: Caller, root: Caller, owner: Connection) -> None:
    identity, data = await archived(store, ada, owner, PART_BYTES * 3 + 17)
    answer = await ada.get(f"/workspaces/{identity}/archive")
    assert (answer.status_code, answer.content == data) == (200, True)
    assert answer.headers["content-length"] == str(len(data))
    assert answer.headers["repr-digest"] == f"sha-256=:{b64encode(hashlib.sha256(data).digest()).decode()}:"
    assert "the%20thesis-%ED%95%9C" in answer.headers["content-disposition"]
    assert answer.headers["content-disposition"].startswith("attachment;")
    assert (await root.get(f"/workspaces/{identity}/archive")).content == data
    rows = await owner.execute(
        "SELECT details ->> 'owner' FROM audit_log WHERE action = 'workspace.download' ORDER BY id"
    )
    assert await rows.fetchall() == [(None,), ("ada",)]


async def test_each_archive_is_listed_and_can_be_had(store: Store, ada: Caller, owner: Connection) -> None:
    identity, newest = await archived(store, ada, owner)
    earlier, foreign = OpId(uuid4()), archive_key(WorkspaceId(uuid4()), OpId(uuid4()))
    store.put(archive_key(identity, earlier), b"earlier")
    store.put(foreign, b"somebody else's")
    listed = (await ada.get(f"/workspaces/{identity}/archives")).json()["items"]
    assert {(each["op_id"] == str(earlier), each["is_current"]) for each in listed} == {(True, False), (False, True)}
    assert sum(each["bytes"] for each in listed) > len(newest) + len(b"earlier")
    assert (await ada.get(f"/workspaces/{identity}/archive?op_id={earlier}")).content == b"earlier"
    elsewhere = foreign.split("/")[1]
    assert (await ada.get(f"/workspaces/{identity}/archive?op_id={elsewhere}")).status_code == 404


async def test_its_size_is_asked_for_once(store: Store, ada: Caller, owner: Connection) -> None:
    identity, data = await archived(store, ada, owner)
    for _ in range(2):
        assert (await ada.get(f"/workspaces/{identity}/usage")).json()["archive_bytes"] == len(data)
    assert store.asked == Counter(archive=1)
    shutil.rmtree(store.folder / "archives" / str(identity))
    await owner.execute("UPDATE workspaces SET purged_at = now(), deleted_at = now() WHERE id = %s", [identity])
    assert (await ada.get(f"/workspaces/{identity}/usage")).json()["archive_bytes"] is None, "purged"


async def test_the_size_of_one_that_is_not_there_is_not_known(
    store: Store, ada: Caller, owner: Connection, redis: Redis
) -> None:
    identity, _ = await archived(store, ada, owner)
    shutil.rmtree(store.folder / "archives" / str(identity))
    for _ in range(2):
        assert (await ada.get(f"/workspaces/{identity}/usage")).json()["archive_bytes"] is None
    assert store.asked == Counter(archive=1), "that it is not known is remembered, too"
    (key,) = await redis.keys(f"{ARCHIVE_KEY}*")
    assert 0 < await redis.ttl(key) <= 60


async def test_who_may_not_have_it_does_not(store: Store, ada: Caller, bob: Caller, owner: Connection) -> None:
    identity, _ = await archived(store, ada, owner)
    for place in ("archive", "archives"):
        assert error(await bob.get(f"/workspaces/{identity}/{place}")) == (404, "not_found")
    assert store.asked == Counter()


@pytest.mark.parametrize(
    ("days", "purged", "status"), [(1, False, 200), (8, False, 410), (1, True, 410)], ids=["kept", "too late", "purged"]
)
async def test_what_is_in_the_trash_can_be_had_while_it_is_kept(
    store: Store, ada: Caller, owner: Connection, *, days: int, purged: bool, status: int
) -> None:
    identity, _ = await archived(store, ada, owner)
    await owner.execute(
        "UPDATE workspaces SET phase = 'DELETING', desired_state = 'DELETED', deleted_at = now() - %s, purged_at = %s"
        " WHERE id = %s",
        (timedelta(days=days), "2026-01-01" if purged else None, identity),
    )
    (op_id,) = (path.name for path in (store.folder / "archives" / str(identity)).iterdir())
    for which in ("", f"?op_id={op_id}"):
        assert (await ada.get(f"/workspaces/{identity}/archive{which}")).status_code == status
    assert len((await ada.get(f"/workspaces/{identity}/archives")).json()["items"]) == (status == 200)


async def test_another_site_makes_no_browser_download_it(
    store: Store, ada: Caller, pool: Pool, owner: Connection
) -> None:
    """It would be in the audit log, and take one of the user's places."""
    identity, data = await archived(store, ada, owner)
    browser = Caller(ada.http, ada.person, await session_headers(pool, ada.person))
    for site in ("cross-site", "same-site"):
        refused = await browser.get(f"/workspaces/{identity}/archive", headers={"Sec-Fetch-Site": site})
        assert error(refused) == (403, "cross_site")
    assert store.asked == Counter()
    assert await (await owner.execute("SELECT action FROM audit_log")).fetchall() == []
    for site in ("same-origin", "none"):
        taken = await browser.get(f"/workspaces/{identity}/archive", headers={"Sec-Fetch-Site": site})
        assert taken.content == data


async def test_what_was_never_archived_has_no_file(store: Store, ada: Caller, owner: Connection) -> None:
    for phase in ("STANDBY", "RUNNING"):
        refused = await ada.get(f"/workspaces/{await ada.has(owner, phase)}/archive")
        assert error(refused) == (409, "conflict")
        assert "Archive it first" in refused.json()["error"]["message"]


async def test_a_store_that_is_out_is_said(store: Store, ada: Caller, owner: Connection) -> None:
    identity, _ = await archived(store, ada, owner)
    store.folder.rename(store.folder.with_name("elsewhere"))
    for place in ("archive", "archives"):
        refused = await ada.get(f"/workspaces/{identity}/{place}")
        assert refused.status_code == 503
        assert "Is its disk mounted?" in refused.json()["error"]["message"]


async def test_it_is_read_no_faster_than_it_is_taken_and_outlives_an_outage(
    store: Store, ada: Caller, owner: Connection
) -> None:
    identity, data = await archived(store, ada, owner, 64 << 20)
    taken, outage, elsewhere = bytearray(), False, store.folder.with_name("elsewhere")
    url = f"/api/v1/workspaces/{identity}/archive"
    async with ada.http.stream("GET", url, headers=dict(ada.headers)) as answer:
        async for piece in answer.aiter_raw():
            taken += piece
            await asyncio.sleep(0.001)  # a slow line
            assert store.asked["archive_part"] * PART_BYTES - len(taken) <= UNSENT
            if len(taken) > 8 << 20 and not outage:
                outage = True
                store.folder.rename(elsewhere)
                asyncio.get_running_loop().call_later(1, elsewhere.rename, store.folder)
    assert bytes(taken) == data
    assert store.asked["archive_part"] > len(data) // PART_BYTES, "some parts were asked for again"


async def opened(store: Store, ada: Caller, identity: WorkspaceId) -> list["asyncio.Task[httpx.Response]"]:
    """As many downloads as one user may have, none of which gets a part."""
    store.answers_parts.clear()
    found = [asyncio.create_task(ada.get(f"/workspaces/{identity}/archive")) for _ in range(MOST_OF_ONE)]
    await eventually_async(lambda: _asked(store, MOST_OF_ONE), "each waits for a part, and none for another")
    return found


async def _asked(store: Store, parts: int) -> bool:
    return store.asked["archive_part"] == parts


async def test_a_user_has_only_so_many_downloads_open(
    store: Store, ada: Caller, root: Caller, owner: Connection
) -> None:
    identity, data = await archived(store, ada, owner)
    downloads = await opened(store, ada, identity)
    refused = await ada.get(f"/workspaces/{identity}/archive")
    assert error(refused) == (429, "over_limit")
    assert "3 downloads open already" in refused.json()["error"]["message"]
    assert "retry-after" in refused.headers
    another = asyncio.create_task(root.get(f"/workspaces/{identity}/archive"))
    await eventually_async(lambda: _asked(store, MOST_OF_ONE + 1), "somebody else may")
    store.answers_parts.set()
    assert [(await each).content for each in [*downloads, another]] == [data] * 4
    assert (await ada.get(f"/workspaces/{identity}/archive")).content == data


async def test_what_cannot_be_sent_takes_no_place(store: Store, ada: Caller, owner: Connection) -> None:
    nothing = await ada.has(owner, "STANDBY")
    for _ in range(MOST_OF_ONE + 1):
        assert (await ada.get(f"/workspaces/{nothing}/archive")).status_code == 409


def test_a_process_sends_only_so_many_at_once() -> None:
    downloads = Downloads()
    with ExitStack() as places:
        for _ in range(MOST):
            places.enter_context(downloads.place_of(UserId(uuid4())))
        with pytest.raises(OverLimit, match="Too many downloads"), downloads.place_of(UserId(uuid4())):
            pass
    with downloads.place_of(UserId(uuid4())):
        pass


async def test_it_goes_on_although_the_file_was_touched(store: Store, ada: Caller, owner: Connection) -> None:
    """As a restore does, which takes the same file at the same time."""
    identity, data = await archived(store, ada, owner, 64 << 20)
    (file,) = (store.folder / "archives" / str(identity)).rglob("home.tar.zst")
    taken = bytearray()
    async with ada.http.stream("GET", f"/api/v1/workspaces/{identity}/archive", headers=dict(ada.headers)) as answer:
        async for piece in answer.aiter_raw():
            if not taken:
                file.chmod(0o640)
            taken += piece
    assert bytes(taken) == data


@pytest.mark.parametrize(
    "end",
    [
        "DELETE FROM sessions WHERE user_id = %s",
        "UPDATE tokens SET revoked_at = now() WHERE user_id = %s",
        "UPDATE users SET disabled_at = now() WHERE id = %s",
    ],
    ids=["logout", "token", "disabled"],
)
async def test_it_ends_with_the_login(
    store: Store, ada: Caller, pool: Pool, owner: Connection, end: LiteralString
) -> None:
    identity, data = await archived(store, ada, owner, 64 << 20)
    headers = await session_headers(pool, ada.person) if "sessions" in end else ada.headers
    taken = bytearray()

    async def take() -> None:
        url = f"/api/v1/workspaces/{identity}/archive"
        async with ada.http.stream("GET", url, headers=dict(headers)) as answer:
            async for piece in answer.aiter_raw():
                if not taken:
                    await owner.execute(end, [ada.person.id])
                taken.extend(piece)
                await asyncio.sleep(0.02)  # a slow line

    with pytest.raises(httpx.RemoteProtocolError):
        await take()
    assert 0 < len(taken) < len(data)


async def test_one_that_is_removed_meanwhile_is_not_taken_for_whole(
    store: Store, ada: Caller, owner: Connection
) -> None:
    identity, data = await archived(store, ada, owner, 64 << 20)
    taken = bytearray()

    async def take() -> None:
        url = f"/api/v1/workspaces/{identity}/archive"
        async with ada.http.stream("GET", url, headers=dict(ada.headers)) as answer:
            async for piece in answer.aiter_raw():
                for file in (store.folder / "archives" / str(identity)).rglob("home*"):
                    file.unlink()
                taken.extend(piece)

    with pytest.raises(httpx.RemoteProtocolError):
        await take()
    assert 0 < len(taken) < len(data)
