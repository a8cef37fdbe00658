"""What a process finds that serves people: what it can see without secrets and without touching anything.

The disks that it writes to, and the addresses that browsers use. Each look has an end of its own, so that one that
hangs (a disk that is away, a name server that says nothing) takes nothing from what the others found; and it is not
begun a second time beside itself.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import structlog

from codehub.services.doctor import codes, public, websockets
from codehub.services.doctor.codes import Code
from codehub.services.doctor.finding import Finding, warning
from codehub.services.doctor.room import rooms

log = structlog.get_logger(__name__)

DISK_SECONDS = 2.0
ADDRESS_SECONDS = 5.0  # of each; two addresses of a name that say nothing take their time one after the other
_WAIT_SECONDS = 2.0


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

    def __init__(
        self,
        folders: Sequence[Path],
        public_url: str | None,
        workspace_host: str | None,
        *,
        reserve: int | None = None,
    ) -> None:
        self._reserve = reserve
        self._folders, self._public_url, self._workspace_host = folders, public_url, workspace_host
        self._disks = Aside()
        self._addresses = {code: Aside() for code in (codes.PUBLIC, codes.WILDCARD, codes.WEBSOCKET)}

    async def look(self) -> list[Finding]:
        disks, addresses = await asyncio.gather(self._look_at_disks(), self._look_at_addresses())
        return [*disks, *addresses]

    async def _look_at_disks(self) -> list[Finding]:
        try:
            return await self._disks.do(lambda: rooms(self._folders, reserve=self._reserve), DISK_SECONDS)
        except TimeoutError:
            why = f"no answer within {DISK_SECONDS:g} s"
        except OSError as error:
            why = error.strerror or str(error)
        return [warning(codes.DISK, f"A disk cannot be looked at: {why}.", "See whether it is mounted and well.")]

    async def _look_at_addresses(self) -> list[Finding]:
        asked = public.questions(self._public_url, self._workspace_host, seconds=_WAIT_SECONDS)
        found = await asyncio.gather(*(self._ask(one.code, one.origin, one.ask) for one in asked))
        answering = public.origins_answering(asked, found)
        if not answering:
            return found
        handshakes = partial(websockets.tried, answering, seconds=_WAIT_SECONDS)
        return [*found, await self._ask(codes.WEBSOCKET, " and ".join(answering), handshakes)]

    async def _ask(self, code: Code, what: str, question: Callable[[], Finding]) -> Finding:
        """Whatever happens, it is a finding: an administrator's page never breaks for what it would tell."""
        try:
            (found,) = await self._addresses[code].do(lambda: [question()], ADDRESS_SECONDS)
        except TimeoutError:
            told = f"{what} could not be looked at within {ADDRESS_SECONDS:g} s."
            return warning(code, told, "See whether its name is resolved on this machine, and its address reached.")
        except Exception as error:
            log.exception("an address could not be looked at", check=code.check)
            return warning(code, f"{what} could not be looked at: {type(error).__name__}.", "The log says more.")
        return found
