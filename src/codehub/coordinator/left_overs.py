"""What belongs to no workspace, noted in the database for the processes that do not lead.

Noted after a tick, when the number is another one than was noted last; never before every backend could be looked at
once, since not having looked is not having found nothing. Of one that is out later, what there was counts.
"""

from collections.abc import Awaitable, Callable, Collection

from codehub.coordinator.controller import Controller
from codehub.model.workspace import InstanceBackend


class LeftOvers:
    """A controller whose ticks are followed by a note of what it found that belongs to nobody."""

    def __init__(
        self, controller: Controller, backends: Collection[InstanceBackend], note: Callable[[int], Awaitable[None]]
    ) -> None:
        self._controller = controller
        self._backends = {str(name) for name in backends}
        self._note = note
        self._noted: int | None = None

    async def tick(self) -> bool:
        more = await self._controller.tick()
        count = len(self._controller.unknown)
        is_known = self._noted is not None or not self._backends & self._controller.outages.keys()
        if is_known and count != self._noted:
            await self._note(count)
            self._noted = count
        return more
