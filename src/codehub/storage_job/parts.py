"""How large the parts of an upload are: small at first, growing so that 10,000 of them hold 5 TiB.

A part is in memory until the store has it, because only then can it be sent again by itself. So parts stay as small as
the number of parts allows, and fewer are in memory at once as they grow: 64 MiB for archives below 9 GiB, 128 MiB below
66 GiB, 256 MiB below 116 GiB, and never more than 640 MiB.
"""

MIB = 1 << 20
MOST_PARTS = 10_000  # S3's own limit
MOST_BYTES = 5 << 40  # of one object: S3's own limit
_HELD = 128  # units that are in memory at once, unless one part is larger
_MOST_HELD = 4
_STEPS = (
    (600, 16),
    (300, 32),
    (250, 64),
    (250, 128),
    (200, 256),
    (200, 512),
    (8200, 640),
)  # how many, of how many units


def size_of(number: int, unit: int = MIB) -> int:
    """Bytes of the part of this number, from 1 on; ValueError beyond the last. `unit` is smaller in tests."""
    last = 0
    for count, units in _STEPS:
        last += count
        if number <= last:
            return units * unit
    raise ValueError(f"an upload has at most {MOST_PARTS} parts")


def held_at_once(size: int, unit: int = MIB) -> int:
    """How many parts of this size may be in memory: the one that is being filled and those on their way."""
    return max(1, min(_MOST_HELD, _HELD * unit // size))
