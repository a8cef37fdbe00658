"""The schema's history: one small file per revision under `versions/`, plain SQL, forward only.

A revision that was released never changes again. `codehub.db.migrate` runs them.

From BASELINE on a revision only expands the schema, so that the version before runs on it as well. One that takes away
or changes what is there has `contract_after = "NNNN"`: the revision whose code, and any newer one's, does without
(docs/upgrade.md).

What a revision makes outside the schema (roles, privileges on the database) is in no dump of it: such statements are
repeatable and named in its `AROUND`, which a restore carries out by itself.
"""

from typing import NoReturn

BASELINE = "0014"

# The comment on each table, view, routine, type and sequence (but a table's own), by which an older CodeHub tells a
# newer one's from other people's.
MARK = "of CodeHub"


def forward_only() -> NoReturn:
    """Every revision's downgrade: going back would have to invent what the newer version recorded."""
    raise NotImplementedError("Migrations only go forward: restore a backup instead.")
