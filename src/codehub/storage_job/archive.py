"""The verbs `archive` and `empty`: home → tar → zstd → sha256 → store in one pass, the meta last.

An archive counts from the moment its meta is there. The meta is written only after the whole home was read, the whole
archive was taken by the store, and the store says that it is as long as what was sent.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator

import zstandard

from .handoff import Handoff, OtherSideGone
from .pack import Packer
from .protocol import Corrupted, Outcome, Request, Tally, TryAgain
from .stores import META_BYTES, Meta, Stored, open_pair, parse_meta
from .tarformat import END
from .volume import opened_volume

LEVEL = 3
JOB = 2 << 20  # what one core compresses at a time: archives are 1 % larger than by default, memory a third
MOST_CORES = 8
PIECE = 1 << 20
QUEUED = 16  # pieces on their way to the store

Feed = Callable[[Callable[[memoryview], object]], object]


def archive(request: Request, tally: Tally) -> Outcome:
    """Nothing to do if a complete archive of this operation is there already."""
    target, meta = open_pair(request)
    if known := complete(target, meta):
        return Outcome(skipped=True, sha256=known.sha256, size=known.size)
    outcome = Outcome()
    with opened_volume(request.directory) as root:

        def feed(write: Callable[[memoryview], object]) -> None:
            packer = Packer(root, write, tally)
            packer.pack()
            outcome.left_out = packer.left_out

        made = store(target, meta, feed, tally)
    outcome.sha256, outcome.size = made.sha256, made.size
    return outcome


def empty(request: Request, tally: Tally) -> Outcome:
    """The archive of an empty home: no entry, not even for the root, whose owner and mode are the driver's choice."""
    target, meta = open_pair(request)
    made = complete(target, meta)
    skipped = made is not None
    made = made or store(target, meta, lambda write: write(memoryview(END)), tally)
    return Outcome(skipped=skipped, sha256=made.sha256, size=made.size)


def complete(target: Stored, meta: Stored) -> Meta | None:
    """The meta of an archive that is there as a whole. One that is damaged or without its object is made again."""
    text = meta.content(META_BYTES)
    if text is None:
        return None
    try:
        return parse_meta(text, target.size())
    except Corrupted:
        return None


def store(target: Stored, meta: Stored, feed: Feed, tally: Tally) -> Meta:
    """Compress what `feed` writes into the target, and then write the meta."""
    upload = Upload(target, tally)
    try:
        squeeze(feed, upload.put)
        made = upload.end()
    except OtherSideGone:
        upload.give_up()
        raise upload.error or TryAgain("the upload ended early") from None
    except BaseException:
        upload.give_up()
        raise
    if target.size() != made.size:
        raise TryAgain("the store does not hold what was sent")
    meta.write([made.text()], tally.moved)
    return made


def squeeze(feed: Feed, put: Callable[[memoryview], None]) -> None:
    """Compress with every core; jobs of a fixed size, because by default memory grows with the number of cores."""
    cores = min(len(os.sched_getaffinity(0)), MOST_CORES)
    settings = zstandard.ZstdCompressionParameters.from_level(LEVEL, threads=cores, job_size=JOB, write_checksum=1)
    compressor = zstandard.ZstdCompressor(compression_params=settings).compressobj()

    def pass_on(chunk: bytes) -> None:
        view = memoryview(chunk)
        for start in range(0, len(view), PIECE):
            put(view[start : start + PIECE])

    feed(lambda data: pass_on(compressor.compress(data)))
    pass_on(compressor.flush())


class Upload:
    """The store's side, in a thread of its own: hashes, counts and hands over each chunk."""

    def __init__(self, target: Stored, tally: Tally) -> None:
        self.error: BaseException | None = None
        self._target = target
        self._tally = tally
        self._chunks: Handoff[memoryview] = Handoff(QUEUED)
        self._hash = hashlib.sha256()
        self._size = 0
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)
        self._thread.start()

    def put(self, chunk: memoryview) -> None:
        self._chunks.put(chunk)

    def end(self) -> Meta:
        """All was put: wait until the store has it."""
        self._chunks.end()
        self._thread.join()
        if self.error:
            raise self.error
        return Meta(self._hash.hexdigest(), self._size)

    def give_up(self) -> None:
        """Something failed: the store must not keep anything of it."""
        self._chunks.fail()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._target.write(self._hashed(), self._tally.moved)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for it
            self.error = error
        finally:
            self._chunks.leave()

    def _hashed(self) -> Iterator[memoryview]:
        for chunk in self._chunks:
            self._hash.update(chunk)
            self._size += len(chunk)
            yield chunk
