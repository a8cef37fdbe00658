"""The reference fake: every promise of drivers/base.py kept in memory, and broken by name when a test asks for it.

It passes the same contract suite as the drivers for real infrastructure, and is what the coordinator is tested with.
"""

from codehub.drivers.memory.faults import Fault, Misbehaviour
from codehub.drivers.memory.world import MemoryWorld

__all__ = ["Fault", "MemoryWorld", "Misbehaviour"]
