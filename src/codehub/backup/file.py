"""A backup's file: whole or not there, and never believed unless its checksum is right.

It holds password hashes and everything people wrote about their workspaces, so it is for its owner's eyes only.
"""

import errno
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from codehub.embedded.datadir import sync_folder
from codehub.errors import StartError

FORMAT = 1
MANIFEST, DUMP = "manifest.json", "database.dump"
_MANIFEST_BYTES = 256 << 20
_BLOCK = 1 << 20
# What file systems say that know no second name of a file: memory sticks, network shares.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class ArchiveNeeded:
    """An archive that a row refers to; `in_store` is None when the store could not be asked."""

    workspace: str
    key: str
    in_store: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the file says about itself."""

    format: int
    codehub: str
    schema_version: str
    schema_floor: str | None = None  # the oldest version whose code runs on this schema; older backups do not say
    namespace: str
    made_at: str  # the database's time of the snapshot
    epoch: int
    server_version: int
    installation: str | None
    archive_store: str
    counts: Mapping[str, int]
    archives: Sequence[ArchiveNeeded]
    dump_sha256: str
    dump_bytes: int

    @property
    def moment(self) -> datetime:
        return datetime.fromisoformat(self.made_at)


def check_free(path: Path) -> None:
    """Raises StartError unless a new file can be made there."""
    if path.exists() or path.is_symlink():
        raise StartError(f"{path} is there already.", "Choose another name, or move it away.")
    if not path.parent.is_dir():
        raise StartError(f"There is no folder {path.parent}.", "Make it first.")


@contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """A folder beside the file to be, for its owner only; gone afterwards."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise StartError(f"{path.parent} cannot be written: {error.strerror}.", "Choose another folder.") from error
    with folder as name:
        yield Path(name)


def checksum(path: Path) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def write(path: Path, manifest: Manifest, dump: Path, *, link: Callable[[Path, Path], None] = os.link) -> None:
    """Complete and on the disk, or not there. `link` gives a file a second name, where the file system knows that."""
    draft = dump.with_name("backup.tar")
    text = json.dumps(asdict(manifest), indent=1).encode()
    try:
        with draft.open("xb") as out:
            os.fchmod(out.fileno(), 0o600)
            with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
                head = tarfile.TarInfo(MANIFEST)
                head.size, head.mode, head.mtime = len(text), 0o600, int(manifest.moment.timestamp())
                tar.addfile(head, io.BytesIO(text))
                body = tarfile.TarInfo(DUMP)
                body.size, body.mode, body.mtime = manifest.dump_bytes, 0o600, head.mtime
                with dump.open("rb") as content:
                    tar.addfile(body, content)
            out.flush()
            os.fsync(out.fileno())
        _put(draft, path, link)
        sync_folder(path.parent)
    except FileExistsError:
        raise StartError(f"{path} is there already.", "Choose another name, or move it away.") from None
    except OSError as error:
        raise StartError(
            f"{path} cannot be written: {error.strerror or error}.", "Make room, or choose another folder."
        ) from error


def check(path: Path) -> None:
    """Raises StartError at once for what is no backup: before anything is started or asked for it."""
    try:
        with path.open("rb") as file, tarfile.open(fileobj=file, mode="r:") as tar:
            _manifest_in(tar, path)
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (tarfile.TarError, EOFError) as error:
        raise _damaged(path, str(error)) from None


@contextmanager
def opened(path: Path) -> Iterator[tuple[Manifest, IO[bytes]]]:
    """The manifest and the dump, whose checksum was found right before anything else is done."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            tar = stack.enter_context(tarfile.open(fileobj=file, mode="r:"))
            manifest = _manifest_in(tar, path)
            member = tar.next()
            dump = tar.extractfile(member) if member is not None and member.name == DUMP and member.isreg() else None
            if member is None or dump is None:
                raise _damaged(path, f"it holds no {DUMP}")
            _verify(dump, manifest, path)
            file.seek(member.offset_data)
        except OSError as error:
            raise StartError(f"{path} cannot be read: {error.strerror or error}.") from error
        except (tarfile.TarError, EOFError) as error:
            raise _damaged(path, str(error)) from None
        yield manifest, file


def _manifest_in(tar: tarfile.TarFile, path: Path) -> Manifest:
    member = tar.next()
    content = tar.extractfile(member) if member is not None and member.name == MANIFEST else None
    if member is None or content is None or member.size > _MANIFEST_BYTES:
        raise StartError(f"{path} is not a backup of CodeHub.", "Name a file that `codehub backup` has made.")
    try:
        found: dict[str, Any] = json.loads(content.read())
        if found["format"] != FORMAT:
            raise StartError(f"{path} was made by a newer CodeHub ({found['codehub']}).", "Restore it with that one.")
        needed = [ArchiveNeeded(**_known(ArchiveNeeded, one)) for one in found.pop("archives")]
        manifest = Manifest(**_known(Manifest, found), archives=needed)
        _check(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _damaged(path, f"{MANIFEST} cannot be understood") from None
    return manifest


def _check(manifest: Manifest) -> None:
    """ValueError for what a restore could not work with: it must be found before anything is changed."""
    texts = (manifest.schema_version, manifest.namespace, manifest.dump_sha256)
    numbers = (manifest.dump_bytes, manifest.server_version, *manifest.counts.values())
    if not all(isinstance(each, str) for each in texts) or not all(type(each) is int for each in numbers):
        raise ValueError
    if manifest.moment.tzinfo is None:
        raise ValueError


def _known(kind: type[Manifest | ArchiveNeeded], found: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a newer CodeHub says beyond it."""
    return {field.name: found[field.name] for field in fields(kind) if field.name in found}


def _verify(dump: IO[bytes], manifest: Manifest, path: Path) -> None:
    digest, size = hashlib.sha256(), 0
    while block := dump.read(_BLOCK):
        digest.update(block)
        size += len(block)
    if (digest.hexdigest(), size) != (manifest.dump_sha256, manifest.dump_bytes):
        raise _damaged(path, "its checksum is wrong")


def _damaged(path: Path, why: str) -> StartError:
    return StartError(f"The backup {path} is damaged: {why}.", "Use another backup; nothing was changed.")


def _put(draft: Path, path: Path, link: Callable[[Path, Path], None]) -> None:
    """Give it its name; FileExistsError where something has that name."""
    try:
        link(draft, path)  # unlike a rename it replaces nothing
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        draft.replace(path)
