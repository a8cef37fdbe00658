"""Who wrote a status, and under which leadership: kept by the database itself, whatever a coordinator believes."""

from collections import defaultdict
from collections.abc import Mapping

import psycopg

from codehub.db.pool import Connection, Role

# A coordinator says its name in the options of its connections (codehub.who).
_KEEP = f"""
CREATE TABLE writes (at timestamptz DEFAULT clock_timestamp(), epoch bigint, holder text, who text, operation text);
CREATE FUNCTION keep_account() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$
BEGIN
    IF current_setting('role') = '{Role.CONTROLLER}' THEN
        INSERT INTO writes (epoch, holder, who, operation)
        SELECT epoch, holder, current_setting('codehub.who'), NEW.operation FROM leadership;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keep_account AFTER UPDATE ON workspaces FOR EACH ROW EXECUTE FUNCTION keep_account();
"""


async def keep_account(owner: Connection) -> None:
    await owner.execute(_KEEP)


async def writers(database_url: str) -> Mapping[int, set[str]]:
    """Who has written in each leadership."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as owner:
        rows = await (await owner.execute("SELECT epoch, who FROM writes ORDER BY at")).fetchall()
    found: dict[int, set[str]] = defaultdict(set)
    for epoch, who in rows:
        found[epoch].add(who)
    return found


def assert_one_writer_each(found: Mapping[int, set[str]]) -> None:
    """Each leadership has one writer, and nobody writes under another's."""
    for epoch, who in found.items():
        assert len(who) == 1, f"under epoch {epoch} wrote {sorted(who)}"
