"""Remembers that the self-check passed, so that a start with the same versions and settings need not repeat it.

What it was about is one digest: CodeHub's own code, the libraries of the storage job, Python, the sandbox, the kernel,
the user and what it may do, the settings, the store with its credentials, the IDEs and the places of all of them.
Whatever changes there has the check made again. While it has not passed it is repeated.
"""

import asyncio
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import codehub
from codehub.drivers.ide import AllowList
from codehub.drivers.process.job_code import library_files
from codehub.drivers.process.layout import file_lock, read_json, write_json
from codehub.drivers.process.machine import Options
from codehub.drivers.process.programs import READY
from codehub.errors import CodeHubError, StartError, Unreachable

_LOCK_SECONDS = 20.0
_POLL_SECONDS = 0.05
_PARTS = ("drivers/process", "storage_job")  # of our package: what runs or launches programs of workspaces


class SelfCheck:
    """Made at most once for each digest; `path` is where that is kept."""

    def __init__(self, check: Callable[[], Awaitable[None]], digest: Callable[[], str], path: Path) -> None:
        self._check = check
        self._digest = digest
        self._path = path
        self._trouble: CodeHubError | None = None  # what the last attempt of this process met
        self._is_proven = False  # by this process, or before it for the same digest

    @property
    def is_due(self) -> bool:
        return self._passed().get("digest") != self._digest()

    async def ensure(self) -> None:
        """Make it if it is due. Raises StartError with what does not work.

        What is out or short of room is waited for like any outage, and where it has passed before, people have
        workspaces: then what fails is a warning, in `sentence`, and `repeat` tries again.
        """
        try:
            await self._make_if_due()
        except Unreachable as error:
            self._trouble = error
        except CodeHubError as error:
            if "at" not in self._passed():
                raise
            self._trouble = error

    async def repeat(self) -> None:
        """Make it again if `ensure` met trouble, unless another process has passed it since. `sentence` tells."""
        if self._trouble is None:
            return
        try:
            await self._make_if_due()
        except CodeHubError as error:
            self._trouble = error

    async def make(self) -> None:
        """Whether or not it is due. Raises StartError, or Unreachable while something is out."""
        async with self._alone():
            await self._make()

    def sentence(self) -> str:
        at = self._passed().get("at")
        if self._trouble is None and (self._is_proven or not self.is_due):
            return f"The self-check passed ({at}): a program ran as a workspace does; a home was archived and restored."
        before = f" with these versions and settings (with others it did: {at})" if at is not None else " yet"
        return f"WARNING: The self-check has not passed{before}: {self._trouble or 'it has not been made.'}"

    async def _make_if_due(self) -> None:
        if self.is_due:
            async with self._alone():
                if self.is_due:  # whom we waited for may have made it
                    await self._make()
        self._trouble, self._is_proven = None, True

    async def _make(self) -> None:
        digest = self._digest()
        try:
            await self._check()
            write_json(self._path, {"digest": digest, "at": datetime.now(UTC).isoformat(timespec="seconds")})
        except OSError as error:
            raise StartError(f"{error.filename or self._path} cannot be used: {error.strerror}.") from error

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Two processes on one data directory share the check's folder. Who is stopped while it waits holds nothing."""
        until = time.monotonic() + _LOCK_SECONDS
        with ExitStack() as stack:
            while not self._locked(stack, is_last=time.monotonic() > until):  # noqa: ASYNC110 - another process has it
                await asyncio.sleep(_POLL_SECONDS)
            yield

    def _locked(self, stack: ExitStack, *, is_last: bool) -> bool:
        try:
            stack.enter_context(file_lock(self._path.with_suffix(".lock"), seconds=0))
        except Unreachable:
            if is_last:
                raise
            return False
        return True

    def _passed(self) -> dict[str, str]:
        try:
            return read_json(self._path) or {}
        except Unreachable:
            return {}


def digest_of(options: Options, allowed: AllowList, ides: Path, bwrap: str | None, store: str) -> str:
    """Of everything that the check depends on. `store` names the archive store, and what opens it."""
    package = Path(codehub.__file__).parent
    content = {
        "version": codehub.__version__,
        "libraries": [_file(Path(file)) for file in library_files()],
        "code": [_file(path) for part in _PARTS for path in sorted((package / part).rglob("*.py"))],
        "python": [sys.version, sys.base_prefix, sys.executable],
        "sandbox": _file(Path(bwrap)) if bwrap is not None else None,
        "machine": [platform.release(), os.geteuid(), *_rights(), *_disk(options.root)],
        "options": repr(options),
        "store": store,
        "ides": list(_installed(allowed, ides)),
    }
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _installed(allowed: AllowList, ides: Path) -> Iterator[list[object]]:
    for name in allowed.ides:
        if (ides / name / READY).exists():
            yield _file(ides / name / READY)


def _file(path: Path) -> list[object]:
    """Enough to notice a change: reading them all would take longer than the rest of a start."""
    try:
        found = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), found.st_size, found.st_mtime_ns]


def _rights() -> list[str]:
    """Our capabilities, and whether more can be had: a container may be started with others the next time."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return [line for line in lines if line.startswith(("Cap", "NoNewPrivs", "Seccomp:"))]


def _disk(path: Path) -> list[int]:
    """Of the nearest folder that is there: another disk is another place to live."""
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    return [there.stat().st_dev, os.statvfs(there).f_flag]
