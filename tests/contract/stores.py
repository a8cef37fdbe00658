"""Stores to run the archive contract against, with what a test must do to them behind their back."""

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from codehub.drivers.archives import ArchiveStore
from codehub.drivers.base import Archives
from codehub.drivers.memory import MemoryWorld
from codehub.model.gc import FoundArchive
from codehub.model.names import archive_key
from codehub.model.workspace import ArchiveKey, OpId, WorkspaceId
from tests.contract.s3 import S3Server

HARM = ("flipped", "truncated", "garbage meta", "empty meta", "wrong size")
PREFIX = "some/archives/"


def new_key() -> ArchiveKey:
    return archive_key(WorkspaceId(uuid4()), OpId(uuid4()))


def meta_of(data: bytes) -> bytes:
    return f"sha256:{hashlib.sha256(data).hexdigest()}\nsize:{len(data)}\n".encode()


async def listed(archives: Archives) -> dict[str, FoundArchive]:
    return {found.key: found async for page in archives.found() for found in page}


class StoreUnderTest(Protocol):
    """One store and a hand that reaches into it."""

    @property
    def archives(self) -> Archives: ...

    async def put_archive(self, key: ArchiveKey) -> None:
        """A complete, sound archive, as a job would leave it."""
        ...

    async def harm(self, key: ArchiveKey, how: str) -> None:
        """Damage it in one of the ways of HARM."""
        ...

    async def lose(self, key: ArchiveKey, what: str) -> None:
        """Take the "object" or the "meta" away."""
        ...

    async def same(self, one: ArchiveKey, other: ArchiveKey) -> bool:
        """Whether both hold the same."""
        ...


class RawStore:
    """What folder and bucket have in common: objects that can be written directly."""

    def __init__(self, archives: ArchiveStore) -> None:
        self.archives = archives

    async def write(self, name: str, data: bytes) -> None:
        """An object by its name under the prefix."""
        raise NotImplementedError

    async def read(self, name: str) -> bytes:
        raise NotImplementedError

    async def remove(self, name: str) -> None:
        raise NotImplementedError

    async def put_archive(self, key: ArchiveKey, data: bytes | None = None) -> None:
        data = os.urandom(100_000) if data is None else data
        await self.write(key, data)
        await self.write(f"{key}.meta", meta_of(data))

    async def harm(self, key: ArchiveKey, how: str) -> None:
        data = await self.read(key)
        changed: Mapping[str, tuple[str, bytes]] = {
            "flipped": (key, data[:500] + bytes([data[500] ^ 1]) + data[501:]),
            "truncated": (key, data[:-1]),
            "garbage meta": (f"{key}.meta", b"\xff\x00 not a meta" * 100),
            "empty meta": (f"{key}.meta", b""),
            "wrong size": (f"{key}.meta", meta_of(data).replace(b"size:", b"size:1")),
        }
        await self.write(*changed[how])

    async def lose(self, key: ArchiveKey, what: str) -> None:
        await self.remove(key if what == "object" else f"{key}.meta")

    async def same(self, one: ArchiveKey, other: ArchiveKey) -> bool:
        return await self.read(one) == await self.read(other)


class FolderStore(RawStore):
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        super().__init__(ArchiveStore.open(root.as_uri(), prefix=PREFIX))
        self.root = root

    async def write(self, name: str, data: bytes) -> None:
        path = self.root / PREFIX / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    async def read(self, name: str) -> bytes:
        return (self.root / PREFIX / name).read_bytes()

    async def remove(self, name: str) -> None:
        (self.root / PREFIX / name).unlink()


class S3Store(RawStore):
    """A bucket of a real server, under a prefix of its own."""

    def __init__(self, server: S3Server) -> None:
        self.prefix = f"{uuid4()}/{PREFIX}"
        super().__init__(ArchiveStore.open(server.url, prefix=self.prefix, s3=server.options))
        self.server = server

    async def _ask(self, method: str, name: str, data: bytes = b"") -> bytes:
        answer = await asyncio.to_thread(self.server.request, method, self.prefix + name, None, data)
        return answer.raise_for_status().content

    async def write(self, name: str, data: bytes) -> None:
        await self._ask("PUT", name, data)

    async def read(self, name: str) -> bytes:
        return await self._ask("GET", name)

    async def remove(self, name: str) -> None:
        await self._ask("DELETE", name)


class MemoryStore:
    """The fake."""

    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.archives = self.world.archives

    async def put_archive(self, key: ArchiveKey) -> None:
        self.world.put_archive(key, {"file": os.urandom(8)})

    async def harm(self, key: ArchiveKey, how: str) -> None:
        self.world.harm_archive(key, at_a_glance=how != "flipped")

    async def lose(self, key: ArchiveKey, what: str) -> None:
        self.world.lose_archive(key, what)

    async def same(self, one: ArchiveKey, other: ArchiveKey) -> bool:
        return self.world.stored[one].home == self.world.stored[other].home


STORES: Sequence[str] = ("memory", "folder", "s3")
