"""What a process finds that serves people: what it can see without secrets and without touching anything.

The disks that it writes to, and the addresses that browsers use. Each look has an end; one that hangs (a disk that is
away, a name server that says nothing) is not begun a second time beside itself.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from codehub.services.doctor import codes, public
from codehub.services.doctor.finding import Finding, warning
from codehub.services.doctor.room import rooms

DISK_SECONDS = 2.0
PUBLIC_SECONDS = 6.0
_QUESTION_SECONDS = 2.0


class Aside:
    """Does what blocks in a thread of its own, one at a time. Nobody waits for it at the end, either."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    async def do(self, work: Callable[[], list[Finding]], seconds: float) -> list[Finding]:
        """What it found. TimeoutError when that takes longer, or when the last one still hangs."""
        if self._thread is not None and self._thread.is_alive():
            raise TimeoutError
        answer: Future[list[Finding]] = Future()
        answer.set_running_or_notify_cancel()  # from here on nobody takes it back

        def run() -> None:
            try:
                answer.set_result(work())
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                answer.set_exception(error)

        self._thread = threading.Thread(target=run, name="doctor", daemon=True)
        self._thread.start()
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(answer)


class Surroundings:
    """Disks and public addresses, as the settings name them."""

    def __init__(self, folders: Sequence[Path], public_url: str | None, workspace_host: str | None) -> None:
        self._folders, self._public_url, self._workspace_host = folders, public_url, workspace_host
        self._disks, self._addresses = Aside(), Aside()

    async def look(self) -> list[Finding]:
        disks, addresses = await asyncio.gather(self._look_at_disks(), self._look_at_addresses())
        return [*disks, *addresses]

    async def _look_at_disks(self) -> list[Finding]:
        try:
            return await self._disks.do(lambda: rooms(self._folders), DISK_SECONDS)
        except TimeoutError:
            why = f"no answer within {DISK_SECONDS:g} s"
        except OSError as error:
            why = error.strerror or str(error)
        return [warning(codes.DISK, f"A disk cannot be looked at: {why}.", "See whether it is mounted and well.")]

    async def _look_at_addresses(self) -> list[Finding]:
        def look() -> list[Finding]:
            return public.look(self._public_url, self._workspace_host, seconds=_QUESTION_SECONDS)

        try:
            return await self._addresses.do(look, PUBLIC_SECONDS)
        except TimeoutError:
            told = f"{self._public_url} could not be looked at within {PUBLIC_SECONDS:g} s."
            return [warning(codes.PUBLIC, told, "See whether names are resolved on this machine.")]
