"""Archives of any size: parts that grow, and are sent again one by one; progress inside files."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codehub.drivers.archive_store import read_back
from codehub.drivers.archives import ArchiveStore, S3Options
from codehub.model.observation import ArchiveSeen
from codehub.storage_job.multipart import Multipart
from codehub.storage_job.pack import Packer
from codehub.storage_job.parts import MIB, MOST_BYTES, MOST_PARTS, held_at_once, size_of
from codehub.storage_job.protocol import StoreUnreachable, Tally, TryAgain, parse_request
from codehub.storage_job.s3 import open_s3
from codehub.storage_job.unfinished import Unfinished
from tests.contract.stores import new_key
from tests.storage_job.fake_s3 import Answer, FakeS3, fake_s3
from tests.storage_job.job import Store, encoded

UNIT = 256  # bytes instead of a megabyte: the same parts, 4096 times smaller
LARGE = 170 * 10**9 * UNIT // MIB


def test_the_parts_of_one_upload_hold_all_that_an_object_may() -> None:
    assert sum(size_of(number) for number in range(1, MOST_PARTS + 1)) >= MOST_BYTES
    with pytest.raises(ValueError, match="10000"):
        size_of(MOST_PARTS + 1)


@given(st.integers(1, MOST_PARTS))
def test_parts_only_grow_and_memory_is_bounded(number: int) -> None:
    size = size_of(number)
    assert 5 * MIB <= size <= 5 << 30, "S3's own limits"
    assert size_of(max(1, number - 1)) <= size
    assert size * held_at_once(size) <= 640 * MIB


def blocks(size: int) -> Iterator[bytes]:
    block = os.urandom(MIB)
    for start in range(0, size, MIB):
        yield block[: min(MIB, size - start)]


def upload_to(fake: FakeS3) -> Multipart:
    options = {"endpoint": fake.endpoint, "access_key_id": "a", "secret_access_key": "b"}
    return Multipart(Unfinished.of("bucket", "key", options), timeout=5, retry=5, unit=UNIT)


def test_170_gigabytes_worth_of_parts_of_which_some_fail() -> None:
    """Each that fails is sent again, and no other."""
    failing = {7: 2, 700: 1, 1500: 1}

    def refuse(_method: str, _path: str, query: dict[str, str]) -> Answer | None:
        number = int(query.get("partNumber", 0))
        if failing.get(number):
            failing[number] -= 1
            return 503, "SlowDown"
        return None

    with fake_s3() as fake:
        fake.refuse = refuse
        sent, moved = hashlib.sha256(), list[int]()

        def chunks() -> Iterator[bytes]:
            for block in blocks(LARGE):
                sent.update(block)
                yield block

        upload_to(fake).upload(chunks(), moved.append)
        assert hashlib.sha256(fake.objects["/bucket/key"]).digest() == sent.digest()
        numbers = [number for number, _ in fake.parts]
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), "what was refused is not in it"
        assert 1500 < len(numbers) < 2000
        assert not any(failing.values())
        assert sum(moved) >= LARGE
        assert max(moved) <= 256 << 10


def test_a_part_that_never_arrives_is_an_outage_and_leaves_nothing() -> None:
    with fake_s3() as fake:
        fake.refuse = lambda _method, _path, query: (507, "XMinioStorageFull") if "partNumber" in query else None
        options = {"endpoint": fake.endpoint, "access_key_id": "a", "secret_access_key": "b"}
        upload = Multipart(Unfinished.of("bucket", "key", options), timeout=5, retry=0.1, unit=UNIT)
        with pytest.raises(StoreUnreachable, match="full"):
            upload.upload(blocks(MIB), lambda _: None)
        assert fake.objects == {}


def lost_once(method: str, name: str) -> Callable[[str, str, dict[str, str]], bool]:
    """The answer to the first request of this kind."""
    left = [True]

    def loses(asked: str, _path: str, query: dict[str, str]) -> bool:
        is_it = asked == method and name in query and bool(left)
        if is_it:
            left.clear()
        return is_it

    return loses


@pytest.mark.parametrize(
    ("method", "name"), [("POST", "uploads"), ("POST", "uploadId"), ("GET", "uploads"), ("PUT", "uploadId")]
)
def test_whatever_answer_is_lost_nothing_is_sent_twice_but_that_part(method: str, name: str) -> None:
    data = os.urandom(40 * size_of(1, UNIT))
    with fake_s3() as fake:
        fake.loses = lost_once(method, name)
        upload_to(fake).upload([data], lambda _: None)
        assert fake.objects["/bucket/key"] == data
        assert len(fake.parts) == 40 + (method == "PUT")


@pytest.mark.parametrize("there", [None, b"another"])
def test_an_upload_that_vanished_did_not_become_the_object_unless_that_is_there(there: bytes | None) -> None:
    def refuse(method: str, _path: str, query: dict[str, str]) -> Answer | None:
        return (404, "NoSuchUpload") if method == "POST" and "uploadId" in query else None

    with fake_s3() as fake:
        fake.refuse = refuse
        if there is not None:
            fake.objects["/bucket/key"] = there
        with pytest.raises(TryAgain, match="NoSuchUpload"):
            upload_to(fake).upload([os.urandom(3 * size_of(1, UNIT))], lambda _: None)


def test_an_object_of_the_same_size_and_of_other_parts_is_another() -> None:
    tags = [f'"{hashlib.md5(part, usedforsecurity=False).hexdigest()}"' for part in (b"a", b"b")]
    whole = hashlib.md5(b"".join(bytes.fromhex(tag.strip('"')) for tag in tags), usedforsecurity=False).hexdigest()
    options = {"access_key_id": "a", "secret_access_key": "b"}
    with fake_s3() as fake:
        fake.objects["/bucket/key"] = b"ab"
        bucket = Unfinished.of("bucket", "key", options | {"endpoint": fake.endpoint})
        for told, same in ((f'"{whole}-2"', True), (f'"{whole}-3"', False), ('"opaque"', True)):
            fake.tags["/bucket/key"] = told
            assert bucket.is_made_of(2, tags) is same
        assert not bucket.is_made_of(3, tags)


def test_progress_is_told_inside_a_file(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(8 * MIB))
    tally, told = Tally(), set[int]()
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        Packer(root, lambda _: told.add(tally.bytes_done), tally).pack()
    finally:
        os.close(root)
    assert len(told) >= 8


@pytest.mark.exhaustive
async def test_170_gigabytes_worth_of_parts_to_a_slow_store_and_back() -> None:
    """Uploaded in parts, read back once although connections break, and fetched again byte for byte."""
    key = new_key()
    path = f"/bucket/archives/{key}"
    breaks = {"PUT": 5, "GET": 3}

    def refuse(method: str, asked: str, _query: dict[str, str]) -> Answer | None:
        if asked == path and breaks.get(method, 0) > 0 and len(fake.asked) % 97 == 0:
            breaks[method] -= 1
            return 503, "SlowDown"
        return None

    with fake_s3() as fake:
        fake.refuse, fake.slowness = refuse, 0.01
        sent = hashlib.sha256()

        def chunks() -> Iterator[bytes]:
            for block in blocks(LARGE):
                sent.update(block)
                yield block

        options = {"endpoint": fake.endpoint, "access_key_id": "a", "secret_access_key": "b"}
        bucket = Unfinished.of("bucket", f"archives/{key}", options)
        Multipart(bucket, timeout=5, retry=5, unit=UNIT).upload(chunks(), lambda _: None)
        assert breaks["PUT"] == 0
        fake.objects[f"{path}.meta"] = f"sha256:{sent.hexdigest()}\nsize:{LARGE}\n".encode()
        s3 = S3Options(endpoint=fake.endpoint, access_key_id="a", secret_access_key="b")
        archives, told = ArchiveStore.open("s3://bucket", s3=s3), list[int]()
        fake.asked.clear()
        assert await archives.verify(key, told.append) is ArchiveSeen.VERIFIED
        assert told[-1] == LARGE
        once = fake.served
        assert await archives.verify(key) is ArchiveSeen.VERIFIED
        assert once < LARGE + 3 * read_back.BLOCK * read_back.AHEAD
        assert fake.served < once + 1000, "it is not read twice"
        store = Store("s3://bucket/x", {**options, "allow_http": True})
        request = parse_request(encoded(store.request("restore", Path("/"))))
        fetched = hashlib.sha256()
        for chunk in open_s3(f"s3://bucket/archives/{key}", request).chunks():
            fetched.update(chunk)
        assert fetched.digest() == sent.digest()
