"""The same with a real S3 server: killed on the wire, the server killed, refused, out."""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from codehub.storage_job import archive, s3
from codehub.storage_job.protocol import Exit, StoreUnreachable, Tally, TryAgain, parse_request
from codehub.storage_job.stores import open_pair
from tests.contract.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from tests.storage_job.homes import Picture, make_nasty_home, remove, snapshot
from tests.storage_job.hostile import meta_of
from tests.storage_job.job import Ended, Store, done, encoded, ended, kill, restored_from, run, run_here, start
from tests.storage_job.wire import Wire
from tests.support import eventually, first_of, short_folder

MIB = 1 << 20


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    folder = short_folder()
    server = S3Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three parts of an upload, and something of everything."""
    path = tmp_path_factory.mktemp("s3") / "home"
    make_nasty_home(path, sparse=False)
    (path / "large").write_bytes(os.urandom(2 * s3.PART + MIB))
    yield path
    remove(path)


@pytest.fixture(scope="module")
def wanted(home: Path) -> dict[bytes, Picture]:
    return snapshot(home)


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "volume"
    path.mkdir()
    yield path
    remove(path)


def store_at(endpoint: str, **more: Any) -> Store:
    options = {"endpoint": endpoint, "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY, "region": REGION}
    known = {"allow_http": True, "timeout_seconds": 10, "retry_seconds": 5}
    return Store(f"s3://codehub/archives/{uuid4().hex}", options | known | more)


def port_of(server: S3Server) -> int:
    port = urlsplit(server.endpoint).port
    assert port is not None
    return port


def counts(server: S3Server, request: dict[str, Any]) -> bool:
    """Whether there is an archive that counts; if so, it is whole."""
    meta = server.request("GET", urlsplit(request["meta_url"]).path[1:])
    if meta.status_code == 404:
        return False
    whole = server.request("GET", urlsplit(request["archive_url"]).path[1:])
    assert meta.content == meta_of(whole.content)
    return True


def finish(server: S3Server, request: dict[str, Any]) -> dict[str, Any]:
    """Run it again; there is a whole archive, and nothing dangles."""
    again = {**request, "store": {**request["store"], "endpoint": server.endpoint}}
    run_here(again)
    assert counts(server, again)
    assert server.uploads() == []
    return again


def run_until(
    server: S3Server,
    request: dict[str, Any],
    *,
    sent: int = 0,
    received: int = 0,
    says: bytes = b"",
    act: Callable[["subprocess.Popen[bytes]"], None] = kill,
) -> tuple[Ended | None, int]:
    """Run the job over a wire, and act once when so much went over it or this was sent.

    The wire waits meanwhile. Acting is done in this thread: a server dies with the thread that started it.
    """
    due, acted = threading.Event(), threading.Event()

    def watch(wire: Wire, data: bytes) -> None:
        much = (sent and wire.bytes_sent >= sent) or (received and wire.bytes_received >= received)
        if not acted.is_set() and (much or (says and says in data)):
            due.set()
            acted.wait()
            wire.is_cut = act is kill  # what a killed job was about to send is not sent

    with Wire(port_of(server), sent=watch, received=watch) as wire:
        child = start({**request, "store": {**request["store"], "endpoint": wire.endpoint}})
        eventually(lambda: due.is_set() or child.poll() is not None, "the moment came", seconds=60)
        try:
            if due.is_set():
                act(child)
        finally:
            acted.set()
        child.wait(timeout=120)
        return (ended(child) if child.returncode >= 0 else None), int(due.is_set())


def test_a_nasty_home_through_s3(server: S3Server, home: Path, volume: Path, wanted: dict[bytes, Picture]) -> None:
    request = store_at(server.endpoint).request("archive", home)
    result = done(request)
    assert result["skipped"] is False
    assert done(request)["skipped"] is True
    assert counts(server, request)
    assert server.uploads() == []
    done(restored_from(request, volume))
    assert snapshot(volume) == wanted


SIZE = 2 * s3.PART + 2 * MIB


@pytest.mark.parametrize("share", first_of([0.5, 0.0, 0.3, 0.7, 0.98]))
def test_killed_while_uploading(share: float, server: S3Server, home: Path) -> None:
    request = store_at(server.endpoint).request("archive", home)
    got, acted = run_until(server, request, sent=int(SIZE * share) + 1)
    assert (got, acted) == (None, 1)
    assert not counts(server, request)
    finish(server, request)


@pytest.mark.parametrize(
    "says", first_of([b"<CompleteMultipartUpload", b"uploads", b"PUT /codehub/archives/", b".meta HTTP/1.1\r\n"])
)
def test_killed_at_a_request(says: bytes, server: S3Server, home: Path) -> None:
    """Also between the archive and its meta, which is the last request."""
    request = store_at(server.endpoint).request("archive", home)
    if says.startswith(b".meta"):
        says = b"PUT " + urlsplit(request["meta_url"]).path.encode().replace(b"/archives", b"/codehub/archives", 1)
    got, acted = run_until(server, request, says=says)
    assert (got, acted) == (None, 1)
    assert not counts(server, request)
    finish(server, request)


@pytest.mark.parametrize("share", first_of([0.5, 0.01, 0.95]))
def test_killed_while_downloading(
    share: float, server: S3Server, home: Path, volume: Path, wanted: dict[bytes, Picture]
) -> None:
    archived = store_at(server.endpoint).request("archive", home)
    run_here(archived)
    request = restored_from(archived, volume)
    got, acted = run_until(server, request, received=int(SIZE * share) + 1)
    assert (got, acted) == (None, 1)
    assert not run_here(request).skipped
    assert snapshot(volume) == wanted


@pytest.mark.parametrize("verb", first_of(["archive", "restore"]))
def test_the_server_dies_and_comes_back(
    verb: str, server: S3Server, home: Path, volume: Path, wanted: dict[bytes, Picture]
) -> None:
    """The job gets over it, or says that it was an outage, or that it failed; run again it is right."""
    request = store_at(server.endpoint).request("archive", home)
    if verb == "restore":
        run_here(request)
        request = restored_from(request, volume)
    sent, received = (SIZE // 2, 0) if verb == "archive" else (0, SIZE // 2)
    got, acted = run_until(server, request, sent=sent, received=received, act=lambda _: server.restart())
    assert acted == 1
    assert got is not None
    assert got.code in (Exit.DONE, Exit.RETRY, Exit.UNREACHABLE), got.lines
    if verb == "archive":
        assert counts(server, request) == (got.code == Exit.DONE)
        request = restored_from(finish(server, request), volume)
    run_here(request)
    assert snapshot(volume) == wanted


def test_connections_that_break_in_a_restore_cost_a_range_each(
    server: S3Server, home: Path, volume: Path, wanted: dict[bytes, Picture]
) -> None:
    """It does not begin again."""
    archived = store_at(server.endpoint).request("archive", home)
    run_here(archived)
    marks = [SIZE // 8 * eighth for eighth in range(1, 8)]

    def watch(wire: Wire, _: bytes) -> None:
        if marks and wire.bytes_received >= marks[0]:
            marks.pop(0)
            raise OSError("cut")

    request = restored_from(archived, volume)
    with Wire(port_of(server), received=watch) as wire:
        request["store"] = {**request["store"], "endpoint": wire.endpoint}
        run_here(request)  # one try
        assert marks == []
    assert snapshot(volume) == wanted


def test_a_slow_line_is_no_outage(server: S3Server, home: Path, volume: Path, wanted: dict[bytes, Picture]) -> None:
    """What counts is that it gets further, not how long a range takes."""
    archived = store_at(server.endpoint).request("archive", home)
    run_here(archived)

    def slowly(_wire: Wire, data: bytes) -> None:
        time.sleep(len(data) / (4 * MIB))

    request = restored_from(archived, volume)
    with Wire(port_of(server), received=slowly) as wire:
        request["store"] = {**request["store"], "endpoint": wire.endpoint, "timeout_seconds": 1, "retry_seconds": 1}
        run_here(request)
    assert snapshot(volume) == wanted


def test_an_outage_is_an_outage(server: S3Server, home: Path, volume: Path) -> None:
    request = store_at(server.endpoint, retry_seconds=1).request("archive", home)
    with server.down():
        assert run(request).code == Exit.UNREACHABLE
        assert run(restored_from(request, volume)).code == Exit.UNREACHABLE


def test_wrong_credentials_and_a_missing_bucket_are_no_loss(server: S3Server, volume: Path) -> None:
    wrong = store_at(server.endpoint, secret_access_key="wrong")
    elsewhere = Store("s3://no-such-bucket/x", store_at(server.endpoint).options)
    for store in (wrong, elsewhere):
        for verb in ("archive", "restore"):
            with pytest.raises(StoreUnreachable):
                run_here(store.request(verb, volume))


def test_a_home_that_fails_leaves_nothing_behind(server: S3Server, home: Path) -> None:
    """The upload is aborted when the reading side fails in the middle."""
    request = store_at(server.endpoint).request("archive", home)

    def feed(write: Callable[[memoryview], object]) -> None:
        for _ in range(40):
            write(memoryview(os.urandom(MIB)))
        raise TryAgain("changed")

    with pytest.raises(TryAgain, match="changed"):
        archive.store(*open_pair(parse_request(encoded(request))), feed, Tally())
    assert server.uploads() == []
    assert not counts(server, request)
