"""Leaving without being missed: a process that was told to stop says so before it takes nothing more.

From SIGTERM on `/readyz` answers 503 with `draining` and every answer closes its connection, while requests are still
taken for `delay` seconds: as long as whoever shares requests out needs to notice.
"""

from dataclasses import dataclass


@dataclass
class Draining:
    """Of one process."""

    delay: float = 0.0
    begun: bool = False
