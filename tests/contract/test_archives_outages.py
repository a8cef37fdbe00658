"""A store that does not answer, or not well: never taken for an empty one, and told apart by what is wrong."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from codehub.drivers.archives import ArchiveStore, Limits, S3Options
from codehub.drivers.memory import MemoryWorld, Misbehaviour
from codehub.errors import ActionFailed, TerminalError, Unreachable
from codehub.model.observation import ArchiveSeen
from tests.contract.s3 import S3Server
from tests.contract.scripted import Answer, error, scripted_s3
from tests.contract.stores import FolderStore, S3Store, listed, meta_of, new_key
from tests.support import eventually_async

QUICK = Limits(connect=1.0, request=1.0, progress=1.0)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


async def assert_out(archives: ArchiveStore, seen: ArchiveSeen = ArchiveSeen.UNREACHABLE) -> None:
    """Every verb says so, and none says anything else."""
    key = new_key()
    assert await archives.look(key) is seen
    assert await archives.verify(key) is seen
    for call in (
        listed(archives),
        archives.make_empty(key),
        archives.copy(key, new_key()),
        archives.delete(key),
        archives.prepare(),
    ):
        with pytest.raises(Unreachable):
            await call


@pytest.mark.exhaustive
async def test_a_server_that_is_down_is_unreachable_at_once_and_forgotten_when_it_is_back(s3_server: S3Server) -> None:
    store = S3Store(s3_server)
    key = new_key()
    await store.put_archive(key)
    with s3_server.down(), within(10):
        assert await store.archives.look(key) is ArchiveSeen.UNREACHABLE
        await assert_out(store.archives)

    async def is_back() -> bool:
        return await store.archives.verify(key) is ArchiveSeen.VERIFIED

    await eventually_async(is_back, "what was stored is there again")


async def test_a_server_that_hangs_is_a_timeout(s3_server: S3Server) -> None:
    store = S3Store(s3_server)
    archives = ArchiveStore.open(s3_server.url, prefix=store.prefix, s3=s3_server.options, limits=QUICK)
    key = new_key()
    await store.put_archive(key)
    with s3_server.frozen():
        with within(QUICK.connect + QUICK.request + 1):
            assert await archives.look(key) is ArchiveSeen.TIMEOUT
        with within(20):
            await assert_out(archives, ArchiveSeen.TIMEOUT)

    async def is_back() -> bool:
        return await store.archives.verify(key) is ArchiveSeen.VERIFIED

    await eventually_async(is_back, "it is well again")


async def test_the_usual_limits_are_a_few_seconds() -> None:
    limits = Limits()
    assert limits.connect + limits.request <= 10
    assert limits.progress <= 60


@pytest.mark.parametrize("wrong", ["access_key_id", "secret_access_key"])
async def test_refused_credentials_say_nothing_about_archives(s3_server: S3Server, wrong: str) -> None:
    options = replace(s3_server.options, access_key_id="who") if wrong == "access_key_id" else s3_server.options
    options = replace(options, secret_access_key="guess") if wrong == "secret_access_key" else options
    archives = ArchiveStore.open(s3_server.url, s3=options)
    await assert_out(archives)
    with pytest.raises(Unreachable, match="credentials") as caught:
        await archives.prepare()
    assert "S3_ACCESS_KEY_ID" in caught.value.hint
    assert "guess" not in str(caught.value)


async def test_a_missing_bucket_is_not_a_missing_archive(s3_server: S3Server) -> None:
    archives = ArchiveStore.open("s3://no-such-bucket", s3=s3_server.options)
    await assert_out(archives)
    with pytest.raises(Unreachable, match="no-such-bucket"):
        await archives.prepare()


async def test_a_name_that_does_not_resolve_is_unreachable() -> None:
    options = S3Options(endpoint="http://nowhere.invalid", access_key_id="a", secret_access_key="b")
    with within(20):
        await assert_out(ArchiveStore.open("s3://bucket", s3=options, limits=QUICK))


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (error(500, "InternalError"), ArchiveSeen.UNREACHABLE),
        (error(503, "SlowDown"), ArchiveSeen.UNREACHABLE),
        (error(429, "TooManyRequests"), ArchiveSeen.UNREACHABLE),
        (error(401, "Unauthorized"), ArchiveSeen.UNREACHABLE),
        (error(403, "AccessDenied"), ArchiveSeen.UNREACHABLE),
        (error(403, "InvalidObjectState"), ArchiveSeen.EXPIRED),
        (error(404, "NoSuchKey"), ArchiveSeen.MISSING),
        (error(404, "NoSuchBucket"), ArchiveSeen.UNREACHABLE),
        (Answer(200, b""), ArchiveSeen.CORRUPTED),
    ],
    ids=lambda value: value.body.decode().partition("<Code>")[2].partition("<")[0] if isinstance(value, Answer) else "",
)
@pytest.mark.parametrize("which", ["zst", "meta"])
async def test_every_answer_of_a_server_means_one_thing(answer: Answer, seen: ArchiveSeen, which: str) -> None:
    async with scripted_s3() as server:
        server.answers = {"meta": Answer(200, meta_of(b"data")), "zst": Answer(200, b"data")} | {which: answer}
        archives = ArchiveStore.open("s3://bucket", s3=server.options, limits=QUICK)
        with within(5):
            assert await archives.look(new_key()) is seen
            assert await archives.verify(new_key()) is seen


async def test_an_expired_source_cannot_be_copied() -> None:
    async with scripted_s3() as server:
        server.answers = {"meta": Answer(200, meta_of(b"data")), "zst": error(403, "InvalidObjectState")}
        with pytest.raises(TerminalError) as caught:
            await ArchiveStore.open("s3://bucket", s3=server.options).copy(new_key(), new_key())
    assert caught.value.reason == "ArchiveCorrupted"


async def test_an_answer_that_makes_no_sense_is_an_error_and_not_an_outage() -> None:
    async with scripted_s3() as server:
        server.answers = {"meta": error(400, "BadRequest")}
        with pytest.raises(ActionFailed):
            await ArchiveStore.open("s3://bucket", s3=server.options).look(new_key())


@pytest.mark.parametrize("hang_up", [False, True])
async def test_a_body_that_stops_in_the_middle_is_an_outage_and_not_a_damage(hang_up: bool) -> None:
    data = bytes(1 << 20)
    async with scripted_s3() as server:
        server.answers = {"meta": Answer(200, meta_of(data * 2)), "zst": Answer(200, data, len(data) * 2, hang_up)}
        archives = ArchiveStore.open("s3://bucket", s3=server.options, limits=QUICK)
        with within(20):
            seen = await archives.verify(new_key())
    assert seen is (ArchiveSeen.UNREACHABLE if hang_up else ArchiveSeen.TIMEOUT)


async def test_a_listing_that_breaks_off_raises() -> None:
    page = b"""<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated>
    <NextContinuationToken>more</NextContinuationToken><Contents><Key>archives/a</Key><Size>1</Size><ETag>"e"</ETag>
    <LastModified>2025-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"""
    async with scripted_s3() as server:
        none = Answer(200, b"<ListMultipartUploadsResult></ListMultipartUploadsResult>")
        none.then = Answer(200, page, then=error(500, "InternalError"))
        server.answers = {"bucket": none}
        with pytest.raises(Unreachable, match="500"):
            await listed(ArchiveStore.open("s3://bucket", s3=server.options, limits=QUICK))
        assert sum("list-type=2" in asked for asked in server.asked) >= 2


@pytest.mark.parametrize("there", ["nothing", "a damaged archive"])
async def test_the_meta_is_written_last_and_removed_first(there: str) -> None:
    key = new_key()
    async with scripted_s3() as server:
        damaged = {"meta": Answer(200, meta_of(b"other")), "zst": Answer(200, b"data")}
        server.answers = {"bucket": Answer(200)} | (damaged if there != "nothing" else {})
        archives = ArchiveStore.open("s3://bucket", s3=server.options, limits=QUICK)
        path = f"/bucket/archives/{key}"
        # A scripted server accepts every write, and shows none of it.
        server.accepts_writes = True
        await archives.make_empty(key)
        writes = [asked for asked in server.asked if not asked.startswith("GET")]
        assert writes == ([] if there == "nothing" else [f"DELETE {path}.meta"]) + [f"PUT {path}", f"PUT {path}.meta"]
        server.asked.clear()
        await archives.delete(key)
        writes = [asked for asked in server.asked if not asked.startswith("GET")]
        assert writes == [f"DELETE {path}.meta", f"DELETE {path}"]


@pytest.mark.parametrize("copied", [error(404, "NoSuchKey"), Answer(200, b"dat")], ids=["nothing", "less"])
async def test_a_copy_that_is_not_whole_gets_no_meta(copied: Answer) -> None:
    source, key = new_key(), new_key()
    async with scripted_s3() as server:
        server.answers = {f"{source}.meta": Answer(200, meta_of(b"data")), source: Answer(200, b"data"), key: copied}
        server.accepts_writes = True
        with pytest.raises(ActionFailed):
            await ArchiveStore.open("s3://bucket", s3=server.options, limits=QUICK).copy(source, key)
        assert [asked for asked in server.asked if asked.startswith("PUT")] == [f"PUT /bucket/archives/{key}"]


async def test_who_may_not_list_uploads_may_do_the_rest() -> None:
    async with scripted_s3() as server:
        nothing = Answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        server.answers = {"bucket": replace(error(403, "AccessDenied"), then=nothing)}
        assert await listed(ArchiveStore.open("s3://bucket", s3=server.options, limits=QUICK)) == {}


async def test_a_folder_that_is_gone_is_not_an_empty_one(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    await store.archives.prepare()
    key = new_key()
    await store.put_archive(key)
    (tmp_path / "store").rename(tmp_path / "elsewhere")
    assert await store.archives.look(key) is ArchiveSeen.UNREACHABLE
    with pytest.raises(Unreachable):
        await listed(store.archives)
    for call in (store.archives.make_empty(key), store.archives.copy(key, new_key()), store.archives.delete(key)):
        with pytest.raises(Unreachable):
            await call
    assert not (tmp_path / "store").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "store")
    assert await store.archives.verify(key) is ArchiveSeen.VERIFIED


async def test_a_mount_point_without_its_disk_is_not_an_empty_folder(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "store")
    await store.archives.prepare()
    (tmp_path / "store").rename(tmp_path / "disk")
    (tmp_path / "store").mkdir()
    key = new_key()
    assert await store.archives.look(key) is ArchiveSeen.UNREACHABLE
    for call in (listed(store.archives), store.archives.make_empty(key), store.archives.delete(key)):
        with pytest.raises(Unreachable):
            await call
    assert list((tmp_path / "store").iterdir()) == []


async def test_a_folder_that_does_not_answer_is_a_timeout(tmp_path: Path) -> None:
    url = (tmp_path / "store").as_uri()
    await ArchiveStore.open(url).prepare()
    archives = ArchiveStore.open(url, limits=Limits(request=0.0, progress=0.0))
    await assert_out(archives, ArchiveSeen.TIMEOUT)


@pytest.mark.parametrize(
    ("kind", "seen"),
    [(Misbehaviour.UNREACHABLE, ArchiveSeen.UNREACHABLE), (Misbehaviour.TIMES_OUT, ArchiveSeen.TIMEOUT)],
)
async def test_the_fake_can_be_out_too(kind: Misbehaviour, seen: ArchiveSeen) -> None:
    world = MemoryWorld()
    key = new_key()
    world.put_archive(key, {})
    world.misbehave("archives.*", kind)
    assert await world.archives.look(key) is seen
    assert await world.archives.verify(key) is seen
    for call in (listed(world.archives), world.archives.make_empty(key), world.archives.delete(key)):
        with pytest.raises(Unreachable):
            await call
    world.behave()
    assert await world.archives.verify(key) is ArchiveSeen.VERIFIED
