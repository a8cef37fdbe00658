"""What in a schema belongs to something else: an extension brought it along, or it comes and goes with a table.

A restore drops the rest (replacing.py), refuses where that is not all CodeHub's (foreign.py), and knows CodeHub's by
the mark that a migration gives it (migrate.py).
"""


def no_extension_has(catalog: str) -> str:
    """A condition on the rows of this catalog."""
    return f"NOT EXISTS ({_holder(catalog)} AND deptype = 'e')"


def nothing_has(catalog: str) -> str:
    """… that neither is a table's, as the sequence of a column and the parts of a table are."""
    return f"NOT EXISTS ({_holder(catalog)} AND deptype IN ('e', 'i', 'a'))"


def _holder(catalog: str) -> str:
    return f"SELECT FROM pg_depend WHERE classid = '{catalog}'::regclass AND objid = {catalog}.oid"
