"""Whether a change of the schema leaves alone whoever does not know of it: judged by what PostgreSQL says of both.

Everything that was there must still be there, as it was. What is new must not stand in the way of rows that are written
without it.
"""

from dataclasses import dataclass

import psycopg


@dataclass(frozen=True, order=True)
class Thing:
    """Something of a schema; `table` is the one it belongs to."""

    kind: str
    table: str
    name: str
    definition: str

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.kind, self.table, self.name


_HERE = "relnamespace = 'public'::regnamespace"
_QUERIES = {
    "table": f"SELECT relname, relname, '' FROM pg_class WHERE {_HERE} AND relkind = 'r'",
    "column": f"""SELECT c.relname, a.attname,
                         concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN attnotnull THEN 'not null' END,
                                   'default ' || pg_get_expr(d.adbin, d.adrelid), nullif(a.attidentity::text, ''))
                  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                  WHERE {_HERE} AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped""",
    "constraint": """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
                     WHERE connamespace = 'public'::regnamespace AND contype <> 'n'""",
    "index": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "trigger": """SELECT tgrelid::regclass::text, tgname, concat_ws(' ', pg_get_triggerdef(oid), tgenabled)
                  FROM pg_trigger WHERE NOT tgisinternal""",
    "function": """SELECT '', oid::regprocedure::text, pg_get_functiondef(oid) FROM pg_proc
                   WHERE pronamespace = 'public'::regnamespace""",
    "type": """SELECT '', t.typname, string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder)
               FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
               WHERE t.typnamespace = 'public'::regnamespace GROUP BY t.oid""",
    "privilege": f"""SELECT relname, concat_ws(' ', x.privilege_type, x.grantee::regrole), '' FROM pg_class,
                            aclexplode(relacl) x WHERE {_HERE}""",
    "privilege on a column": f"""SELECT c.relname, concat_ws(' ', a.attname, x.privilege_type, x.grantee::regrole), ''
                                 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, aclexplode(a.attacl) x
                                 WHERE {_HERE} AND NOT a.attisdropped""",
}


def things(database_url: str) -> frozenset[Thing]:
    with psycopg.connect(database_url) as conn:
        return frozenset(
            Thing(kind, *row) for kind, query in _QUERIES.items() for row in conn.execute(query.encode()).fetchall()
        )


def broken(before: frozenset[Thing], after: frozenset[Thing]) -> list[str]:
    """What an older version may stumble over; empty for a change that only expands."""
    old, new = ({thing.identity: thing for thing in each} for each in (before, after))
    lines = []
    for identity, was in sorted(old.items()):
        now = new.get(identity)
        what = f"{was.kind} {was.name} of {was.table}" if was.table else f"{was.kind} {was.name}"
        if now is None:
            lines.append(f"{what} is gone")
        elif now != was:
            lines.append(f"{what} was {was.definition}, is {now.definition}")
    known = {thing.table for thing in before if thing.kind == "table"}
    lines += [
        f"{thing.kind} {thing.name} of {thing.table} is new and in the way: {thing.definition}"
        for thing in sorted(after)
        if thing.identity not in old and thing.table in known and _is_in_the_way(thing)
    ]
    return lines


def _is_in_the_way(thing: Thing) -> bool:
    """Of a row that is written without knowing of it."""
    definition = thing.definition
    if thing.kind == "column":
        return "not null" in definition and "default " not in definition
    return thing.kind == "constraint" or (thing.kind == "index" and definition.startswith("CREATE UNIQUE"))
