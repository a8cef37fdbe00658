"""The register of PostgreSQL advisory locks: every id that CodeHub takes, so that no two uses share one by accident.

Advisory locks belong to one database, so installations that share a server do not meet. The upper four bytes spell
"CODE", which keeps clear of other programs in the same database.
"""

from enum import IntEnum

_NAMESPACE = 0x434F4445 << 32


class AdvisoryLock(IntEnum):
    """One id per purpose; an id is never given to another purpose."""

    MIGRATION = _NAMESPACE + 1  # session: one process at a time changes the schema
    LEADER = _NAMESPACE + 2  # session: held by the leading coordinator for as long as it leads
    LIMITS = _NAMESPACE + 3  # transaction: counting running workspaces and admitting one more is one step
