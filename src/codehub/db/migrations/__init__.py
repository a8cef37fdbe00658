"""The schema's history: one small file per revision under `versions/`, plain SQL, forward only.

A revision that was released never changes again. `codehub.db.migrate` runs them.

From BASELINE on a revision only expands the schema, so that the version before runs on it as well. One that takes away
or changes what is there has `contract_after = "NNNN"`: the revision whose code, and any newer one's, does without
(docs/upgrade.md).
"""

from typing import NoReturn

BASELINE = "0014"


def forward_only() -> NoReturn:
    """Every revision's downgrade: going back would have to invent what the newer version recorded."""
    raise NotImplementedError("Migrations only go forward: restore a backup instead.")
