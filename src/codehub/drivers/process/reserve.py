"""What is kept free of the disk that homes are on, and whether there is enough to start something."""

import os
from dataclasses import dataclass

from codehub.drivers.process.layout import Layout
from codehub.errors import Unreachable
from codehub.model.disk import DiskSpace


@dataclass(frozen=True, slots=True)
class Reserve:
    """What is kept free there: `least` bytes, or the usual share."""

    layout: Layout
    least: int | None

    def check(self) -> None:
        """Before something is started that writes there. Unreachable, which is waited for and never counted."""
        shortage = self.space().shortage(self.least)
        if shortage is not None:
            told = f"{shortage.message} Nothing is started until there is room."
            raise Unreachable(told, "Delete or archive workspaces.")

    def space(self) -> DiskSpace:
        try:
            return DiskSpace.of(os.statvfs(self.layout.homes))
        except OSError as error:
            raise Unreachable(f"{self.layout.homes} cannot be looked at: {error.strerror}.") from error
