"""The leader's mark in the archive store, and its word on whether anything may be deleted there (ADR 25).

It is renewed when a leadership begins and every quarter of an hour: two that think the store theirs meet long before an
orphan's time has come. It says too how many commits the database had by then, which outlives Redis and a snapshot of
both servers. A store that does not answer is an outage, which others tell; whoever wants to delete must ask it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Protocol
from uuid import UUID, uuid4

import structlog

from codehub.coordinator.ports import Leadership
from codehub.errors import DriverError
from codehub.model.store_owner import Ownership, StoreClaim, StoreMarker, is_to_be_disputed, ownership, refusal

log = structlog.get_logger(__name__)

PERIOD_SECONDS = 900.0
AGAIN_SECONDS = 5.0  # while it is not ours, or could not be looked at
_BEGIN_SECONDS = 5.0  # nobody is served before


class OwnerRecords(Protocol):
    """What the database remembers of the store's marker."""

    @property
    def newest_commit(self) -> int: ...

    async def now(self) -> datetime: ...

    async def store_claim(self) -> StoreClaim: ...

    async def add_store_token(self, epoch: int, token: UUID, in_store: UUID | None) -> bool:
        """Whether it is remembered, beside the one in the store: not if another leads by now."""
        ...

    async def note_store_trouble(self, epoch: int, trouble: str | None) -> None:
        """For those who do not lead."""
        ...


class Markers(Protocol):
    """The store's part."""

    async def marker(self) -> StoreMarker | None: ...

    async def leave_marker(self, marker: StoreMarker) -> None: ...


class HearsMarker(Protocol):
    """Whoever compares what the marker says of commits."""

    async def hear(self, marker: StoreMarker | None) -> None: ...


class StoreOwner:
    """Of one leadership."""

    def __init__(
        self,
        records: OwnerRecords,
        markers: Markers,
        leadership: Leadership,
        commits: HearsMarker,
        *,
        holder: str,
        new_token: Callable[[], UUID] = uuid4,
    ) -> None:
        self._records = records
        self._markers = markers
        self._leadership = leadership
        self._commits = commits
        self._holder = holder
        self._new_token = new_token
        self._told: str | None = None
        self._has_told = False
        self._is_marked = False
        self._token: UUID | None = None  # remembered, and not known to be in the store yet
        self.trouble: str | None = None  # for /readyz

    async def begin(self) -> None:
        """Before anything is decided; a store that is out, or slow, is asked again later."""
        try:
            async with asyncio.timeout(_BEGIN_SECONDS):
                await self.run_once()
        except TimeoutError:
            log.warning("the archive store did not say in time whose it is; it will be asked again")

    def period(self) -> float:
        """Seconds until the next renewal."""
        return PERIOD_SECONDS if self._is_marked else AGAIN_SECONDS

    async def run_once(self) -> None:
        self._is_marked = False
        try:
            marker, claim = await self._look()
            whose = ownership(marker, claim)
            if marker is not None and is_to_be_disputed(marker, claim):
                await self._markers.leave_marker(replace(marker, is_disputed=True))
            elif whose in (Ownership.FREE, Ownership.OURS):
                await self._renew(marker, claim)
        except DriverError as error:
            log.warning("the archive store's owner could not be looked up; it will be", cause=str(error))

    async def refusal(self) -> str | None:
        """Why nothing may be deleted now; raises DriverError when the store does not answer."""
        await self._look()
        return self.trouble

    async def _look(self) -> tuple[StoreMarker | None, StoreClaim]:
        marker = await self._markers.marker()
        claim = await self._records.store_claim()
        await self._commits.hear(marker)
        self.trouble = refusal(marker, claim)
        if self.trouble != self._told or not self._has_told:
            await self._records.note_store_trouble(self._leadership.epoch, self.trouble)
            self._told, self._has_told = self.trouble, True
            if self.trouble is not None:
                log.error("the archive store has another owner; nothing is deleted there", why=self.trouble)
        return marker, claim

    async def _renew(self, marker: StoreMarker | None, claim: StoreClaim) -> None:
        """Remembered first: whatever dies in between leaves a marker that is known.

        A store that refuses writes is asked with the same token again, so that no other one is forgotten for it.
        """
        token = self._token = self._token or self._new_token()
        if not await self._records.add_store_token(self._leadership.epoch, token, marker.token if marker else None):
            return
        await self._markers.leave_marker(
            StoreMarker(
                token=token,
                database=claim.database,
                holder=self._holder,
                commits=self._records.newest_commit,
                written_at=await self._records.now(),
            )
        )
        self._token = None
        self._is_marked = True
