"""Where the coordinator finds `together` (codehub/together.py)."""

from codehub.together import together

__all__ = ["together"]
