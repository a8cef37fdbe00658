"""The verb `restore`: store → sha256 → zstd → volume in one pass, into a volume that is emptied first.

Nothing is believed of the volume until size and checksum agree with the meta and everything is on the disk; then the
op_id is noted on it. Killed before that, the next run begins anew; after that, it has nothing to do.
"""

import ctypes
import hashlib
import os
import threading
from typing import IO, cast

import zstandard

from .emptying import empty_volume
from .handoff import Handoff, OtherSideGone
from .makers import SLAB
from .marker import Marker
from .protocol import Corrupted, JobFailed, Outcome, Request, Tally, TryAgain
from .stores import META_BYTES, Meta, Stored, open_pair, parse_meta
from .unpack import Unpacker
from .volume import opened_volume

QUEUED = 3  # chunks on their way from the store
WINDOW = 64 << 20  # memory that an archive may make the decompressor use


def restore(request: Request, tally: Tally) -> Outcome:
    """Make the volume exactly what the archive holds."""
    source, meta = open_pair(request)
    with opened_volume(request.directory) as root:
        marker = Marker(root, request.marker_path)
        if marker.read() == request.op_id:
            return Outcome(skipped=True, restore_marker=request.archive_key)
        known = read_meta(source, meta)
        marker.clear()
        empty_volume(root)
        dropped = unpack(source, known, root, request, tally)
        sync_file_system(root)
        marker.write(request.op_id)
    return Outcome(sha256=known.sha256, size=known.size, dropped=dropped, restore_marker=request.archive_key)


def read_meta(source: Stored, meta: Stored) -> Meta:
    text = meta.content(META_BYTES)
    if text is None:
        # The store may be another one just now: whether this archive is lost is told by who looks at the others too.
        raise TryAgain("the archive has no meta: it is not complete, or not there")
    return parse_meta(text, source.size())


def unpack(source: Stored, known: Meta, root: int, request: Request, tally: Tally) -> int:
    """Unpack all of the source, and only then believe it; how many extended attributes the volume would not take."""
    unpacker = Unpacker(root, request.limits, tally)
    download = Download(source, tally)
    try:
        fill(unpacker, download)
        unpacker.finish()
        download.drain()
    except (zstandard.ZstdError, OtherSideGone) as error:
        download.stop()
        if download.error:
            raise download.error from None
        raise Corrupted(f"the archive cannot be decompressed: {error}") from None
    except BaseException:
        download.stop()
        raise
    finally:
        unpacker.close()
    if (download.sha256, download.size) != (known.sha256, known.size):
        raise Corrupted("the archive is not what its meta says: the checksum is wrong")
    return unpacker.dropped


def fill(unpacker: Unpacker, download: "Download") -> None:
    """Slab after slab, each full but the last."""
    # Reading across frames: every byte of the archive must belong to one, or it is damaged.
    stream = zstandard.ZstdDecompressor(max_window_size=WINDOW).stream_reader(
        cast("IO[bytes]", download), read_size=SLAB, read_across_frames=True
    )
    size = SLAB
    while size == SLAB:
        slab, view = unpacker.slab()
        size = 0
        while size < SLAB and (got := stream.readinto(view[size:])):
            size += got
        unpacker.take(slab, view[:size])


class Download:
    """The store's side, in a thread of its own: fetches and hashes; read like a file by the decompressor."""

    def __init__(self, source: Stored, tally: Tally) -> None:
        self.error: BaseException | None = None
        self.size = 0
        self._source = source
        self._tally = tally
        self._hash = hashlib.sha256()
        self._chunks: Handoff[bytes] = Handoff(QUEUED)
        self._coming = iter(self._chunks)
        self._thread = threading.Thread(target=self._run, name="download", daemon=True)
        self._thread.start()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def read(self, _size: int = -1) -> bytes:
        return next(self._coming, b"")

    def drain(self) -> None:
        """To the end, for the checksum."""
        for _ in self._coming:
            pass
        self._thread.join()

    def stop(self) -> None:
        self._chunks.leave()
        self._thread.join()

    def _run(self) -> None:
        try:
            for chunk in self._source.chunks():
                self._hash.update(chunk)
                self.size += len(chunk)
                self._tally.moved(len(chunk))
                self._chunks.put(chunk)
            self._chunks.end()
        except OtherSideGone:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for it
            self.error = error
            self._chunks.fail()


def sync_file_system(fd: int) -> None:
    """Everything that was written to the volume's file system."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        os.sync()
    elif libc.syncfs(fd) != 0:
        raise JobFailed(f"the volume could not be synced: {os.strerror(ctypes.get_errno())}")
