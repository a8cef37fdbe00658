"""The schema's history: one small file per revision under `versions/`, plain SQL, forward only.

A revision that was released never changes again. `codehub.db.migrate` runs them.
"""

from typing import NoReturn


def forward_only() -> NoReturn:
    """Every revision's downgrade: going back would have to invent what the newer version recorded."""
    raise NotImplementedError("Migrations only go forward: restore a backup instead.")
